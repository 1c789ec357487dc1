import type { TaskRequestInit } from '../../plugin.ts'

interface ReadEvent {
  readonly id: string | null
  readonly event: string
  /** JSON where it is some. */
  readonly data: unknown
}

export interface EventReading {
  /** For each request: what an earlier one has read does not count. */
  readonly begin: () => NonNullable<TaskRequestInit['partial']>
  readonly events: () => readonly ReadEvent[]
  readonly close: () => void
}

interface Enough {
  readonly max: number
  readonly forMs: number
  readonly maxBytes: number
}

/** Reads server-sent events until there are enough of them, or for long enough. Source: WHATWG HTML, server-sent events */
export async function eventReading({ max, forMs, maxBytes }: Enough): Promise<EventReading> {
  const { createParser } = await import('eventsource-parser')
  const enough = new AbortController()
  const timer = setTimeout(() => enough.abort(), forMs)
  let events: ReadEvent[] = []
  const begin = () => {
    events = []
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
    return { until: enough.signal, onChunk }
  }
  return { begin, events: () => events, close: () => clearTimeout(timer) }
}

function dataOf(data: string): unknown {
  try {
    return JSON.parse(data)
  } catch {
    return data
  }
}
