import type { Job } from './job.ts'

/** Longest time for which one suspect has a host to itself. */
const aloneMs = 1_000

/**
 * Calls that ran when a host died, one of which was the cause: each runs again with a host to itself, so that the next death names the
 * function. Those of functions that have answered most calls go first.
 */
export class Quarantine {
  readonly #run: (job: Job) => void
  readonly #credit: (job: Job) => number
  #waiting: Job[] = []
  #current: Job | null = null
  #timer: NodeJS.Timeout | undefined

  constructor(run: (job: Job) => void, credit: (job: Job) => number) {
    this.#run = run
    this.#credit = credit
  }

  get current(): Job | null {
    return this.#current
  }

  add(jobs: readonly Job[]): void {
    this.#waiting = [...this.#waiting, ...jobs].sort((one, other) => this.#credit(other) - this.#credit(one))
    this.#next()
  }

  /** The call is answered or has left otherwise. */
  finished(job: Job): void {
    if (this.#waiting.length > 0) this.#waiting = this.#waiting.filter((each) => each !== job)
    if (this.#current !== job) return
    this.#current = null
    clearTimeout(this.#timer)
    this.#next()
  }

  #next(): void {
    if (this.#current !== null) return
    const job = this.#waiting.shift()
    if (job === undefined) return
    this.#current = job
    this.#timer = setTimeout(() => this.finished(job), aloneMs)
    this.#run(job)
  }
}
