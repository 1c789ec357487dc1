import { performance } from 'node:perf_hooks'
import { Unavailable } from '../../schemas/failure.ts'
import type { Waiting } from './postgres-call.ts'
import { type ConnectionOptions, connect, type PostgresConnection } from './postgres-connection.ts'
import { backOffMs, databaseAway, reasonOf, unavailable } from './postgres-failures.ts'
import { WaitingQueue } from './postgres-queue.ts'

export type DatabaseObservation =
  | { readonly type: 'database-connected'; readonly connections: number }
  | { readonly type: 'database-connection-lost'; readonly reason: string }
  | { readonly type: 'database-connect-failed'; readonly reason: string; readonly retryInMs: number }
  | { readonly type: 'database-queue-full'; readonly waiting: number }

export interface PoolOptions {
  readonly connection: ConnectionOptions
  readonly poolSize: number
  /** 0 for none. */
  readonly statementTimeoutMs: number
  readonly maxWaiting: number
  readonly maxWaitMs: number
  readonly observe: (observation: DatabaseObservation) => void
}

/** Calls in flight on one shared connection. */
const pipelineDepth = 32
/** A connection whose head has run this long is left alone by cheap calls: they would wait behind it. */
const stuckMs = 20
/** Connections cheap calls keep to while those are not busy: fewer, better filled round trips. */
const cheapConnections = 2
const busyDepth = 4
const sweepMs = 250
const graceMs = 5_000

/** Which call gets which connection, and when; opens connections as they are needed, and again when they are lost. */
export class PostgresPool {
  readonly #options: PoolOptions
  readonly #connections: PostgresConnection[] = []
  readonly #cheap = new WaitingQueue()
  readonly #heavy = new WaitingQueue()
  /** Connections with a slow call. */
  readonly #slow = new Set<PostgresConnection>()
  readonly #sweeper: NodeJS.Timeout
  #connecting = 0
  #failures = 0
  #retry: NodeJS.Timeout | null = null
  #closed = false

  constructor(options: PoolOptions) {
    this.#options = options
    this.#sweeper = setInterval(() => this.#sweep(), sweepMs).unref()
  }

