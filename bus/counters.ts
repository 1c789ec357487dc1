import type { PubAck } from '@nats-io/jetstream'
import type { Bus } from './connect.ts'
import { newId } from './message.ts'
import { isNothingFound } from './page.ts'
import { asking, publish } from './publish.ts'
import { counterSubject } from './subject.ts'

export type CounterName = readonly [string, ...string[]]

export type CounterObservation = {
  readonly type: 'counters-not-flushed'
  /** How many counters wait for the next flush. */
  readonly waiting: number
  readonly error: unknown
}

interface CountersOptions {
  /** Default 1,000. */
  readonly flushMs?: number
  readonly onObservation?: (observation: CounterObservation) => void
}

/** Totals that any number of processes add to. What is not flushed is lost with the process. Source: NATS ADR-49. */
export interface Counters extends AsyncDisposable {
  /** Kept here until the next flush. @throws {RangeError} when it is no whole number. */
  add(name: CounterName, n?: number): void
  /** @throws {BusUnavailable}; what could not be written is kept for the next time. */
  flush(): Promise<void>
  /** Flushes, then adds nothing more. @throws {BusUnavailable} */
  close(): Promise<void>
}

const stream = 'COUNTERS'
/** As many as the server reads at once. */
const maxCountersRead = 1_000

/** The total that has been flushed; 0 for a counter that nobody has added to. @throws {BusUnavailable} */
export async function counterValue(bus: Bus, name: CounterName): Promise<number> {
  const query = { last_by_subj: counterSubject(...name) }
  const last = await asking(bus, () => bus.manager.direct.getMessage(stream, query))
  return last === null ? 0 : Number(last.json<{ val: string }>().val)
}

/** The totals of at most 1,000 counters, in one read. @throws {BusUnavailable} */
export async function counterValues(bus: Bus, names: readonly CounterName[]): Promise<readonly number[]> {
  const subjects = names.map((name) => counterSubject(...name))
  const found = new Map<string, number>()
  if (subjects.length > 0) {
    await asking(bus, async () => {
      const query = { multi_last: subjects, batch: maxCountersRead }
      for await (const last of await bus.manager.direct.getLastMessagesFor(stream, query)) {
        found.set(last.subject, Number(last.json<{ val: string }>().val))
      }
    }).catch((error: unknown) => {
      if (!isNothingFound(error)) throw error
    })
  }
  return subjects.map((subject) => found.get(subject) ?? 0)
}

/** Adds at once, under one id once; the total with it, in the order in which the bus has the additions. @throws {BusUnavailable} */
export async function addToCounter(bus: Bus, name: CounterName, n: number, id = newId()): Promise<number> {
  const headers = { 'Nats-Msg-Id': id, 'Nats-Incr': signed(n) }
  // The client's type of the answer does not know of counters.
  const { val }: PubAck & { readonly val?: string } = await publish(bus, { subject: counterSubject(...name), headers })
  return val === undefined ? await counterValue(bus, name) : Number(val)
}

const signed = (n: number): string => (n < 0 ? String(n) : `+${n}`)

export function openCounters(bus: Bus, { flushMs = 1_000, onObservation }: CountersOptions = {}): Counters {
  const counters = new BufferedCounters(bus)
  const timer = setInterval(() => {
    counters.flush().catch((error: unknown) => {
      onObservation?.({ type: 'counters-not-flushed', waiting: counters.waiting, error })
    })
  }, flushMs)
  timer.unref()
  const close = async () => {
    clearInterval(timer)
    await counters.flush()
  }
  return {
    add: (name, n = 1) => counters.add(name, n),
    flush: () => counters.flush(),
    close,
    [Symbol.asyncDispose]: close,
  }
}

/** A sum on its way keeps its id until the bus has it, so that an unanswered try is counted once. */
interface Sum {
  readonly id: string
  readonly n: number
}

class BufferedCounters {
  readonly #bus: Bus
  readonly #added = new Map<string, number>()
  readonly #sending = new Map<string, Sum>()
  #flushing: Promise<void> | null = null

  constructor(bus: Bus) {
    this.#bus = bus
  }

  get waiting(): number {
    return new Set([...this.#added.keys(), ...this.#sending.keys()]).size
  }

  add(name: CounterName, n: number): void {
    if (!Number.isSafeInteger(n)) throw new RangeError(`${n} cannot be added to a counter`)
    const subject = counterSubject(...name)
    this.#added.set(subject, (this.#added.get(subject) ?? 0) + n)
  }

  /** One at a time; what is added meanwhile goes with the next. */
  async flush(): Promise<void> {
    while (this.#flushing !== null) await this.#flushing.catch(() => undefined)
    this.#flushing = this.#flush().finally(() => {
      this.#flushing = null
    })
    await this.#flushing
  }

  async #flush(): Promise<void> {
    for (const [subject, n] of this.#added) {
      if (this.#sending.has(subject)) continue
      this.#added.delete(subject)
      if (n !== 0) this.#sending.set(subject, { id: newId(), n })
    }
    const sent = await Promise.allSettled([...this.#sending].map(([subject, sum]) => this.#send(subject, sum)))
    const failure = sent.find(({ status }) => status === 'rejected') as PromiseRejectedResult | undefined
    if (failure !== undefined) throw failure.reason
  }

  async #send(subject: string, { id, n }: Sum): Promise<void> {
    const headers = { 'Nats-Msg-Id': id, 'Nats-Incr': signed(n) }
    await publish(this.#bus, { subject, headers })
    this.#sending.delete(subject)
  }
}
