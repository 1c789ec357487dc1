import type { NatsConnection } from '@nats-io/nats-core'
import { tableSubject } from '../../bus/subject.ts'
import { Rejected, Unavailable } from '../../schemas/failure.ts'
import { TableChannel } from './changes-channel.ts'
import type { ChangeType } from './changes-event.ts'
import { Places } from './changes-places.ts'
import type { Arrival } from './changes-ring.ts'
import { CaptureWatch, unavailable } from './changes-status.ts'
import { ChangeStream } from './changes-stream.ts'
import { type ChangeSource, Subscriber } from './changes-subscriber.ts'
import type { ChangeRequest, ChangeSink, ChangeSubscription, StreamEnd } from './changes-subscription.ts'
import { ChangeTail } from './changes-tail.ts'

export type ChangeHubObservation =
  | { readonly type: 'changes-tailing'; readonly source: string; readonly from: number }
  | { readonly type: 'changes-tail-lost'; readonly source: string; readonly reason: string }
  | { readonly type: 'changes-cut-off'; readonly table: string; readonly reason: StreamEnd }

export interface ChangeHubOptions {
  readonly bus: NatsConnection
  /** The stream of the row changes. */
  readonly streamName: string
  /** Name of the database in the subjects of its changes. */
  readonly source: string
  /** Default 10,000. */
  readonly maxClients?: number
  /** Bytes a client has not taken, after which it gets no more until it has. Default 1 MiB. */
  readonly maxUnsentBytes?: number
  /** How long a client may take for them before it is cut off. Default 10,000. */
  readonly stallMs?: number
  /** Memory for the last changes, for clients that come back. Default 16 MiB. */
  readonly ringBytes?: number
  readonly onObservation?: (observation: ChangeHubObservation) => void
}

/** All change streams of a gateway, on one consumer of the bus. */
export interface ChangeHub {
  /**
   * @throws {Unavailable} `data/changes-unavailable` when the table's changes do not reach the stream.
   * @throws {Rejected} `http/too-many-requests` at the limit of clients.
   * @param types that must all be able to come, null for every one; absent: those that the table has are enough
   */
  requireAvailable(schema: string, table: string, types?: ReadonlySet<ChangeType> | null): Promise<void>
  /** Sends a table's changes into the sink until it is closed; the sink is told when the hub ends it. */
  subscribe(request: ChangeRequest, sink: ChangeSink): ChangeSubscription
  readonly clients: number
  /** Ends all streams and the consumer; the connection to the bus is the caller's. */
  close(): Promise<void>
}

/** Clients that read the stream's history at one time, which costs the bus a consumer each. */
const maxReplays = 16

/** Follows the stream as soon as it can be reached; until then no stream of changes is available. */
export async function createChangeHub(options: ChangeHubOptions): Promise<ChangeHub> {
  const hub = new Hub(options)
  await hub.start()
  return hub
}

class Hub implements ChangeHub, ChangeSource {
  readonly stream: ChangeStream
  readonly replays = new Places(maxReplays)
  readonly maxUnsentBytes: number
  readonly stallMs: number
  readonly #source: string
  readonly #maxClients: number
  readonly #observe: (observation: ChangeHubObservation) => void
  readonly #tail: ChangeTail
  readonly #watch: CaptureWatch
  readonly #tables = new Map<string, TableChannel>()
  readonly #subscribers = new Set<Subscriber>()
  #closing: Promise<void> | null = null

  constructor(options: ChangeHubOptions) {
    const { bus, streamName, source, ringBytes = 16 * 1024 * 1024, onObservation = () => undefined } = options
    this.#source = source
    this.#maxClients = options.maxClients ?? 10_000
    this.maxUnsentBytes = options.maxUnsentBytes ?? 1_048_576
    this.stallMs = options.stallMs ?? 10_000
    this.#observe = onObservation
    this.stream = new ChangeStream(bus, streamName, source)
    this.#watch = new CaptureWatch(bus, source)
    this.#tail = new ChangeTail(bus, this.stream, {
      ringBytes,
      onArrival: (arrival) => this.#arrive(arrival),
      onTailing: (from) => onObservation({ type: 'changes-tailing', source, from }),
      onLost: (reason) => onObservation({ type: 'changes-tail-lost', source, reason }),
      onReplaced: () => this.#endAll('unavailable', 'The stream of changes begins anew; positions in it count no more'),
    })
  }

  async start(): Promise<void> {
    await this.#tail.start()
  }

  get clients(): number {
    return this.#subscribers.size
  }

  get position(): number {
    return this.#tail.position
  }

  get ring() {
    return this.#tail.ring
  }

  async requireAvailable(schema: string, table: string, types?: ReadonlySet<ChangeType> | null): Promise<void> {
    this.#requirePlace()
    await this.#watch.require(schema, table, types)
    this.#requirePlace()
    if (!this.#tail.following) throw unavailable('the bus or its stream of changes is away', [])
  }

  subscribe(request: ChangeRequest, sink: ChangeSink): ChangeSubscription {
    const subject = tableSubject(this.#source, request.schema, request.table)
    const subscriber = new Subscriber(this, subject, request, sink, (reason) => {
      this.#subscribers.delete(subscriber)
      if (reason !== null) this.#observe({ type: 'changes-cut-off', table: request.table, reason })
    })
    this.#subscribers.add(subscriber)
    if (this.#closing) subscriber.end('stopping', 'The service is stopping')
    else subscriber.start()
    return subscriber
  }

  close(): Promise<void> {
    this.#closing ??= this.#close()
    return this.#closing
  }

  channel(subject: string): TableChannel {
    let channel = this.#tables.get(subject)
    if (!channel) {
      channel = new TableChannel(() => this.#tables.delete(subject))
      this.#tables.set(subject, channel)
    }
    return channel
  }

  #requirePlace(): void {
    if (this.#closing) throw new Unavailable('data/changes-unavailable', 'The service is stopping')
    if (this.#subscribers.size < this.#maxClients) return
    throw new Rejected('http/too-many-requests', `${this.#maxClients} change streams are open, which is the limit`)
  }

  async #close(): Promise<void> {
    this.#endAll('stopping', 'The service is stopping')
    this.#watch.close()
    await this.#tail.close()
  }

  #endAll(reason: StreamEnd, text: string): void {
    for (const subscriber of [...this.#subscribers]) subscriber.end(reason, text)
  }

  #arrive(arrival: Arrival): void {
    if (arrival.table === null) for (const channel of this.#tables.values()) channel.offer(arrival)
    else this.#tables.get(arrival.table)?.offer(arrival)
  }
}
