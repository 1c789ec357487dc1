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
  /** Sends what is buffered, then closes. */
  close(): Promise<void>
}

const reconnectWaitMs = 250
const reconnectJitterMs = 500

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

/**
 * Calls each time a lost connection is back: by then the server has forgotten what was open, and the client tells nobody.
 * @returns what ends it
 */
export function onReconnect({ connection }: Bus, call: () => void): () => void {
  const statuses = connection.status()
  void (async () => {
    for await (const { type } of statuses) if (type === 'reconnect') call()
  })()
  return () => (statuses as { stop?: () => void }).stop?.()
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

  async watch(observe: (observation: BusObservation) => void): Promise<void> {
    for await (const status of this.connection.status()) {
      if (status.type === 'disconnect') {
        this.#connected = false
        observe({ type: 'bus-disconnected', server: status.server })
      } else if (status.type === 'reconnect') {
        this.#connected = true
        observe({ type: 'bus-reconnected', server: status.server })
      }
    }
    this.#connected = false
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
