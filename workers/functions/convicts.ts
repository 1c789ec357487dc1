import type { StrikeReason } from './host/call.ts'

interface Conviction {
  readonly revision: number
  readonly until: number
}

/** How long a function that hurt a host runs apart from the others. */
const sentenceMs = 10 * 60_000
/** An isolate that ran out of memory harms nobody by itself; one that does so again and again may come closer to it. */
const memoryStrikes = 3
/** A machine that is short of time can make a host look hung, too. */
const hungStrikes = 2

/** Which functions have forfeited a place among the others, until some time has passed or another revision is deployed. */
export class Convicts {
  readonly #convicted = new Map<string, Conviction>()
  readonly #strikes = new Map<string, number>()

  has(functionId: string, revision: number): boolean {
    const conviction = this.#convicted.get(functionId)
    if (conviction === undefined) return false
    if (conviction.revision >= revision && conviction.until > performance.now()) return true
    this.forget(functionId)
    return false
  }

  /** Answers whether the function is convicted by it. */
  strike(functionId: string, revision: number, reason: StrikeReason): boolean {
    const strikes = (this.#strikes.get(functionId) ?? 0) + 1
    this.#strikes.set(functionId, strikes)
    if (this.#strikes.size > 10_000) this.#strikes.delete(this.#strikes.keys().next().value!)
    if (reason === 'memory' && strikes < memoryStrikes) return false
    if (reason === 'hung-host' && strikes < hungStrikes) return false
    this.#convicted.set(functionId, { revision, until: performance.now() + sentenceMs })
    return true
  }

  forget(functionId: string): void {
    this.#convicted.delete(functionId)
    this.#strikes.delete(functionId)
  }
}
