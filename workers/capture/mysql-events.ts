import type { BinlogEvent, default as ZongJi } from '@vlasky/zongji'
import type { Connection } from 'mysql2'

/** Events that wait before the server is held back. */
const maxWaiting = 2_000

export interface EventHandler {
  /** As soon as the event has come: what comes behind it is read when this has ended. */
  readonly prepare: (event: BinlogEvent) => Promise<void> | undefined
  /** One at a time. `resume` is what was executed when the event came. */
  readonly handle: (event: BinlogEvent, resume: string) => Promise<void> | undefined
  readonly fail: (error: unknown) => void
}

/** The events of a log in their order, one at a time; the server is held back while too many wait. */
export class EventQueue {
  readonly #zongji: ZongJi
  readonly #handler: EventHandler
  #waiting: { readonly event: BinlogEvent; readonly resume: string }[] = []
  #working = false
  #held = false
  #preparing = false
  #closed = false

  constructor(zongji: ZongJi, handler: EventHandler) {
    this.#zongji = zongji
    this.#handler = handler
    zongji.on('binlog', (event) => {
      // What is executed before it, as of this moment.
      const resume = zongji.gtidSet ?? ''
      const preparing = handler.prepare(event)
      if (preparing === undefined) this.#push(event, resume)
      else void this.#prepare(preparing, event, resume)
    })
  }

  close(): void {
    this.#closed = true
    this.#waiting = []
  }

  async #prepare(preparing: Promise<void>, event: BinlogEvent, resume: string): Promise<void> {
    this.#pause({ preparing: true })
    try {
      await preparing
      this.#push(event, resume)
      this.#pause({ preparing: false })
    } catch (error) {
      this.#handler.fail(error)
    }
  }

  #push(event: BinlogEvent, resume: string): void {
    this.#waiting.push({ event, resume })
    if (this.#waiting.length > maxWaiting && !this.#held) this.#pause({ held: true })
    if (!this.#working) void this.#work()
  }

  async #work(): Promise<void> {
    this.#working = true
    try {
      while (this.#waiting.length > 0) {
        for (const { event, resume } of this.#waiting.splice(0)) {
          if (this.#closed) return
          const busy = this.#handler.handle(event, resume)
          if (busy !== undefined) await busy
        }
        if (this.#held) this.#pause({ held: false })
      }
    } catch (error) {
      this.#handler.fail(error)
    } finally {
      this.#working = false
    }
  }

  #pause({
    held = this.#held,
    preparing = this.#preparing,
  }: {
    readonly held?: boolean
    readonly preparing?: boolean
  }) {
    this.#held = held
    this.#preparing = preparing
    // The client shows its connection to the log, and nothing to slow it down with.
    const { connection } = this.#zongji as unknown as { readonly connection?: Connection }
    if (held || preparing) connection?.pause()
    else connection?.resume()
  }
}
