const fastMs = 2
const firstNeeded = 16
const mostNeeded = 100_000

/**
 * Whether a function's calls may run in the host's own thread, which costs a tenth of a thread of theirs and holds up all others
 * meanwhile: those whose last calls were all quick. Each call that overruns there makes it harder to come back.
 */
export class Trust {
  #quick = 0
  #needed = firstNeeded

  trusted(): boolean {
    return this.#quick >= this.#needed
  }

  /** How long a call's code ran. */
  took(ms: number): void {
    if (ms < fastMs) this.#quick += 1
    else if (!this.trusted() || ms > 10 * fastMs) this.#quick = 0
    else this.#quick = Math.max(0, this.#quick - 2)
  }

  overran(): void {
    this.#quick = 0
    this.#needed = Math.min(mostNeeded, this.#needed * 8)
  }
}
