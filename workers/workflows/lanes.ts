import { Lane, type Share } from './lane.ts'

/** Whose execution it is. */
interface Owner {
  readonly flowId: string
  readonly namespace: string
}

/** What one flow, and one namespace, may have of a lane, see `lane.ts`. */
const flowWeight = 2
const namespaceWeight = 32

/** The lanes of a worker: executions and tasks of which it takes so many at a time, each with those that have stepped aside. */
export class Lanes {
  readonly executions: SharedLane
  readonly tasks: SharedLane

  constructor(concurrency: number, taskConcurrency: number) {
    this.executions = new SharedLane(concurrency)
    this.tasks = new SharedLane(taskConcurrency)
  }
}

class SharedLane {
  readonly #lane: Lane
  readonly #aside: Lane
  /** For flows that have none in hand, or few. */
  readonly #spare: number

  /** @param concurrency how many one flow alone gets at a time */
  constructor(concurrency: number) {
    this.#spare = Math.max(4, Math.ceil(concurrency / 8))
    const places = Math.ceil(concurrency * 1.5) + this.#spare
    this.#lane = new Lane(places)
    this.#aside = new Lane(places)
  }

  get places(): number {
    return this.#lane.places
  }

  /** Null when its flow or its namespace has enough of this worker: it is to step aside. */
  take({ flowId, namespace }: Owner): Disposable | null {
    return this.#lane.take(this.#share(`flow/${flowId}`), {
      key: `namespace/${namespace}`,
      weight: namespaceWeight,
      spare: 1,
    })
  }

  /** For what has stepped aside and comes from one of those lanes. @throws {BusUnavailable} when the worker stops */
  async waitAside(lane: number, stopping: AbortSignal): Promise<Disposable> {
    return await this.#aside.wait(stopping, this.#share(String(lane)))
  }

  #share(key: string): Share {
    return { key, weight: flowWeight, spare: this.#spare }
  }
}
