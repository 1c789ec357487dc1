import type { Change } from './changes-event.ts'

/** Something that came over the stream: a change, or a gap in its history. */
export interface Arrival {
  readonly sequence: number
  readonly receivedAt: number
  /** What the subject of the table begins with; null for what concerns every table. */
  readonly table: string | null
  readonly change: Change | null
  /** Why changes may be missing here; null for a change. */
  readonly gap: string | null
}

/** The last arrivals, for clients that come back after a moment: they need not be read from the stream again. */
export class ChangeRing {
  readonly #maxBytes: number
  #arrivals: Arrival[] = []
  /** Arrivals before this index are let go of. */
  #first = 0
  #bytes = 0
  #start: number

  /** @param start sequence from which on the ring will hold everything */
  constructor(start: number, maxBytes: number) {
    this.#start = start
    this.#maxBytes = maxBytes
  }

  /** Everything from this sequence on is here. */
  get start(): number {
    return this.#start
  }

  push(arrival: Arrival): void {
    this.#arrivals.push(arrival)
    this.#bytes += sizeOf(arrival)
    while (this.#bytes > this.#maxBytes && this.#first < this.#arrivals.length) {
      const gone = this.#arrivals[this.#first]!
      this.#bytes -= sizeOf(gone)
      this.#start = gone.sequence + 1
      this.#first += 1
    }
    if (this.#first > 1024 && this.#first * 2 > this.#arrivals.length) {
      this.#arrivals = this.#arrivals.slice(this.#first)
      this.#first = 0
    }
  }

  /** The arrivals of a table from a sequence on, at most so many. */
  of(table: string, from: number, limit: number): Arrival[] {
    const found: Arrival[] = []
    for (let at = this.#indexOf(from); at < this.#arrivals.length && found.length < limit; at++) {
      const arrival = this.#arrivals[at]!
      if (arrival.table === null || arrival.table === table) found.push(arrival)
    }
    return found
  }

  /** The oldest sequence here that arrived at this time or later; the next one to come when there is none. */
  since(receivedAt: number, next: number): number {
    for (let at = this.#first; at < this.#arrivals.length; at++) {
      const arrival = this.#arrivals[at]!
      if (arrival.receivedAt >= receivedAt) return arrival.sequence
    }
    return next
  }

  #indexOf(sequence: number): number {
    let low = this.#first
    let high = this.#arrivals.length
    while (low < high) {
      const middle = (low + high) >> 1
      if (this.#arrivals[middle]!.sequence < sequence) low = middle + 1
      else high = middle
    }
    return low
  }
}

/** Memory an arrival takes, about. */
export function sizeOf({ change }: Arrival): number {
  return 200 + (change?.body.length ?? 0)
}
