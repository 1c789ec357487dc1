import type { Metrics } from './metrics.ts'

/** Between two looks. */
const sampleEveryMs = 5000

export interface SamplerOptions {
  /** One look at the instance; never rejects for a server that is down: it says so in the metrics. */
  readonly look: () => Promise<Metrics>
  /** Default {@link sampleEveryMs}. */
  readonly everyMs?: number
  /** A look that rejected: a fault of ours. */
  readonly onError?: (error: unknown) => void
}

/**
 * Looks at one instance again and again, for however many listeners: one look at a time, the next one begins only after the
 * last has ended. Knows the newest point alone.
 */
export class InstanceSampler implements AsyncDisposable {
  readonly #options: SamplerOptions
  readonly #listeners = new Set<(metrics: Metrics) => void>()
  #newest: Metrics | undefined
  #timer: NodeJS.Timeout | undefined
  #looking: Promise<Metrics | undefined> | undefined
  #open = true

  constructor(options: SamplerOptions) {
    this.#options = options
    this.#schedule(0)
  }

  /** The newest point; looks at once when there is none yet. */
  async current(): Promise<Metrics | undefined> {
    return this.#newest ?? (await this.#look())
  }

  /** Calls with each new point until the answered function is called. */
  listen(listener: (metrics: Metrics) => void): () => void {
    this.#listeners.add(listener)
    return () => void this.#listeners.delete(listener)
  }

  get listeners(): number {
    return this.#listeners.size
  }

  /** Ends the looking; resolves when the last look has ended. */
  async [Symbol.asyncDispose](): Promise<void> {
    this.#open = false
    clearTimeout(this.#timer)
    this.#listeners.clear()
    await this.#looking
  }

  #schedule(delayMs: number): void {
    if (!this.#open) return
    this.#timer = setTimeout(() => void this.#look(), delayMs)
    this.#timer.unref()
  }

  #look(): Promise<Metrics | undefined> {
    this.#looking ??= this.#once().finally(() => {
      this.#looking = undefined
      clearTimeout(this.#timer)
      this.#schedule(this.#options.everyMs ?? sampleEveryMs)
    })
    return this.#looking
  }

  async #once(): Promise<Metrics | undefined> {
    try {
      const metrics = await this.#options.look()
      this.#newest = metrics
      for (const listener of this.#listeners) listener(metrics)
      return metrics
    } catch (error) {
      this.#options.onError?.(error)
      return undefined
    }
  }
}
