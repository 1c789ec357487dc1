import { setTimeout as delay } from 'node:timers/promises'
import { type ConsumerMessages, DeliverPolicy, type JsMsg } from '@nats-io/jetstream'
import pg from 'pg'
import { type Bus, BusUnavailable } from '../bus/connect.ts'
import { buryMessage } from '../bus/dead.ts'
import { asking } from '../bus/publish.ts'
import { projectedSubject } from '../bus/subject.ts'
import { type Folding, fold } from './folding.ts'

/** A set of read models that are folded from streams, and their place in the platform's database. */
export interface Projection {
  readonly name: string
  /** Raised when tables or folds change: the new tables are filled from the start, beside the old ones. */
  readonly version: number
  readonly streams: readonly string[]
  /** What makes the tables, in a schema that is on the search path. Run when there are none. */
  readonly tables: string
  /** Folds messages of one stream, in their order, in the transaction that also moves the checkpoint. Sees a message once. */
  readonly apply: (target: ProjectionTarget, messages: readonly JsMsg[]) => Promise<void>
}

export interface ProjectionTarget {
  /** In a transaction, with the projection's schema on the search path. */
  readonly client: pg.ClientBase
  /** For bodies that lie in the object store. */
  readonly bus: Bus
  readonly stream: string
}

export type ProjectionObservation =
  | { readonly type: 'projection-running'; readonly projection: string }
  | { readonly type: 'projection-trouble'; readonly projection: string; readonly error: unknown }
  /** A message that cannot be folded lies in DEAD; the tables go on without it. */
  | {
      readonly type: 'projection-dead'
      readonly projection: string
      readonly stream: string
      readonly sequence: number
      readonly error: unknown
    }

export interface ProjectorOptions {
  readonly bus: Bus
  readonly connection: pg.ClientConfig
  readonly projection: Projection
  readonly onObservation: (observation: ProjectionObservation) => void
}

export interface Projector {
  stop(): Promise<void>
}

const maxBatch = 1_000
/** Where messages come one upon the other, a few larger batches cost the database less than many small ones: the more, the longer it rests. */
const restMs = 2
const maxRestMs = 20
const retryMs = 500
const standbyMs = 1_000

/** The schema in the platform's database that holds a projection's tables. */
export function schemaOf({ name, version }: Pick<Projection, 'name' | 'version'>): string {
  return `${name}_v${version}`
}

/** Keeps a projection's tables up with its streams, in one process at a time; the others stand by. */
export function startProjector(options: ProjectorOptions): Projector {
  const stopping = new AbortController()
  const work = run(options, stopping.signal)
  return {
    async stop() {
      stopping.abort()
      await work
    },
  }
}

async function run(options: ProjectorOptions, signal: AbortSignal): Promise<void> {
  const { name } = options.projection
  while (!signal.aborted) {
    try {
      await project(options, signal)
    } catch (error) {
      if (signal.aborted) return
      options.onObservation({ type: 'projection-trouble', projection: name, error })
      await delay(retryMs, undefined, { signal }).catch(() => undefined)
    }
  }
}

