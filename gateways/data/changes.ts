import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises'
import type { ConsumerMessages } from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/nats-core'
import { Rejected, Unavailable } from '../../schemas/failure.ts'
import type { ChangeView } from './changes-access.ts'
import type { Change } from './changes-event.ts'
import { type Arrival, ChangeRing } from './changes-ring.ts'
import { snapshotMembers } from './changes-snapshot.ts'
import { CaptureWatch } from './changes-status.ts'
import { asArrival, ChangeStream } from './changes-stream.ts'
import { type ChangeRequest, type ChangeSink, passes, type StreamEnd } from './changes-subscription.ts'

export type ChangeHubObservation =
  | { readonly type: 'changes-tailing'; readonly source: string; readonly from: number }
  | { readonly type: 'changes-tail-lost'; readonly source: string; readonly reason: string }
  | { readonly type: 'changes-cut-off'; readonly table: string; readonly reason: StreamEnd }

export interface ChangeHubOptions {
  readonly bus: NatsConnection
  readonly streamName: string
  readonly source: string
  /** Default 10,000. */
  readonly maxClients?: number
  /** Unsent bytes of one client before it is cut off. Default 1 MiB. */
  readonly maxUnsentBytes?: number
  /** Memory for the last changes, for clients that come back. Default 16 MiB. */
  readonly ringBytes?: number
  readonly onObservation?: (observation: ChangeHubObservation) => void
}

/** All change streams of a gateway, on one consumer of the bus. */
export interface ChangeHub {
  /** @throws {Unavailable} `data/changes-unavailable` when the table's changes do not reach the stream. */
  requireAvailable(schema: string, table: string): Promise<void>
  /**
   * Sends a table's changes into the sink until it is closed; the sink is told when the hub ends it.
   * @throws {Rejected} `http/too-many-requests` at the limit of clients.
   */
  subscribe(request: ChangeRequest, sink: ChangeSink): ChangeSubscription
  readonly clients: number
  /** Ends all streams and the consumer. */
  close(): Promise<void>
}

export interface ChangeSubscription {
  /** The client is gone. */
  close(): void
}

const replayBatch = 200
const maxReplays = 16
/** How far back a snapshot looks for transactions that are on the stream but were not yet visible. */
const snapshotOverlapMs = 60_000
const retryMs = 250
const viewQueueBytes = 64 * 1024 * 1024

/** @throws {Unavailable} when the bus or the stream cannot be reached. */
export async function createChangeHub(options: ChangeHubOptions): Promise<ChangeHub> {
  const hub = new Hub(options)
  await hub.start()
  return hub
}

class Hub implements ChangeHub {
  readonly #options: Required<ChangeHubOptions>
  readonly #stream: ChangeStream
  readonly #watch: CaptureWatch
  readonly #tables = new Map<string, TableChannel>()
  readonly #subscriptions = new Set<Subscription>()
  #ring = new ChangeRing(1, 0)
  /** Last sequence that came. */
  #position = 0
  #messages: ConsumerMessages | null = null
  #tailing: Promise<void> | null = null
  #closed = false
  #replays = 0
  readonly #replayQueue: (() => void)[] = []

