import { LRUCache } from 'lru-cache'

/**
 * What a statement needs of a connection. `cheap`: room on one that is shared. `medium`: one for itself, because those behind it would
 * wait longer for it than for themselves. `heavy`: the same, and for so long that others need connections that such may not take.
 */
export type Weight = 'cheap' | 'medium' | 'heavy'

const mediumMs = 0.5
const heavyMs = 2
/** The first runs on a connection are slow: statements are parsed and planned, caches are cold. */
const coldHeavyMs = 20
const measuredAfter = 5
/** Waits for a busy processor look like cost, so a dearer sample counts less than a cheaper one. */
const dearerWeight = 0.05
const cheaperWeight = 0.3

/** How heavy statements are, by name: first by what is expected of them, then by what they were measured to take. */
export class StatementCosts {
  readonly #costs = new LRUCache<string, { averageMs: number; samples: number }>({ max: 5_000 })

  weightOf(name: string, expected: 'cheap' | 'heavy'): Weight {
    const cost = this.#costs.get(name)
    if (cost === undefined) return expected
    if (cost.samples < measuredAfter) return cost.averageMs > coldHeavyMs ? 'heavy' : expected
    if (cost.averageMs > heavyMs) return 'heavy'
    return cost.averageMs > mediumMs ? 'medium' : 'cheap'
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
