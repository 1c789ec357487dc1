import type { TaskRequestInit } from '../../plugin.ts'

interface ReadEvent {
  readonly id: string | null
  readonly event: string
  /** JSON where it is some. */
  readonly data: unknown
}

export interface EventReading {
  readonly partial: NonNullable<TaskRequestInit['partial']>
  readonly events: readonly ReadEvent[]
  readonly close: () => void
}

/** Reads server-sent events until there are enough of them, or for long enough. Source: WHATWG HTML, server-sent events */
export async function readEvents({
  max,
  forMs,
  maxBytes,
}: {
  readonly max: number
  readonly forMs: number
  readonly maxBytes: number
}): Promise<EventReading> {
  const { createParser } = await import('eventsource-parser')
  const events: ReadEvent[] = []
  const enough = new AbortController()
  const timer = setTimeout(() => enough.abort(), forMs)
  const decoder = new TextDecoder()
  let sizeBytes = 0
  const parser = createParser({
    onEvent({ id, event, data }) {
      if (events.length < max) events.push({ id: id ?? null, event: event ?? 'message', data: dataOf(data) })
      if (events.length >= max) enough.abort()
    },
  })
  const onChunk = (chunk: Buffer) => {
    sizeBytes += chunk.length
    parser.feed(decoder.decode(chunk, { stream: true }))
    if (sizeBytes >= maxBytes) enough.abort()
  }
  return { partial: { until: enough.signal, onChunk }, events, close: () => clearTimeout(timer) }
}

function dataOf(data: string): unknown {
  try {
    return JSON.parse(data)
  } catch {
    return data
  }
}
