import { LRUCache } from 'lru-cache'
import type { Bus } from '../../bus/connect.ts'
import { answersSubject } from '../../bus/subject.ts'
import { AnswerWriter, noteMessage } from '../../schemas/functions/call-frames.ts'
import { failed, type RunResult } from './runner.ts'

/** Larger ones are sent at once. */
const maxBytes = 128 * 1024
const maxAnswers = 32
/** Room for what stands around an answer. */
const frameBytes = 1_024

/** Answers on their way to the gateways: those that come in one turn of the event loop in one message. */
export class CallAnswers {
  readonly #bus: Bus
  readonly #writers = new Map<string, AnswerWriter>()
  readonly #subjects = new LRUCache<string, string>({ max: 1_000 })
  #scheduled = false

  constructor(bus: Bus) {
    this.#bus = bus
  }

  add(gateway: string, id: number, { head, body, durationMs }: RunResult): void {
    const largest = (this.#bus.connection.info?.max_payload ?? 1_048_576) - frameBytes
    if (body.length + head.length > largest) {
      const fault = { code: 'output-too-large', message: 'The result is larger than the bus takes' } as const
      this.add(gateway, id, failed(fault, durationMs))
      return
    }
    const writer = this.#writerFor(gateway, head.length + body.length)
    writer.add(id, head, body)
    if (writer.count >= maxAnswers || writer.size >= maxBytes) this.#send(gateway, writer)
    else this.#schedule()
  }

  /** Says at once which calls are being worked on. */
  note(gateway: string, ids: readonly number[]): void {
    this.#publish(gateway, noteMessage(ids))
  }

  flush(): void {
    this.#scheduled = false
    for (const [gateway, writer] of this.#writers) this.#send(gateway, writer)
  }

  #writerFor(gateway: string, bytes: number): AnswerWriter {
    const open = this.#writers.get(gateway)
    if (open !== undefined && open.size + bytes <= maxBytes) return open
    if (open !== undefined) this.#send(gateway, open)
    const writer = new AnswerWriter()
    this.#writers.set(gateway, writer)
    return writer
  }

  #schedule(): void {
    if (this.#scheduled) return
    this.#scheduled = true
    setImmediate(() => this.flush())
  }

  #send(gateway: string, writer: AnswerWriter): void {
    this.#writers.delete(gateway)
    this.#publish(gateway, writer.end())
  }

  #publish(gateway: string, message: Uint8Array): void {
    const subject = this.#subjects.get(gateway) ?? answersSubject(gateway)
    this.#subjects.set(gateway, subject)
    try {
      this.#bus.connection.publish(subject, message)
    } catch {
      // The connection is closed: the gateway finds the calls lost.
    }
  }
}
