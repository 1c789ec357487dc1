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
}

/** More calls go in a message of their own, so that another worker may have them. */
const maxCalls = 32
/** So many go together although that is more than half of those under way: the other half is to be on its way meanwhile. */
const fewCalls = 4
const maxBytes = 128 * 1024
/** Who has more to carry does not gain by waiting. */
const fewBytes = 16 * 1024
/** For so many turns of the event loop that bring no call another one is awaited; then it is slept, but not for longer than this. */
const emptyTurns = 2
const maxSleepMs = 1
/** So many messages go without a sleep when one has brought nothing, and twice as many each time again. */
const firstSleepless = 32
const mostSleepless = 1_024
/** How long the number of calls under way is remembered, and at most twice as long. */
const rememberedMs = 20

/**
 * Sends calls, several in one message: half of those that are under way most of the time, for the less a message carries the more each call
 * costs on its way, and the other half is answered meanwhile. A message has a subject to itself for as long as one of its calls is not
 * answered, so that it can be looked up.
 */
export class CallBatches {
  readonly #bus: Bus
  readonly #gateway: string
  readonly #usual = new Usual()
  readonly #freeSubjects: string[] = []
  #subjects = 0
  #lastNumber = 0
  #filling: Filling | null = null
  #sleeping: NodeJS.Timeout | null = null
  /** Messages that still go without a sleep. */
  #sleepless = 0
  #nextSleepless = firstSleepless

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
    const usual = this.#usual.with(underWay)
    const full = writer.count >= Math.min(maxCalls, Math.max(fewCalls, usual / 2))
    if (full) this.#nextSleepless = firstSleepless
    // Where as many are under way as ever, no other call is to be expected.
    if (full || (underWay >= usual && writer.count >= usual / 3)) this.#flush()
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
    const filling = { batch, writer: new CallWriter(number) }
    this.#filling = filling
    setImmediate(() => this.#look(filling, 1, 0))
    return filling
  }

  /** Sends the message when turns of the event loop, and then a sleep, have brought no call more. */
  #look(filling: Filling, count: number, empty: number): void {
    if (this.#filling !== filling) return
    const { count: now, size } = filling.writer
    const turns = now === count ? empty + 1 : 0
    if (size > fewBytes) this.#flush()
    else if (turns <= emptyTurns) setImmediate(() => this.#look(filling, now, turns))
    else if (this.#sleepless > 0) {
      this.#sleepless -= 1
      this.#flush()
    } else this.#sleeping = setTimeout(() => this.#sleptOver(filling, now), maxSleepMs)
  }

  /** The sleep has not been ended by as many calls as were hoped for. */
  #sleptOver(filling: Filling, count: number): void {
    if (filling.writer.count === count) {
      this.#sleepless = this.#nextSleepless
      this.#nextSleepless = Math.min(mostSleepless, this.#nextSleepless * 2)
    }
    this.#flush()
  }

  #flush(): void {
    const filling = this.#filling
    if (filling === null) return
    this.#filling = null
    if (this.#sleeping !== null) clearTimeout(this.#sleeping)
    this.#sleeping = null
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

/** How many calls have been under way at once lately. */
class Usual {
  #most = 0
  #mostBefore = 0
  /** Of performance.now(). */
  #since = 0

  with(underWay: number): number {
    const now = performance.now()
    if (now - this.#since > rememberedMs) {
      this.#mostBefore = this.#most
      this.#most = 0
      this.#since = now
    }
    this.#most = Math.max(this.#most, underWay)
    return Math.max(this.#most, this.#mostBefore)
  }
}
