/** How much of a lane's places one key may have. */
export interface ShareLimit {
  readonly key: string
  readonly limit: number
}

/** What this process has in hand of each key, so that none has all of it. */
export class Shares {
  /** A place of which there are enough. */
  static readonly none: Disposable = { [Symbol.dispose]() {} }
  readonly #held = new Map<string, number>()

  /** Takes a place under each of the keys, to be given back when it is done; null when one of them has its share. */
  take(limits: readonly ShareLimit[]): Disposable | null {
    if (limits.some(({ key, limit }) => (this.#held.get(key) ?? 0) >= limit)) return null
    for (const { key } of limits) this.#held.set(key, (this.#held.get(key) ?? 0) + 1)
    return { [Symbol.dispose]: () => this.#giveBack(limits) }
  }

  #giveBack(limits: readonly ShareLimit[]): void {
    for (const { key } of limits) {
      const left = this.#held.get(key)! - 1
      if (left === 0) this.#held.delete(key)
      else this.#held.set(key, left)
    }
  }
}
