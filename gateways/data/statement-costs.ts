import { LRUCache } from 'lru-cache'

/** From here on a statement is heavy: whoever shared its connection would feel it. */
const heavyMs = 0.5
const measuredAfter = 5
/** Waits for a busy processor look like cost, so a dearer sample counts less than a cheaper one. */
const dearerWeight = 0.05
const cheaperWeight = 0.3

/** Which statements are heavy, by name: first by what is expected of them, then by what they were measured to take. */
export class StatementCosts {
  readonly #costs = new LRUCache<string, { averageMs: number; samples: number }>({ max: 5_000 })

  isHeavy(name: string, expectedHeavy: boolean): boolean {
    const cost = this.#costs.get(name)
    if (cost === undefined || cost.samples < measuredAfter) return expectedHeavy || (cost?.averageMs ?? 0) > heavyMs
    return cost.averageMs > heavyMs
  }

  note(name: string, serviceMs: number): void {
    const cost = this.#costs.get(name)
    if (cost === undefined) {
      this.#costs.set(name, { averageMs: serviceMs, samples: 1 })
      return
    }
    cost.samples += 1
    cost.averageMs += (serviceMs - cost.averageMs) * (serviceMs > cost.averageMs ? dearerWeight : cheaperWeight)
  }
}