  /**
   * Opens the first connection.
   * @throws {Unavailable} `data/database-unavailable` with the reason, for the operator who starts the service.
   */
  async start(): Promise<void> {
    try {
      this.#accept(await connect(this.#options.connection, this.#events))
    } catch (error) {
      clearInterval(this.#sweeper)
      throw new Unavailable('data/database-unavailable', `The database cannot be reached: ${reasonOf(error)}`, {
        cause: error,
        retryAfterSeconds: 5,
      })
    }
  }

  /** The number of open connections, of calls in flight and of calls waiting. */
  get load(): { readonly connections: number; readonly flying: number; readonly waiting: number } {
    const flying = this.#connections.reduce((sum, connection) => sum + connection.flying, 0)
    return { connections: this.#connections.length, flying, waiting: this.#cheap.length + this.#heavy.length }
  }

  /** Why a call would be in vain now; null when it would not. */
  refusal(): Unavailable | null {
    if (this.#closed) return unavailable('The service is stopping')
    if (this.#connections.length === 0 && this.#failures > 0) return databaseAway(this.#failures)
    return null
  }

  /** Starts it now or when a connection has room for it; fails it when too many wait already. */
  submit(waiting: Waiting): void {
    if (waiting.settled) return
    const connection = waiting.use === 'shared' ? this.#pickShared() : this.#pickIdle(waiting)
    if (connection) {
      if (waiting.use === 'shared') waiting.start(connection)
      else this.#startAlone(waiting, connection)
      return
    }
    if (this.#cheap.length + this.#heavy.length >= this.#options.maxWaiting) {
      this.#options.observe({ type: 'database-queue-full', waiting: this.#cheap.length + this.#heavy.length })
      waiting.fail(unavailable('All database connections are busy and too many requests wait for them'))
      return
    }
    const queue = waiting.use === 'shared' ? this.#cheap : this.#heavy
    queue.add(waiting)
    this.#grow()
    if (queue === this.#heavy) this.#reserve()
  }

  /** A connection for its caller alone, until `giveBack`. */
  lease(): Promise<PostgresConnection> {
    const refused = this.refusal()
    if (refused) return Promise.reject(refused)
    return new Promise((resolve, reject) => {
      this.submit({
        use: 'transaction',
        slow: false,
        since: performance.now(),
        settled: false,
        start: resolve,
        fail: reject,
      })
    })
  }

  giveBack(connection: PostgresConnection): void {
    connection.use = 'shared'
    this.#pump(connection)
  }

  /** Takes no more calls, lets those under way finish (up to `graceMs`), closes the connections. */
  async close(): Promise<void> {
    if (this.#closed) return
    this.#closed = true
    const until = performance.now() + graceMs
    while (this.load.flying + this.load.waiting > 0 && performance.now() < until) {
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    clearInterval(this.#sweeper)
    if (this.#retry) clearTimeout(this.#retry)
    this.#failWaiting(unavailable('The service is stopping'))
    await Promise.allSettled(this.#connections.splice(0).map((connection) => connection.end()))
  }

  #pickShared(): PostgresConnection | null {
    const now = performance.now()
    let best: PostgresConnection | null = null
    for (const [index, connection] of this.#connections.entries()) {
      if (index >= cheapConnections && best && best.flying < busyDepth) break
      if (connection.use !== 'shared' || connection.cancelling) continue
      if (connection.flying >= pipelineDepth || connection.headAgeMs(now) > stuckMs) continue
      if (!best || connection.flying < best.flying) best = connection
    }
    if (best && best.flying > 1 && this.#connections.length < cheapConnections) this.#grow()
    return best
  }

  #pickIdle(waiting: Waiting): PostgresConnection | null {
    if (this.#heavyUse() >= this.#maxHeavy() || !this.#maySlow(waiting)) return null
    return this.#connections.findLast(isIdle) ?? null
  }

  #startAlone(waiting: Waiting, connection: PostgresConnection): void {
    if (waiting.use === 'shared') throw new Error('a call that shares its connection has none of its own')
    connection.use = waiting.use
    if (waiting.slow) this.#slow.add(connection)
    waiting.start(connection)
  }

  /** Slow calls leave a connection to those that only must not share one. */
  #maySlow({ slow }: Waiting): boolean {
    return !slow || this.#slow.size < Math.max(1, this.#options.poolSize - 2)
  }

  /** Connections that cheap calls cannot use now. */
  #heavyUse(): number {
    let count = 0
    for (const connection of this.#connections) if (connection.use !== 'shared') count += 1
    return count
  }

  /** One connection always stays for cheap calls, however many heavy ones there are. */
  #maxHeavy(): number {
    return Math.max(1, this.#options.poolSize - 1)
  }

  /** Keeps the least busy shared connection free for a heavy call when the pool cannot grow. */
  #reserve(): void {
    const canGrow = this.#retry === null && this.#connections.length < this.#options.poolSize
    if (this.#connecting > 0 || canGrow) return
    if (this.#heavyUse() >= this.#maxHeavy()) return
    const shared = this.#connections.filter((connection) => connection.use === 'shared')
    const least = shared.sort((one, other) => one.flying - other.flying)[0]
    if (least) least.use = 'reserved'
  }

  /** Gives a connection that has room what waits for it. */
  #pump(connection: PostgresConnection): void {
    if (connection.cancelling || !this.#connections.includes(connection)) return
    if (connection.flying === 0) this.#slow.delete(connection)
    if (connection.use === 'statement' && connection.flying === 0) connection.use = 'shared'
    if (connection.use === 'statement' || connection.use === 'transaction') return
    if (this.#heavy.length === 0) connection.use = 'shared'
    const mayTakeHeavy = connection.use === 'reserved' || this.#heavyUse() < this.#maxHeavy()
    if (connection.flying === 0 && mayTakeHeavy) {
      const heavy = this.#heavy.take((waiting) => this.#maySlow(waiting))
      if (heavy) {
        this.#startAlone(heavy, connection)
        return
      }
    }
    if (connection.use === 'reserved' && connection.flying > 0) return
    // Those it was kept for may not start yet.
    connection.use = 'shared'
    while (this.#cheap.length > 0 && connection.flying < pipelineDepth) this.#cheap.take()?.start(connection)
  }

  readonly #events = {
    onFree: (connection: PostgresConnection) => this.#pump(connection),
    onLost: (connection: PostgresConnection, cause: Error) => {
      const index = this.#connections.indexOf(connection)
      if (index >= 0) this.#connections.splice(index, 1)
      this.#slow.delete(connection)
      if (this.#closed) return
      this.#options.observe({ type: 'database-connection-lost', reason: reasonOf(cause) })
      if (this.#cheap.length + this.#heavy.length > 0) this.#grow()
    },
  }

  #accept(connection: PostgresConnection): void {
    this.#failures = 0
    this.#connections.push(connection)
    this.#options.observe({ type: 'database-connected', connections: this.#connections.length })
    this.#pump(connection)
  }

  #grow(): void {
    if (this.#closed || this.#retry !== null) return
    if (this.#connections.length + this.#connecting >= this.#options.poolSize) return
    if (this.#connecting > this.#heavy.length) return
    this.#connecting += 1
    connect(this.#options.connection, this.#events).then(
      (connection) => {
        this.#connecting -= 1
        if (this.#closed) connection.abandon(new Error('The service is stopping'))
        else this.#accept(connection)
      },
      (error: unknown) => {
        this.#connecting -= 1
        this.#connectFailed(error)
      },
    )
  }

  /** With no connection left those who wait are told at once, and it is tried again until it works. */
  #connectFailed(error: unknown): void {
    if (this.#closed) return
    this.#failures += 1
    const retryInMs = backOffMs(this.#failures)
    this.#options.observe({ type: 'database-connect-failed', reason: reasonOf(error), retryInMs })
    if (this.#connections.length === 0) this.#failWaiting(databaseAway(this.#failures))
    if (this.#retry !== null) return
    this.#retry = setTimeout(() => {
      this.#retry = null
      if (this.#connections.length === 0 || this.#cheap.length + this.#heavy.length > 0) this.#grow()
    }, retryInMs).unref()
  }

  #failWaiting(error: Error): void {
    for (const waiting of [...this.#cheap.takeAll(), ...this.#heavy.takeAll()]) waiting.fail(error)
  }

  /** Ends waits that are too long, and connections on which the server no longer keeps its own time-out. */
  #sweep(): void {
    const now = performance.now()
    const { maxWaitMs, statementTimeoutMs } = this.#options
    this.#cheap.expire(now, maxWaitMs)
    this.#heavy.expire(now, maxWaitMs)
    for (const connection of [...this.#connections]) {
      if (statementTimeoutMs > 0 && connection.headAgeMs(now) > statementTimeoutMs + graceMs) {
        connection.abandon(new Error('The database did not answer in time'))
      } else this.#pump(connection)
    }
  }
}

function isIdle(connection: PostgresConnection): boolean {
  return connection.use === 'shared' && connection.flying === 0 && !connection.cancelling
}
