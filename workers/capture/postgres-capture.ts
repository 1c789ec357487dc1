import { hash } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { NatsConnection } from '@nats-io/nats-core'
import { Client, type ClientConfig } from 'pg'
import { changeSubject, commandSubject, gapSubject, sourceSubjects } from '../../bus/subject.ts'
import { type Capture, CaptureLoop, shortReason } from './capture-loop.ts'
import type { CapturedSchemas } from './change-emitter.ts'
import { ChangeLog, type LogState } from './change-log.ts'
import { formatLsn } from './lsn.ts'
import type { CaptureObservation } from './observation.ts'
import { ChangeReader } from './postgres-changes.ts'
import { checkRights, type Rights, refusalOf } from './postgres-findings.ts'
import { ensurePublications } from './postgres-publication.ts'
import { replicate } from './postgres-replication.ts'
import { dropSlot, ensureSlot, retainedBytes, type Slot } from './postgres-slot.ts'
import { TypeEncoders } from './postgres-types.ts'
import { CaptureBusy } from './refusal.ts'

export interface PostgresCaptureOptions {
  /** As for `pg.Client`. */
  readonly connection: ClientConfig
  /** Name of the database in the subjects of its changes. */
  readonly source: string
  /** Only changes of these schemas' tables are published. */
  readonly schemas: CapturedSchemas
  readonly slotName: string
  readonly publicationName: string
  readonly bus: NatsConnection
  readonly streamName: string
  readonly signal: AbortSignal
  readonly onObservation?: (observation: CaptureObservation) => void
  /** WAL held back by the slot that is worth a warning. Default 1 GiB. */
  readonly retainedBytesWarning?: number
  /** How often publications follow the tables and the slot is looked at. Default 1,000. */
  readonly checkMs?: number
  /** How often it is tried again when the database refuses. Default 5,000. */
  readonly refusedRetryMs?: number
}

/**
 * Starts the reader of a PostgreSQL database's changes: logical replication in, events on `cdc.<source>.>` out, in commit order,
 * each exactly once. Resolves at once; the status tells how it goes. Runs until stopped, whatever fails.
 */
export function startPostgresCapture(options: PostgresCaptureOptions): Capture {
  return new PostgresCapture(options).loop
}

class PostgresCapture {
  readonly loop: CaptureLoop
  readonly #options: Required<Omit<PostgresCaptureOptions, 'onObservation'>>
  readonly #observe: (observation: CaptureObservation) => void
  readonly #log: ChangeLog
  /** It cannot be read past its position, now or later. */
  #slotIsStuck = false
  #durable: DurablePosition | null = null
  #warnedBytes = 0
  /** Ends the pause before the publications are looked at. */
  #wake: () => void = () => undefined
  #unpublishedKey = '[]'

  constructor(options: PostgresCaptureOptions) {
    const { onObservation = () => undefined, ...given } = options
    this.#options = { retainedBytesWarning: 1024 ** 3, checkMs: 1_000, refusedRetryMs: 5_000, ...given }
    this.#observe = onObservation
    const { source, slotName, publicationName, bus, streamName } = options
    this.#log = new ChangeLog({ bus, streamName, slotName, subjects: sourceSubjects(source) })
    this.loop = new CaptureLoop({
      source,
      slot: slotName,
      publication: publicationName,
      bus,
      log: this.#log,
      signal: options.signal,
      refusedRetryMs: this.#options.refusedRetryMs,
      onObservation,
      session: (signal) => this.#session(signal),
      meaning: (error) => this.#meaning(error),
      position: () => (this.#durable === null ? undefined : formatLsn(this.#durable.lsn)),
    })
    this.loop.start()
  }

  #meaning(thrown: unknown): unknown {
    const error = refusalOf(thrown) ?? thrown
    // Servers before 18 decode with the publications of that moment and fail for ever where one was missing.
    if (sqlState(error) === '42704' && /publication/.test(shortReason(error))) this.#slotIsStuck = true
    return sqlState(error) === '55006' ? new CaptureBusy('Another capture reads the slot', { cause: error }) : error
  }

