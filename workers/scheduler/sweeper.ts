import { type Bus, BusUnavailable } from '../../bus/connect.ts'
import { pause } from '../../bus/pause.ts'
import { asking } from '../../bus/publish.ts'
import { sendCommand } from '../workflows/follow-ups.ts'

export interface IdleExecution {
  readonly id: string
  /** Of the event in EVT_EXECUTIONS that created it. */
  readonly createdSequence: number
}

/** Executions that have not ended and of which nothing was heard for a time, the longest first; `next` is null behind the last. */
export type FindIdle = (page: {
  readonly idleMs: number
  readonly limit: number
  readonly after: string | null
}) => Promise<{ readonly executions: readonly IdleExecution[]; readonly next: string | null }>

export interface SweeperOptions {
  readonly findIdle: FindIdle
  /** Default 5,000. */
  readonly everyMs?: number
  /** Default 60,000. */
  readonly idleMs?: number
  readonly onObservation: (
    observation:
      | { readonly type: 'executions-nudged'; readonly count: number }
      | { readonly type: 'sweep-trouble'; readonly error: unknown },
  ) => void
}

const pageSize = 1_000
const firstBackOffMs = 60_000
const longestBackOffMs = 3_600_000

interface Nudged {
  readonly at: number
  readonly backOffMs: number
}

/**
 * Has the engine look at executions of which nothing is heard: something may have been lost. Those that wait for long are asked less and
 * less. A nudge's id is made of execution and minute, so it is one, however many schedulers sweep.
 */
export async function sweep(bus: Bus, options: SweeperOptions, signal: AbortSignal): Promise<void> {
  const { everyMs = 5_000, onObservation } = options
  const nudged = new Map<string, Nudged>()
  for (let after: string | null = null; !signal.aborted; ) {
    await pause(everyMs, signal)
    if (signal.aborted) return
    try {
      after = await sweepPage(bus, options, nudged, after)
    } catch (error) {
      if (!(error instanceof BusUnavailable)) onObservation({ type: 'sweep-trouble', error })
    }
  }
}

async function sweepPage(
  bus: Bus,
  { findIdle, idleMs = 60_000, onObservation }: SweeperOptions,
  nudged: Map<string, Nudged>,
  after: string | null,
): Promise<string | null> {
  const { executions, next } = await findIdle({ idleMs, limit: pageSize, after })
  const begun = await deliveredSequence(bus)
  const now = Date.now()
  let count = 0
  for (const { id, createdSequence } of executions) {
    const before = nudged.get(id)
    // Those that wait for their turn have not been lost.
    if (createdSequence > begun || (before !== undefined && now < before.at + before.backOffMs)) continue
    const command = { type: 'nudge', sweep: true } as const
    await sendCommand(bus, id, command, `${id}/nudge/${Math.floor(now / firstBackOffMs)}`)
    const backOffMs = before === undefined ? firstBackOffMs : Math.min(longestBackOffMs, before.backOffMs * 2)
    nudged.set(id, { at: now, backOffMs })
    count++
  }
  // What has not been idle any more for long is forgotten.
  for (const [id, { at, backOffMs }] of nudged) if (now > at + 2 * backOffMs + firstBackOffMs) nudged.delete(id)
  if (count > 0) onObservation({ type: 'executions-nudged', count })
  return next
}

async function deliveredSequence(bus: Bus): Promise<number> {
  const { delivered } = await asking(bus, () =>
    bus.manager.consumers.info('EVT_EXECUTIONS', 'workers-workflows-executions'),
  )
  return delivered.stream_seq
}
