import { LRUCache } from 'lru-cache'

const perSecond = 100
const burst = 500
const maxKeys = 10_000

/** How many deliveries a webhook takes at this gateway: a bucket that fills with the time. */
export class WebhookRate {
  readonly #buckets = new LRUCache<string, { tokens: number; at: number }>({ max: maxKeys })

  /** Takes one place; else in how many seconds there is one. */
  take(triggerId: string, now: number): number | null {
    const known = this.#buckets.get(triggerId) ?? { tokens: burst, at: now }
    const tokens = Math.min(burst, known.tokens + (Math.max(0, now - known.at) / 1_000) * perSecond)
    const free = tokens >= 1
    this.#buckets.set(triggerId, { tokens: free ? tokens - 1 : tokens, at: now })
    return free ? null : Math.max(1, Math.ceil((1 - tokens) / perSecond))
  }
}
