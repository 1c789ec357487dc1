import type { CaptureStatus } from '../../schemas/data/capture-status.ts'
import type { Capture } from './capture-loop.ts'
import { type PostgresCaptureOptions, startPostgresCapture } from './postgres-capture.ts'

export interface CaptureOptions extends PostgresCaptureOptions {
  /** How long the start waits to learn how it goes. Default 10,000. */
  readonly firstStatusMs?: number
}

const settled: ReadonlySet<CaptureStatus['state']> = new Set(['running', 'standby', 'refused', 'failing', 'stopped'])

/** The role: starts the reader and answers as soon as it reads, stands by, or knows why it cannot yet. */
export async function startCapture({ firstStatusMs = 10_000, ...options }: CaptureOptions): Promise<Capture> {
  const { onObservation = () => undefined } = options
  const known = Promise.withResolvers<void>()
  const capture = startPostgresCapture({
    ...options,
    onObservation(observation) {
      if (observation.type === 'capture-state' && settled.has(observation.state)) known.resolve()
      onObservation(observation)
    },
  })
  const timer = setTimeout(known.resolve, firstStatusMs)
  await known.promise
  clearTimeout(timer)
  return capture
}