async function project({ bus, connection, projection, onObservation }: ProjectorOptions, signal: AbortSignal) {
  const client = new pg.Client({ ...connection, application_name: `busbar projection ${projection.name}` })
  const lost = Promise.withResolvers<never>()
  lost.promise.catch(() => undefined)
  client.on('error', (error) => lost.reject(error))
  await client.connect()
  try {
    if (!(await Promise.race([lead(client, projection, signal), lost.promise]))) return
    await prepare(client, projection)
    onObservation({ type: 'projection-running', projection: projection.name })
    const session = new AbortController()
    const ended = AbortSignal.any([signal, session.signal])
    // One connection, so one batch at a time.
    const turns = new Turns()
    const streams = projection.streams.map((stream) =>
      follow({ bus, client, projection, stream, turns, onObservation }, ended),
    )
    // Requests that were open are gone with the old connection.
    const unwatch = bus.onReconnect(() => lost.reject(new BusUnavailable('The connection was lost and is back')))
    try {
      await Promise.race([Promise.all(streams), lost.promise])
    } finally {
      unwatch()
      session.abort()
      await Promise.allSettled(streams)
    }
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** Waits to be the one that writes; false when the signal came first. */
async function lead(client: pg.Client, projection: Projection, signal: AbortSignal): Promise<boolean> {
  while (!signal.aborted) {
    const { rows } = await client.query('select pg_try_advisory_lock(hashtext($1)) as leads', [schemaOf(projection)])
    if (rows[0].leads) return true
    await delay(standbyMs, undefined, { signal }).catch(() => undefined)
  }
  return false
}

async function prepare(client: pg.Client, projection: Projection): Promise<void> {
  const schema = schemaOf(projection)
  // What is lost with the machine is folded again.
  await client.query('set synchronous_commit = off')
  await client.query('begin')
  await client.query(`create schema if not exists ${schema}`)
  await client.query(`set local search_path to ${schema}`)
  const { rows } = await client.query(`select to_regclass($1) as there`, [`${schema}.checkpoint`])
  if (rows[0].there === null) {
    await client.query('create table checkpoint (stream text primary key, sequence bigint not null)')
    await client.query(projection.tables)
  }
  await client.query('commit')
  await client.query(`set search_path to ${schema}`)
}

/** One after the other. */
class Turns {
  #last: Promise<unknown> = Promise.resolve()
  take<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#last.then(work)
    this.#last = turn.catch(() => undefined)
    return turn
  }
}

interface Followed {
  readonly bus: Bus
  readonly client: pg.Client
  readonly projection: Projection
  readonly stream: string
  readonly turns: Turns
  readonly onObservation: ProjectorOptions['onObservation']
}

async function follow(
  { bus, client, projection, stream, turns, onObservation }: Followed,
  signal: AbortSignal,
): Promise<void> {
  const folding: Folding = {
    client,
    stream,
    apply: (messages) => projection.apply({ client, bus, stream }, messages),
    async bury(message, error) {
      await buryMessage(bus, `projections-${projection.name}`, message, error)
      onObservation({ type: 'projection-dead', projection: projection.name, stream, sequence: message.seq, error })
    },
  }
  let { sequence } = await turns.take(() => checkpointOf(client, stream))
  announce(bus, projection, stream, sequence)
  const from = { opt_start_seq: sequence + 1, deliver_policy: DeliverPolicy.StartSequence }
  const consumer = await asking(bus, () => bus.jetstream.consumers.get(stream, from))
  const messages = await consumer.consume({ max_messages: maxBatch * 2 })
  const close = () => void messages.close()
  signal.addEventListener('abort', close, { once: true })
  if (signal.aborted) close()
  try {
    for await (const batch of batches(messages)) {
      const begun = performance.now()
      await turns.take(() => fold(folding, batch))
      sequence = batch.at(-1)!.seq
      announce(bus, projection, stream, sequence)
      const leftMs = Math.min(maxRestMs, (batch.length - 1) * restMs) - (performance.now() - begun)
      if (leftMs > 1) await delay(leftMs)
    }
    if (!signal.aborted) throw new Error(`The messages of ${stream} ended`)
  } finally {
    signal.removeEventListener('abort', close)
    await messages.close()
  }
}

/** What has come so far, at once. */
async function* batches(messages: ConsumerMessages): AsyncGenerator<readonly JsMsg[]> {
  const waiting: JsMsg[] = []
  let wake = Promise.withResolvers<void>()
  let ended = false
  const reading = (async () => {
    for await (const message of messages) {
      waiting.push(message)
      wake.resolve()
    }
  })().finally(() => {
    ended = true
    wake.resolve()
  })
  for (;;) {
    if (waiting.length > 0) yield waiting.splice(0, maxBatch)
    else if (ended) break
    else {
      await wake.promise
      wake = Promise.withResolvers()
    }
  }
  await reading
}

async function checkpointOf(client: pg.Client, stream: string): Promise<{ readonly sequence: number }> {
  const { rows } = await client.query('select sequence from checkpoint where stream = $1', [stream])
  return { sequence: Number(rows[0]?.sequence ?? 0) }
}

function announce(bus: Bus, { name }: Projection, stream: string, sequence: number): void {
  if (bus.connected) bus.connection.publish(projectedSubject(name), JSON.stringify({ stream, sequence }))
}
