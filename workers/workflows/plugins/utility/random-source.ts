import { createHash, randomBytes } from 'node:crypto'

const poolBytes = 65_536
const bits = 2 ** 53

/** Numbers from the system, or with a seed always the same ones: SHA-256 of the seed and a counter. */
export class RandomSource {
  readonly #seed: string | undefined
  #pool: Buffer = Buffer.alloc(0)
  #at = 0
  #block = 0
  constructor(seed?: string) {
    this.#seed = seed
  }
  bytes(count: number): Buffer {
    const taken = Buffer.alloc(count)
    for (let filled = 0; filled < count; ) {
      if (this.#at === this.#pool.length) this.#refill()
      const copied = this.#pool.copy(taken, filled, this.#at)
      this.#at += copied
      filled += copied
    }
    return taken
  }
  /** From 0 up to but not `end`, at most 2^53; each as likely as every other. */
  below(end: number): number {
    const fair = bits - (bits % end)
    for (;;) {
      const drawn = this.#bits53()
      if (drawn < fair) return drawn % end
    }
  }
  /** From 0 up to but not 1. */
  fraction(): number {
    return this.#bits53() / bits
  }
  #bits53(): number {
    const drawn = this.bytes(7)
    return (drawn[6]! & 0x1f) * 2 ** 48 + drawn.readUIntLE(0, 6)
  }
  #refill(): void {
    this.#at = 0
    if (this.#seed === undefined) {
      this.#pool = randomBytes(poolBytes)
      return
    }
    const length = Buffer.byteLength(this.#seed)
    this.#pool = createHash('sha256').update(`${length}:${this.#seed}:${this.#block}`).digest()
    this.#block += 1
  }
}
