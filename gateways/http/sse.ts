import type { FastifyReply } from 'fastify'

export interface EventStreamOptions {
  /** What a browser waits before it connects again. */
  readonly retryMs: number
}

/** A response of server-sent events. Source: https://html.spec.whatwg.org/multipage/server-sent-events.html */
export interface EventStream {
  /** Bytes given and not yet taken by the connection. */
  readonly unsentBytes: number
  /** One event or several, complete with their blank line. */
  write(events: Buffer | string): void
  /** Keeps the connection from being taken for dead. */
  beat(): void
  /** Sends the last events and closes, whether the client takes them or not. */
  end(events: string): void
  /** Resolves when the client has taken everything, or is gone. */
  drained(): Promise<void>
  /** The client is gone; also when it is already. */
  onClose(listener: () => void): void
}

/** What a client that no longer reads is given to take its last events. */
const lingerMs = 2_000

/** Takes the response out of fastify's hands; headers set on the reply until now are sent. */
export function openEventStream(reply: FastifyReply, { retryMs }: EventStreamOptions): EventStream {
  reply.hijack()
  const { raw } = reply
  raw.on('error', () => raw.destroy())
  raw.socket?.setNoDelay(true)
  for (const [name, value] of Object.entries(reply.getHeaders())) if (value !== undefined) raw.setHeader(name, value)
  raw.writeHead(200, {
    'Content-Type': 'text/event-stream; charset=utf-8',
    'Cache-Control': 'no-store, no-transform',
    // Without it nginx keeps events back until its buffer is full.
    'X-Accel-Buffering': 'no',
  })
  raw.write(`retry: ${retryMs}\n\n`)
  const write = (events: Buffer | string): void => {
    if (!raw.destroyed && !raw.writableEnded) raw.write(events)
  }
  return {
    get unsentBytes() {
      return raw.writableLength
    },
    write,
    beat: () => write(': beat\n\n'),
    end(events) {
      if (raw.destroyed || raw.writableEnded) return
      const timer = setTimeout(() => raw.destroy(), lingerMs)
      raw.once('close', () => clearTimeout(timer))
      raw.end(events)
    },
    async drained() {
      if (raw.destroyed || !raw.writableNeedDrain) return
      await new Promise<void>((resolve) => {
        const done = () => {
          raw.off('drain', done).off('close', done)
          resolve()
        }
        raw.once('drain', done).once('close', done)
      })
    },
    onClose(listener) {
      if (raw.destroyed) listener()
      else raw.once('close', listener)
    },
  }
}

/** One event; `data` has no line ends. */
export function eventText(event: string, data: string, id?: number): string {
  return `${id === undefined ? '' : `id: ${id}\n`}event: ${event}\ndata: ${data}\n\n`
}
