import { type JetStreamClient, type JetStreamManager, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { type ConnectionOptions, connect, type NatsConnection } from '@nats-io/transport-node'

/** The bus is away, or did not answer in time. Nothing was acknowledged; the same call can succeed later. */
export class BusUnavailable extends Error {
  override readonly name = 'BusUnavailable'
}

export type BusObservation =
  | { readonly type: 'bus-disconnected'; readonly server: string }
  | { readonly type: 'bus-reconnected'; readonly server: string }

export interface BusOptions {
  /** As {@link addressOf} takes it. */
  readonly url: string
  /** How `nats server report connections` names this process. */
  readonly name: string
  /** For the first connection and for each request. Default 5,000. */
  readonly timeoutMs?: number
  readonly onObservation?: (observation: BusObservation) => void
}

/** A connection to the bus that comes back by itself, for ever. */
export interface Bus extends AsyncDisposable {
  readonly connection: NatsConnection
  readonly jetstream: JetStreamClient
  readonly manager: JetStreamManager
  /** For each request. */
  readonly timeoutMs: number
  /** False from the moment the connection is lost until it is back. */
  readonly connected: boolean
  /** @throws {BusUnavailable} at once when the connection is lost, so that nothing waits in a buffer unseen. */
  requireConnected(): void
  /**
   * Calls each time the connection is lost: what was asked by then is not answered any more.
   * @returns what ends it
   */
  onDisconnect(call: () => void): () => void
  /**
   * Calls each time a lost connection is back: by then the server has forgotten what was open, and the client tells nobody.
   * @returns what ends it
   */
  onReconnect(call: () => void): () => void
  /** Sends what is buffered, then closes. */
  close(): Promise<void>
}

/** Timers that came due while the bus was away wait for it. */
const reconnectWaitMs = 100
const reconnectJitterMs = 100

/** @throws what the client throws when the first connection cannot be made. */
export async function connectBus({ url, name, timeoutMs = 5_000, onObservation }: BusOptions): Promise<Bus> {
  const connection = await connect({
    ...addressOf(url),
    name,
    timeout: timeoutMs,
    maxReconnectAttempts: -1,
    reconnectTimeWait: reconnectWaitMs,
    reconnectJitter: reconnectJitterMs,
    pingInterval: 10_000,
    maxPingOut: 2,
    // An error made ahead of every request, for its stack: a twentieth of a gateway's time.
    noAsyncTraces: true,
  })
  const handle = new ConnectedBus(connection, await managerOf(connection, timeoutMs), timeoutMs)
  void handle.watch(onObservation ?? (() => undefined))
  return handle
}

/**
 * Where to connect and as whom.
 * @param url `nats://user:password@host:port` or `nats://token@host:port`; several servers of one cluster separated by commas, which
 * take the same user: the first that is named
 */
export function addressOf(url: string): Pick<ConnectionOptions, 'servers' | 'user' | 'pass' | 'token'> {
  const servers: string[] = []
  let who: Pick<ConnectionOptions, 'user' | 'pass' | 'token'> | undefined
  for (const server of url.split(',')) {
    const [, scheme = '', user, password, place = ''] =
      /^([a-z]+:\/\/)?(?:([^:@/]*)(?::(.*))?@)?(.*)$/i.exec(server.trim()) ?? []
    servers.push(`${scheme}${place}`)
    if (user === undefined) continue
    who ??=
      password === undefined
        ? { token: decodeURIComponent(user) }
        : { user: decodeURIComponent(user), pass: decodeURIComponent(password) }
  }
  return { servers, ...who }
}

/** @throws {BusUnavailable} when the server has no JetStream. */
async function managerOf(connection: NatsConnection, timeoutMs: number): Promise<JetStreamManager> {
  try {
    return await jetstreamManager(connection, { timeout: timeoutMs })
  } catch (error) {
    await connection.close()
    throw new BusUnavailable('The nats-server has no JetStream: start it with --jetstream', { cause: error })
  }
}

class ConnectedBus implements Bus {
  readonly connection: NatsConnection
  readonly jetstream: JetStreamClient
  readonly manager: JetStreamManager
  readonly timeoutMs: number
  readonly #onDisconnect = new Set<() => void>()
  readonly #onReconnect = new Set<() => void>()
  #connected = true

  constructor(connection: NatsConnection, manager: JetStreamManager, timeoutMs: number) {
    this.connection = connection
    this.manager = manager
    this.timeoutMs = timeoutMs
    this.jetstream = jetstream(connection, { timeout: timeoutMs })
  }

  get connected(): boolean {
    return this.#connected
  }

  requireConnected(): void {
    if (!this.#connected) throw new BusUnavailable('The bus is away; it is being reconnected')
  }

  onDisconnect(call: () => void): () => void {
    return added(this.#onDisconnect, call)
  }

  onReconnect(call: () => void): () => void {
    return added(this.#onReconnect, call)
  }

  async watch(observe: (observation: BusObservation) => void): Promise<void> {
    for await (const status of this.connection.status()) {
      // The client also tells of each try that failed.
      if (status.type === 'disconnect' && this.#connected) {
        this.#isConnected(false)
        observe({ type: 'bus-disconnected', server: status.server })
      } else if (status.type === 'reconnect' && !this.#connected) {
        this.#isConnected(true)
        observe({ type: 'bus-reconnected', server: status.server })
      }
    }
    if (this.#connected) this.#isConnected(false)
  }

  #isConnected(connected: boolean): void {
    this.#connected = connected
    for (const call of [...(connected ? this.#onReconnect : this.#onDisconnect)]) call()
  }

  async close(): Promise<void> {
    if (this.connection.isClosed()) return
    if (this.#connected) await this.connection.drain()
    else await this.connection.close()
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.close()
  }
}

function added(calls: Set<() => void>, call: () => void): () => void {
  // Of its own, though the same function may be there already.
  const own = () => call()
  calls.add(own)
  return () => calls.delete(own)
}
