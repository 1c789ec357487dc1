import type { Bus } from '../../bus/connect.ts'
import { callSubject } from '../../bus/subject.ts'
import { CallWriter } from '../../schemas/functions/call-frames.ts'

/** Calls that were sent in one message. */
export interface CallBatch {
  readonly number: number
  readonly subject: string
  /** Those of its calls that are not answered. */
  readonly open: Set<number>
}

export interface SentCall {
  readonly id: number
  /** Epoch ms. */
  readonly deadlineAt: number
  readonly target: string
  readonly start: string
  readonly body: Uint8Array
}

interface Filling {
  readonly batch: CallBatch
  readonly writer: CallWriter
  /** Of performance.now(). */
  readonly since: number
}

/** More calls go in a message of their own, so that another worker may have them. */
const maxCalls = 32
/** So many go together although that is more than half of those under way: the other half is to be on its way meanwhile. */
const fewCalls = 4
const maxBytes = 128 * 1024
/** Who has more to carry does not gain by waiting. */
const fewBytes = 16 * 1024
const maxWaitMs = 1
/** Some 100 us. */
const mostPatience = 16

/**
 * Sends calls, those that came in successive turns of the event loop in one message. A message has a subject to itself for as long as one of its
 * calls is not answered, so that it can be looked up.
 */
export class CallBatches {
  readonly #bus: Bus
  readonly #gateway: string
  readonly #freeSubjects: string[] = []
  #subjects = 0
  #lastNumber = 0
  #filling: Filling | null = null
  /** So many empty turns of the event loop are waited for another call: ever more while that brings one, ever fewer while it does not. */
  #patience = 1

  constructor(bus: Bus, gateway: string) {
    this.#bus = bus
    this.#gateway = gateway
  }

  /** `underWay`: calls that are not answered. */
  send({ id, deadlineAt, target, start, body }: SentCall, underWay: number): CallBatch {
    const size = start.length + body.length
    if (this.#filling !== null && this.#filling.writer.size + size > maxBytes) this.#flush()
    const { batch, writer } = this.#filling ?? this.#begin()
    writer.add(id, deadlineAt, target, start, body)
    batch.open.add(id)
    if (writer.count >= Math.min(maxCalls, Math.max(fewCalls, underWay / 2))) this.#flush()
    return batch
  }

  answered(id: number, batch: CallBatch): void {
    batch.open.delete(id)
    if (batch !== this.#filling?.batch) this.#release(batch)
  }

  #begin(): Filling {
    this.#lastNumber = (this.#lastNumber + 1) % 2 ** 32
    const number = this.#lastNumber
    const subject = this.#freeSubjects.pop() ?? callSubject(this.#gateway, this.#subjects++)
    const batch = { number, subject, open: new Set<number>() }
    const filling = { batch, writer: new CallWriter(number), since: performance.now() }
    this.#filling = filling
    setImmediate(() => this.#look(filling, 1, 0))
    return filling
  }

  /** Sends the message when turns of the event loop have brought no call more. */
  #look(filling: Filling, count: number, emptyTurns: number): void {
    if (this.#filling !== filling) return
    const { count: now, size } = filling.writer
    const empty = now === count ? emptyTurns + 1 : 0
    if (empty === 0 && emptyTurns > 0) this.#patience = Math.min(mostPatience, this.#patience * 2)
    const enough = empty > this.#patience
    if (enough) this.#patience = Math.max(1, Math.floor(this.#patience / 2))
    if (enough || size > fewBytes || performance.now() - filling.since > maxWaitMs) this.#flush()
    else setImmediate(() => this.#look(filling, now, empty))
  }

  #flush(): void {
    const filling = this.#filling
    if (filling === null) return
    this.#filling = null
    this.#release(filling.batch)
    try {
      this.#bus.connection.publish(filling.batch.subject, filling.writer.end())
    } catch {
      // The connection is closed for good: its calls are found lost.
    }
  }

  #release({ open, subject }: CallBatch): void {
    if (open.size === 0) this.#freeSubjects.push(subject)
  }
}
