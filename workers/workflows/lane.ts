import { BusUnavailable } from '../../bus/connect.ts'

/** Whose work it is, and what of the lane it may have. */
export interface Share {
  readonly key: string
  /** So many places for each that is free. */
  readonly weight: number
  /** Places that do not count as free: they are for keys that have none yet, or few. */
  readonly spare: number
}

/**
 * Places for work that is taken in the order in which it came. Nobody gets all of them: with a weight of 2 one alone has two thirds at the
 * most, two have four fifths together, and however many there are, who has none yet finds a place, and who has fewer than half of what is
 * left another one. Source: dynamic thresholds, Choudhury and Hahne 1998.
 */
export class Lane {
  /** A place that nobody counts. */
  static readonly uncounted: Disposable = { [Symbol.dispose]() {} }
  readonly places: number
  readonly #held = new Map<string, number>()
  #taken = 0
  #freed = Promise.withResolvers<void>()

  constructor(places: number) {
    this.places = places
  }

  /** A place for work that is in hand, to be given back when it is done; null when one of the keys has its share. */
  take(...shares: readonly Share[]): Disposable | null {
    const hasShare = ({ key, weight, spare }: Share) => {
      const held = this.#heldBy(key)
      const free = this.places - this.#taken
      return held > free / 2 && held >= weight * (free - spare)
    }
    if (shares.some(hasShare)) return null
    this.#taken++
    for (const { key } of shares) this.#held.set(key, this.#heldBy(key) + 1)
    return { [Symbol.dispose]: () => this.#giveBack(shares) }
  }

  /** As `take`, when there is one. @throws {BusUnavailable} when the worker stops, so that it is handed back at once */
  async wait(stopping: AbortSignal, ...shares: readonly Share[]): Promise<Disposable> {
    const stopped = Promise.withResolvers<void>()
    const stop = () => stopped.resolve()
    stopping.addEventListener('abort', stop, { once: true })
    try {
      for (;;) {
        if (stopping.aborted) throw new BusUnavailable('The worker stops')
        const place = this.take(...shares)
        if (place !== null) return place
        await Promise.race([this.#freed.promise, stopped.promise])
      }
    } finally {
      stopping.removeEventListener('abort', stop)
    }
  }

  #heldBy(key: string): number {
    return this.#held.get(key) ?? 0
  }

  #giveBack(shares: readonly Share[]): void {
    this.#taken--
    for (const { key } of shares) {
      const left = this.#heldBy(key) - 1
      if (left === 0) this.#held.delete(key)
      else this.#held.set(key, left)
    }
    this.#freed.resolve()
    this.#freed = Promise.withResolvers()
  }
}