  /** One connection from its set-up to its end. Resolves when stopped, rejects on every fault. */
  async #session(stopped: AbortSignal): Promise<void> {
    const { connection, slotName, checkMs } = this.#options
    const client = new Client({
      ...connection,
      application_name: 'busbar-capture-setup',
      connectionTimeoutMillis: 10_000,
      keepAlive: true,
    })
    const lost = Promise.withResolvers<never>()
    lost.promise.catch(() => undefined)
    client.on('error', (error) => lost.reject(error))
    const ending = new AbortController()
    const signal = AbortSignal.any([stopped, ending.signal])
    const closeOnStop = () => void client.end().catch(() => undefined)
    stopped.addEventListener('abort', closeOnStop, { once: true })
    let reading: Promise<void> = Promise.resolve()
    try {
      await client.connect()
      const rights = await checkRights(client)
      // Before the bus is asked: it is while nobody can read the slot that the WAL piles up.
      this.#noteRetained((await retainedBytes(client, slotName)) ?? 0)
      if (this.#slotIsStuck) await dropSlot(client, slotName)
      this.#slotIsStuck = false
      const publications = await this.#publish(client, rights, () => dropSlot(client, slotName))
      let state = await this.#log.state()
      const slot = await ensureSlot(client, slotName, async (reason) => {
        if (state.last !== null && !state.isGap) await this.#gap(reason)
      })
      state = await this.#comparable(slot)
      this.#noteRetained(slot.retainedBytes)
      const encoders = new TypeEncoders(client)
      reading = this.#read({ slot, state, publications, signal, encoders })
      await Promise.race([lost.promise, reading, this.#watch(client, rights, publications, { signal, checkMs })])
    } finally {
      ending.abort()
      await reading.catch(() => undefined)
      stopped.removeEventListener('abort', closeOnStop)
      await Promise.race([client.end().catch(() => undefined), delay(2_000, undefined, { ref: false })])
    }
  }

  async #read({
    slot,
    state,
    publications,
    signal,
    encoders,
  }: {
    readonly slot: Slot
    readonly state: LogState
    readonly publications: readonly string[]
    readonly signal: AbortSignal
    readonly encoders: TypeEncoders
  }): Promise<void> {
    const { connection, slotName, schemas, source } = this.#options
    const { last } = state
    const durable = new DurablePosition(slot.confirmedLsn)
    this.#durable = durable
    const publisher = this.#log.publisher(state, originOf(slot), (stored) => durable.stored(stored))
    const reader = new ChangeReader({
      schemas,
      isStored: ({ lsn }, index) => last !== null && (lsn < last.lsn || (lsn === last.lsn && index <= last.index)),
      publisher,
      maxBodyBytes: state.maxBodyBytes,
      subjects: {
        command: commandSubject(source),
        change: (schema, table, operation) => changeSubject(source, schema, table, operation),
      },
      encodersOf: (oids) => encoders.of(oids),
      onCommit: (endLsn, messages) => durable.commit(endLsn, messages),
      // A new table's updates are published as soon as it is known, not a second later.
      onRelation: () => this.#wake(),
      onOversized: (change) => this.#observe({ type: 'capture-oversized', source, ...change }),
    })
    const ending = new AbortController()
    const replication = replicate({
      connection,
      slotName,
      publicationNames: publications,
      handle: (message) => reader.handle(message),
      durableLsn: () => durable.lsn,
      onCaughtUp: (lsn) => {
        if (reader.idle && publisher.idle) durable.caughtUp(lsn)
      },
      onStart: () => this.loop.running(),
      signal: AbortSignal.any([signal, ending.signal]),
    })
    try {
      await Promise.race([replication, publisher.failed])
    } finally {
      ending.abort()
      await replication.catch(() => undefined)
    }
  }