  constructor(options: ChangeHubOptions) {
    this.#options = {
      maxClients: 10_000,
      maxUnsentBytes: 1_048_576,
      ringBytes: 16 * 1024 * 1024,
      onObservation: () => undefined,
      ...options,
    }
    const { bus, streamName, source } = this.#options
    this.#stream = new ChangeStream(bus, streamName, source)
    this.#watch = new CaptureWatch(bus, source)
  }

  async start(): Promise<void> {
    try {
      const { last } = await this.#stream.bounds()
      this.#begin(last)
      this.#messages = await this.#stream.tail(last + 1)
    } catch (cause) {
      this.#watch.close()
      throw new Unavailable('data/changes-unavailable', 'The stream of changes cannot be reached', { cause })
    }
    this.#tailing = this.#tail()
  }

  get clients(): number {
    return this.#subscriptions.size
  }

  get position(): number {
    return this.#position
  }

  get ring(): ChangeRing {
    return this.#ring
  }

  get stream(): ChangeStream {
    return this.#stream
  }

  async requireAvailable(schema: string, table: string): Promise<void> {
    if (this.#closed) throw new Unavailable('data/changes-unavailable', 'The service is stopping')
    await this.#watch.require(schema, table)
  }

  subscribe(request: ChangeRequest, sink: ChangeSink): ChangeSubscription {
    const { maxClients, maxUnsentBytes, onObservation } = this.#options
    if (this.#subscriptions.size >= maxClients) {
      throw new Rejected(
        'http/too-many-requests',
        `The gateway serves ${maxClients} change streams, which is its limit`,
      )
    }
    const subscription = new Subscription(this, request, sink, maxUnsentBytes, (reason) => {
      this.#subscriptions.delete(subscription)
      if (reason !== null) onObservation({ type: 'changes-cut-off', table: request.table, reason })
    })
    this.#subscriptions.add(subscription)
    subscription.start()
    return subscription
  }

  async close(): Promise<void> {
    this.#closed = true
    for (const subscription of [...this.#subscriptions]) subscription.end('stopping', 'The service is stopping')
    this.#watch.close()
    this.#messages?.stop()
    await this.#tailing
  }

  channel(subject: string): TableChannel {
    let channel = this.#tables.get(subject)
    if (!channel) {
      channel = new TableChannel(() => this.#tables.delete(subject))
      this.#tables.set(subject, channel)
    }
    return channel
  }

  /** A place among those who read the stream's history, which costs a consumer each. */
  async replaying<Result>(work: () => Promise<Result>): Promise<Result> {
    if (this.#replays >= maxReplays) await new Promise<void>((resolve) => this.#replayQueue.push(resolve))
    else this.#replays += 1
    try {
      return await work()
    } finally {
      const next = this.#replayQueue.shift()
      if (next) next()
      else this.#replays -= 1
    }
  }

  #begin(position: number): void {
    this.#position = position
    this.#ring = new ChangeRing(position + 1, this.#options.ringBytes)
    this.#options.onObservation({ type: 'changes-tailing', source: this.#options.source, from: position + 1 })
  }

  /** Follows the stream for as long as the hub lives; after a fault from where it was. */
  async #tail(): Promise<void> {
    while (!this.#closed) {
      let reason = 'the consumer ended'
      try {
        for await (const message of this.#messages ?? []) {
          const arrival = asArrival(message)
          this.#position = message.seq
          if (arrival) this.#arrive(arrival)
        }
      } catch (error) {
        reason = (error as Error).message
      }
      if (this.#closed) return
      this.#options.onObservation({ type: 'changes-tail-lost', source: this.#options.source, reason })
      await this.#resume()
    }
  }

  async #resume(): Promise<void> {
    while (!this.#closed) {
      await delay(retryMs)
      try {
        const { first, last } = await this.#stream.bounds()
        if (last < this.#position) {
          // Another stream under the same name.
          this.#begin(first - 1)
          this.#arrive(gapAt(first, 'stream-replaced'))
        } else if (first > this.#position + 1 && last > this.#position) this.#arrive(gapAt(first, 'expired'))
        this.#messages = await this.#stream.tail(this.#position + 1)
        return
      } catch {
        // The bus is still away.
      }
    }
  }

  #arrive(arrival: Arrival): void {
    this.#ring.push(arrival)
    if (arrival.table === null) for (const channel of this.#tables.values()) channel.offer(arrival)
    else this.#tables.get(arrival.table)?.offer(arrival)
  }
}

function gapAt(sequence: number, reason: string): Arrival {
  return { sequence, receivedAt: Date.now(), table: null, change: null, gap: reason }
}

/** The live subscriptions of one table, by what they may see. */
class TableChannel {
  readonly #views = new Map<string, ViewChannel>()
  readonly #onEmpty: () => void
  /** Last sequence that was offered. */
  last = 0

  constructor(onEmpty: () => void) {
    this.#onEmpty = onEmpty
  }

  offer(arrival: Arrival): void {
    this.last = arrival.sequence
    for (const view of this.#views.values()) view.offer(arrival)
  }

  /** Callers with equal rights share one view, so that the database is asked once for all of them. */
  join(subscription: Subscription, view: ChangeView): void {
    let channel = this.#views.get(view.key)
    if (!channel) {
      channel = new ViewChannel(view)
      this.#views.set(view.key, channel)
    }
    channel.subscriptions.add(subscription)
  }

  leave(subscription: Subscription, view: ChangeView): void {
    const channel = this.#views.get(view.key)
    channel?.subscriptions.delete(subscription)
    if (channel?.subscriptions.size === 0) this.#views.delete(view.key)
    if (this.#views.size === 0) this.#onEmpty()
  }
}

/** Subscriptions that see the same. */
class ViewChannel {
  readonly subscriptions = new Set<Subscription>()
  readonly #view: ChangeView
  #queue: Arrival[] = []
  #queueBytes = 0
  #busy = false

  constructor(view: ChangeView) {
    this.#view = view
  }

  offer(arrival: Arrival): void {
    if (!this.#busy && this.#queue.length === 0) {
      const seen = arrival.change ? this.#view.see([arrival.change]) : null
      if (seen === null || !(seen instanceof Promise)) {
        this.#deliver(arrival, seen?.[0])
        return
      }
      this.#busy = true
      seen.then(
        ([change]) => {
          this.#deliver(arrival, change)
          return this.#work()
        },
        (error: unknown) => this.#fail(error),
      )
      return
    }
    this.#queue.push(arrival)
    this.#queueBytes += arrival.change?.body.length ?? 0
    if (this.#queueBytes > viewQueueBytes) this.#fail(new Error('too many changes wait for the database'))
  }

  async #work(): Promise<void> {
    try {
      while (this.#queue.length > 0) {
        const arrivals = this.#queue
        this.#queue = []
        this.#queueBytes = 0
        const seen = await this.#view.see(arrivals.flatMap(({ change }) => change ?? []))
        const bySequence = new Map(seen.map((change) => [change.sequence, change]))
        for (const arrival of arrivals) this.#deliver(arrival, bySequence.get(arrival.sequence))
      }
      this.#busy = false
    } catch (error) {
      this.#fail(error)
    }
  }

  #deliver(arrival: Arrival, change: Change | undefined): void {
    for (const subscription of this.subscriptions) subscription.offer(arrival, change)
  }

  /** Without the database nobody can tell who may see what: better no stream than a wrong one. */
  #fail(error: unknown): void {
    this.#queue = []
    this.#queueBytes = 0
    this.#busy = false
    const [reason, text]: [StreamEnd, string] =
      error instanceof Rejected
        ? ['forbidden', error.message]
        : ['unavailable', 'The database cannot be asked what may be shown']
    for (const subscription of [...this.subscriptions]) subscription.end(reason, text)
  }
}

class Subscription implements ChangeSubscription {
  readonly #hub: Hub
  readonly #request: ChangeRequest
  readonly #sink: ChangeSink
  readonly #maxUnsentBytes: number
  readonly #onClosed: (reason: StreamEnd | null) => void
  #open = true
  #live = false
  /** Last sequence that was considered. */
  #last = 0

  constructor(
    hub: Hub,
    request: ChangeRequest,
    sink: ChangeSink,
    maxUnsentBytes: number,
    onClosed: (reason: StreamEnd | null) => void,
  ) {
    this.#hub = hub
    this.#request = request
    this.#sink = sink
    this.#maxUnsentBytes = maxUnsentBytes
    this.#onClosed = onClosed
  }

  start(): void {
    this.#last = this.#hub.position
    if (this.#request.from === null && this.#request.snapshot === null) {
      this.#goLive()
      this.#sink.ready({ rows: 0 })
    } else this.#catchUp().catch((error: unknown) => this.#fail(error))
  }

  close(): void {
    this.#finish(null)
  }

  end(reason: StreamEnd, text: string): void {
    if (!this.#open) return
    this.#finish(reason)
    this.#sink.end(reason, text)
  }

  /** @param change what the subscriber may see of the arrival's change; undefined: nothing */
  offer(arrival: Arrival, change: Change | undefined): void {
    if (!this.#open || arrival.sequence <= this.#last) return
    this.#last = arrival.sequence
    if (arrival.gap !== null) this.#sink.gap({ reason: arrival.gap, resumesAt: arrival.sequence + 1 })
    else if (change && passes(this.#request, change)) this.#send(change)
  }

  #send(change: Change): void {
    const { unsentBytes } = this.#sink
    // One change that is larger than the limit still gets through to a client that has taken all others.
    if (unsentBytes > 0 && unsentBytes + change.body.length > this.#maxUnsentBytes) {
      this.end('slow-reader', `More than ${this.#maxUnsentBytes} bytes waited for this client, which reads too slowly`)
    } else this.#sink.change(change)
  }

  #goLive(): void {
    this.#live = true
    this.#hub.channel(this.#request.subject).join(this, this.#request.view)
  }

  #finish(reason: StreamEnd | null): void {
    if (!this.#open) return
    this.#open = false
    if (this.#live) this.#hub.channel(this.#request.subject).leave(this, this.#request.view)
    this.#onClosed(reason)
  }

  #fail(error: unknown): void {
    const told = error instanceof Rejected || error instanceof Unavailable
    this.end(
      error instanceof Rejected ? 'forbidden' : 'unavailable',
      told ? error.message : 'The stream cannot be read now',
    )
  }

  /** The rows or the history first, at the client's pace, then live from exactly there. */
  async #catchUp(): Promise<void> {
    const { snapshot, from } = this.#request
    const include = snapshot ? await this.#sendSnapshot(snapshot) : () => true
    let next = snapshot ? this.#last + 1 : await this.#startOf(from!)
    if (!snapshot && this.#open) this.#sink.ready({ rows: 0 })
    while (this.#open) {
      const { ring } = this.#hub
      if (next < ring.start) next = await this.#hub.replaying(() => this.#replay(next, ring.start))
      else {
        const arrivals = ring.of(this.#request.subject, next, replayBatch)
        if (arrivals.length === 0) break
        await this.#sendPast(arrivals, include)
        next = arrivals.at(-1)!.sequence + 1
      }
    }
    // Nothing of the table came since the ring was read in this very turn.
    if (!this.#open) return
    this.#last = next - 1
    this.#filterLive(include)
    this.#goLive()
  }

  /** Changes that the snapshot shows already can still be on their way to us. */
  #filterLive(include: (change: Change) => boolean): void {
    if (this.#request.snapshot === null) return
    const deliver = this.#send.bind(this)
    this.#sendLive = (change) => {
      if (include(change)) deliver(change)
    }
  }

  #sendLive: ((change: Change) => void) | null = null

  async #sendSnapshot(read: () => Promise<{ rows: readonly Buffer[]; includes(change: Change): boolean }>) {
    this.#last = this.#hub.ring.since(Date.now() - snapshotOverlapMs, this.#hub.position + 1) - 1
    const snapshot = await read()
    for (const [index, row] of snapshot.rows.entries()) {
      if (!this.#open) break
      this.#sink.snapshotRow(row)
      if (this.#sink.unsentBytes > this.#maxUnsentBytes / 2) await this.#sink.drained()
      else if (index % 1_000 === 999) await nextTurn()
    }
    this.#request.view.noteShown(snapshot.rows.map(snapshotMembers))
    this.#sink.ready({ rows: snapshot.rows.length })
    return (change: Change) => !snapshot.includes(change)
  }

  /** First sequence to send, after telling of a gap when what was asked for is gone. */
  async #startOf(from: number | Date): Promise<number> {
    if (from instanceof Date) {
      const { first, firstAt, last } = await this.#hub.stream.bounds()
      if (first > 1 && last >= first && from.getTime() < firstAt)
        this.#sink.gap({ reason: 'expired', resumesAt: first })
      return await this.#sequenceAt(from)
    }
    if (from > this.#hub.position + 1) {
      const { last } = await this.#hub.stream.bounds()
      if (from > last + 1) {
        this.#sink.gap({ reason: 'unknown-position', resumesAt: this.#hub.position + 1 })
        return this.#hub.position + 1
      }
    }
    if (from >= this.#hub.ring.start) return from
    const { first } = await this.#hub.stream.bounds()
    if (from < first) this.#sink.gap({ reason: 'expired', resumesAt: first })
    return Math.max(from, first)
  }

  async #sequenceAt(from: Date): Promise<number> {
    return await this.#hub.replaying(async () => {
      for await (const [arrival] of this.#hub.stream.history(this.#request.subject, from, 1)) {
        if (arrival) return arrival.sequence
      }
      return this.#hub.position + 1
    })
  }

  /** From the stream, up to where the ring begins. */
  async #replay(from: number, ringStart: number): Promise<number> {
    let next = from
    for await (const arrivals of this.#hub.stream.history(this.#request.subject, from, replayBatch)) {
      if (!this.#open) return next
      await this.#sendPast(arrivals, () => true)
      next = Math.max(next, (arrivals.at(-1)?.sequence ?? 0) + 1)
    }
    return Math.max(next, ringStart)
  }

  async #sendPast(arrivals: readonly Arrival[], include: (change: Change) => boolean): Promise<void> {
    const changes = arrivals.flatMap(({ change }) => (change && include(change) ? change : []))
    const seen = new Map((await this.#request.view.see(changes)).map((change) => [change.sequence, change]))
    for (const arrival of arrivals) {
      if (!this.#open) return
      const change = seen.get(arrival.sequence)
      if (arrival.gap !== null) this.#sink.gap({ reason: arrival.gap, resumesAt: arrival.sequence + 1 })
      else if (change && passes(this.#request, change)) this.#sink.change(change)
      if (this.#sink.unsentBytes > this.#maxUnsentBytes / 2) await this.#sink.drained()
    }
    this.#last = arrivals.at(-1)?.sequence ?? this.#last
  }
}
