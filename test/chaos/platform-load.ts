import { randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { TestServer } from '../support/servers.ts'
import type { Presence } from './lateness.ts'
import type { Shape } from './platform-flows.ts'
import type { Client, Platform, Role } from './platform-roles.ts'

const pauseMs = 250

/** Clients that start executions, cancel some, and answer gates. */
export class Load {
  /** Answered with 2xx. */
  readonly accepted: string[] = []
  /** Nobody knows whether they were stored; whoever asks so does not ask again. */
  unanswered = 0
  /** How often each gate's answer was said to have counted. */
  readonly approvals = new Map<string, number>()
  readonly #client: Client
  readonly #flowIds: ReadonlyMap<string, string>
  readonly #shapes: readonly Shape[]
  readonly #cancels: Promise<void>[] = []
  #started = 0

  constructor(client: Client, flowIds: ReadonlyMap<string, string>, shapes: readonly Shape[]) {
    this.#client = client
    this.#flowIds = flowIds
    this.#shapes = shapes.flatMap((shape) => Array<Shape>(shape.share).fill(shape))
  }

  /** One client: starts one after the other as long as it is told to. */
  async submit(more: (started: number) => boolean): Promise<void> {
    while (more(this.#started)) {
      const number = this.#started++
      // 37 and 100 have no common divisor: the shapes come mixed.
      const { name } = this.#shapes[(number * 37) % this.#shapes.length]!
      // Nobody would cancel one that nobody knows of.
      if (number % 2 === 0 || name === 'cancelled') await this.#startSurely(name)
      else await this.#startOnce(name)
      await delay(pauseMs)
    }
  }

  /** As a client does that wants to be sure: again under the same id until it is answered. */
  async #startSurely(name: string): Promise<void> {
    const executionId = randomUUID()
    const { status, json } = await this.#client.surely('POST', this.#path(name), { executionId })
    if (status !== 200 || json.executionId !== executionId) throw new Error(`${status} ${JSON.stringify(json)}`)
    this.accepted.push(executionId)
    if (name === 'cancelled') this.#cancels.push(this.#cancel(executionId))
  }

  async #startOnce(name: string): Promise<void> {
    const answer = await this.#client.once('POST', this.#path(name), {})
    if (answer === null || answer.status >= 500) this.unanswered++
    else if (answer.status === 200) this.accepted.push(answer.json.executionId)
    else throw new Error(`${answer.status} ${JSON.stringify(answer.json)}`)
  }

  #path(name: string): string {
    return `/flows/${this.#flowIds.get(name)}/execute`
  }

  async #cancel(id: string): Promise<void> {
    await delay(Math.random() * 1_500)
    const { status, json } = await this.#client.surely('POST', `/executions/${id}/cancel`)
    // It had counted when nobody could answer any more.
    if (status !== 200 && status !== 409) throw new Error(`${status} ${JSON.stringify(json)}`)
  }

  async cancelled(): Promise<void> {
    await Promise.all(this.#cancels)
  }

  /** Answers gates until the signal. */
  async approve(signal: AbortSignal): Promise<void> {
    while (!signal.aborted) {
      const answer = await this.#client.once('GET', '/approvals?status=PENDING&limit=50')
      for (const { id } of answer?.status === 200 ? answer.json : []) {
        const said = await this.#client.once('POST', `/approvals/${id}/approve`, {})
        if (said?.status === 200) this.approvals.set(id, (this.approvals.get(id) ?? 0) + 1)
      }
      await delay(100)
    }
  }
}

const longestPauseMs = 1_100
const shortestPauseMs = 400

/** Kills one part after the other: each kind has its turns, in an order and at moments that chance gives. */
export class Wounds {
  readonly by: Record<string, number> = {}
  /** Of the last one, as `performance.now` tells it. */
  lastAt = 0
  readonly #platform: Platform
  readonly #bus: TestServer
  readonly #presence: Presence

  constructor(platform: Platform, bus: TestServer, presence: Presence) {
    this.#platform = platform
    this.#bus = bus
    this.#presence = presence
  }

  get count(): number {
    return Object.values(this.by).reduce((sum, times) => sum + times, 0)
  }

  /** Until there are so many, or the signal. */
  async run(most: number, signal: AbortSignal): Promise<void> {
    for (;;) {
      const kinds = ['worker', 'gateway', 'projection', 'bus', 'worker', 'gateway', 'scheduler', 'projection'] as const
      for (const kind of shuffled(kinds)) {
        await delay(shortestPauseMs + Math.random() * (longestPauseMs - shortestPauseMs))
        if (signal.aborted || this.count >= most) return
        if (kind === 'bus') {
          this.#presence.left('bus')
          await this.#bus.kill()
          await this.#bus.restart()
          this.#presence.came('bus')
        } else {
          const roles = this.#platform.roles[kind]
          // On a slow machine both may still be starting: killing nothing but those would let nothing ever run.
          if (!roles.some(({ ready }) => ready)) continue
          await one(roles).kill()
        }
        this.by[kind] = (this.by[kind] ?? 0) + 1
        this.lastAt = performance.now()
      }
    }
  }
}

function one(roles: readonly Role[]): Role {
  return roles[Math.floor(Math.random() * roles.length)]!
}

function shuffled<T>(values: readonly T[]): readonly T[] {
  return values
    .map((value) => [Math.random(), value] as const)
    .sort(([a], [b]) => a - b)
    .map(([, value]) => value)
}