  /** While the slot is read: publications follow the tables, and what the slot holds back is measured. */
  async #watch(
    client: Client,
    rights: Rights,
    publications: readonly string[],
    { signal, checkMs }: { readonly signal: AbortSignal; readonly checkMs: number },
  ): Promise<void> {
    while (!signal.aborted) {
      const woken = Promise.withResolvers<void>()
      this.#wake = woken.resolve
      const pause = new AbortController()
      const paused = delay(checkMs, undefined, { signal: AbortSignal.any([signal, pause.signal]) })
      await Promise.race([paused.catch(() => undefined), woken.promise])
      pause.abort()
      if (signal.aborted) return
      const names = await this.#publish(client, rights, () => {
        throw new Error('A publication is gone')
      })
      if (names.join() !== publications.join()) throw new Error('The publications changed')
      const retained = await retainedBytes(client, this.#options.slotName)
      if (retained === null) throw new Error('The replication slot is gone')
      this.#noteRetained(retained)
    }
  }

  async #publish(client: Client, rights: Rights, beforeCreating: () => Promise<void>): Promise<readonly string[]> {
    const { publicationName, schemas, source } = this.#options
    const { names, unpublished } = await ensurePublications(client, rights, {
      publicationName,
      schemas,
      beforeCreating,
    })
    const key = JSON.stringify(unpublished)
    if (key !== this.#unpublishedKey) {
      this.#unpublishedKey = key
      if (unpublished.length > 0) this.#observe({ type: 'capture-unpublished', source, tables: unpublished })
      this.loop.note({ unpublished }, true)
    }
    return names
  }

  /** Positions on the stream mean something only when they come from this database and lie before its present. */
  async #comparable(slot: Slot): Promise<LogState> {
    const state = await this.#log.state()
    if (state.last === null || state.isGap) return state
    if (state.origin === originOf(slot) && state.last.lsn <= slot.walLsn) return state
    await this.#gap('another database')
    return await this.#log.state()
  }

  async #gap(cause: 'missing' | 'invalidated' | 'another database'): Promise<void> {
    const { source } = this.#options
    const reason = cause === 'another database' ? 'source-changed' : `slot-${cause}`
    await this.#log.publishGap(gapSubject(source), reason)
    this.#observe({ type: 'capture-gap', source, reason })
  }

  #noteRetained(bytes: number): void {
    this.loop.note({ retainedBytes: bytes }, false)
    const { retainedBytesWarning, source, slotName } = this.#options
    if (bytes < retainedBytesWarning) this.#warnedBytes = 0
    else if (bytes >= Math.max(retainedBytesWarning, 2 * this.#warnedBytes)) {
      this.#warnedBytes = bytes
      this.#observe({ type: 'capture-retains-wal', source, slot: slotName, retainedBytes: bytes })
    }
  }
}

/** Up to where everything is stored: the end of the last commit all of whose messages are. */
class DurablePosition {
  #lsn: bigint
  #stored = 0
  readonly #commits: { endLsn: bigint; readonly messages: number }[] = []

  constructor(lsn: bigint) {
    this.#lsn = lsn
  }

  get lsn(): bigint {
    return this.#lsn
  }

  commit(endLsn: bigint, messages: number): void {
    const waiting = this.#commits.at(-1)
    if (messages <= this.#stored && !waiting) this.#advance(endLsn)
    // Any number of transactions that hold nothing for us can come while the bus makes us wait.
    else if (waiting?.messages === messages) waiting.endLsn = endLsn
    else this.#commits.push({ endLsn, messages })
  }

  stored(messages: number): void {
    this.#stored = messages
    let done = 0
    while (done < this.#commits.length && this.#commits[done]!.messages <= messages) done += 1
    if (done > 0) this.#advance(this.#commits.splice(0, done).at(-1)!.endLsn)
  }

  caughtUp(lsn: bigint): void {
    if (this.#commits.length === 0) this.#advance(lsn)
  }

  #advance(lsn: bigint): void {
    if (lsn > this.#lsn) this.#lsn = lsn
  }
}

function originOf({ identity }: Slot): string {
  return hash('sha256', identity, 'hex').slice(0, 8)
}

function sqlState(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}
