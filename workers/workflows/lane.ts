/** Whose work it is, and how much of it there may be for each place of the lane that stays free. */
export interface Share {
  readonly key: string
  readonly weight: number
}

/**
 * Places for work that is taken in the order in which it came. Nobody gets all of them: with a weight of 2 one alone has two thirds at the
 * most, two have four fifths together, and however many there are, who has none yet finds a place. Source: dynamic thresholds, Choudhury
 * and Hahne 1998.
 */
export class Lane {
  /** A place that nobody counts. */
  static readonly uncounted: Disposable = { [Symbol.dispose]() {} }
  readonly places: number
  readonly #held = new Map<string, number>()
  #taken = 0

  constructor(places: number) {
    this.places = places
  }

  /** A place for work that is in hand, to be given back when it is done; null when one of the keys has its share. */
  take(shares: readonly Share[]): Disposable | null {
    // One is for whoever comes next, so that it can be seen whose that is.
    const free = this.places - this.#taken - 1
    const hasShare = ({ key, weight }: Share) => this.#heldBy(key) > 0 && this.#heldBy(key) >= weight * free
    if (shares.some(hasShare)) return null
    this.#taken++
    for (const { key } of shares) this.#held.set(key, this.#heldBy(key) + 1)
    return { [Symbol.dispose]: () => this.#giveBack(shares) }
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
  }
}
