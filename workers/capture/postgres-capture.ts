import { hash, randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import type { NatsConnection } from '@nats-io/nats-core'
import { Client, type ClientConfig } from 'pg'
import { changeSubject, commandSubject, gapSubject, sourceSubjects } from '../../bus/subject.ts'
import type { CaptureStatus } from '../../schemas/data/capture-status.ts'
import { ChangeLog, type LogState, PublishConflict } from './change-log.ts'
import { formatLsn } from './lsn.ts'
import type { CaptureObservation } from './observation.ts'
import { ChangeReader } from './postgres-changes.ts'
import { CaptureRefused, checkRights, type Rights, refusalOf, SlotBusy } from './postgres-findings.ts'
import { type CapturedSchemas, ensurePublications } from './postgres-publication.ts'
import { replicate } from './postgres-replication.ts'
import { dropSlot, ensureSlot, retainedBytes, type Slot } from './postgres-slot.ts'
import { TypeEncoders } from './postgres-types.ts'
import { announceStatus } from './status.ts'

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

export interface Capture {
  status(): CaptureStatus
  /** Stops reading; what was read is on the stream and confirmed, or comes again. */
  stop(): Promise<void>
}

const firstBackOffMs = 100
const maxBackOffMs = 10_000
const standbyRetryMs = 500

/**
 * Starts the reader of a PostgreSQL database's changes: logical replication in, events on `cdc.<source>.>` out, in commit order,
 * each exactly once. Resolves at once; the status tells how it goes. Runs until stopped, whatever fails.
 */
export function startPostgresCapture(options: PostgresCaptureOptions): Capture {
  return new PostgresCapture(options)
}

class PostgresCapture implements Capture {
  readonly #options: Required<Omit<PostgresCaptureOptions, 'onObservation'>>
  readonly #observe: (observation: CaptureObservation) => void
  readonly #log: ChangeLog
  readonly #stopping = new AbortController()
  readonly #signal: AbortSignal
  readonly #finished: Promise<void>
  readonly #announcement: { announce(): void; close(): void }
  #status: CaptureStatus
  /** It cannot be read past its position, now or later. */
  #slotIsStuck = false
  #durable: DurablePosition | null = null
  #warnedBytes = 0
  /** Ends the pause before the publications are looked at. */
  #wake: () => void = () => undefined
  #unpublishedKey = '[]'
  /** Set when a session has read anything: the next failure starts with a short pause again. */
  #wasRunning = false

  constructor(options: PostgresCaptureOptions) {
    const { onObservation = () => undefined, ...given } = options
    this.#options = { retainedBytesWarning: 1024 ** 3, checkMs: 1_000, refusedRetryMs: 5_000, ...given }
    this.#observe = onObservation
    const { source, slotName, publicationName, bus, streamName } = options
    this.#signal = AbortSignal.any([options.signal, this.#stopping.signal])
    this.#log = new ChangeLog({ bus, streamName, slotName, subjects: sourceSubjects(source) })
    this.#status = {
      source,
      captureId: randomUUID(),
      state: 'starting',
      statements: [],
      slot: slotName,
      publication: publicationName,
      unpublished: [],
      at: Date.now(),
    }
    this.#announcement = announceStatus(bus, () => this.status())
    this.#finished = this.#run()
  }

  status(): CaptureStatus {
    return { ...this.#status, ...(this.#durable && { confirmedLsn: formatLsn(this.#durable.lsn) }) }
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await this.#finished
  }

  async #run(): Promise<void> {
    let failures = 0
    while (!this.#signal.aborted) {
      let pauseMs: number
      this.#wasRunning = false
      try {
        await this.#session()
        break
      } catch (thrown) {
        if (this.#signal.aborted) break
        const error = refusalOf(thrown) ?? thrown
        // Servers before 18 decode with the publications of that moment and fail for ever where one was missing.
        if (sqlState(error) === '42704' && /publication/.test(shortReason(error))) this.#slotIsStuck = true
        failures = this.#wasRunning ? 1 : failures + 1
        if (error instanceof CaptureRefused) {
          pauseMs = this.#options.refusedRetryMs
          this.#change({ state: 'refused', reason: error.message, statements: [...error.statements] })
        } else if (error instanceof SlotBusy || sqlState(error) === '55006') {
          pauseMs = standbyRetryMs
          this.#change({ state: 'standby', reason: 'Another capture reads the slot', statements: [] })
        } else {
          pauseMs = error instanceof PublishConflict ? firstBackOffMs : backOffMs(failures)
          this.#change({ state: 'failing', reason: shortReason(error), statements: [] })
          const { source } = this.#options
          this.#observe({ type: 'capture-failed', source, reason: shortReason(error), retryInMs: pauseMs, error })
          if (error instanceof PublishConflict)
            await this.#log.state().then(
              (state) => this.#log.noteConflict(state),
              () => undefined,
            )
        }
      }
      await delay(pauseMs, undefined, { signal: this.#signal }).catch(() => undefined)
    }
    this.#change({ state: 'stopped', statements: [] })
    this.#announcement.close()
  }

  /** One connection from its set-up to its end. Resolves when stopped, rejects on every fault. */
  async #session(): Promise<void> {
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
    const signal = AbortSignal.any([this.#signal, ending.signal])
    const closeOnStop = () => void client.end().catch(() => undefined)
    this.#signal.addEventListener('abort', closeOnStop, { once: true })
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
      this.#signal.removeEventListener('abort', closeOnStop)
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
    const durable = new DurablePosition(slot.confirmedLsn)
    this.#durable = durable
    const publisher = this.#log.publisher(state, originOf(slot), (stored) => durable.stored(stored))
    const reader = new ChangeReader({
      schemas,
      last: state.last,
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
      onStart: () => {
        this.#wasRunning = true
        this.#change({ state: 'running', statements: [] })
      },
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
      this.#status = { ...this.#status, unpublished }
      this.#announcement.announce()
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
    this.#status = { ...this.#status, retainedBytes: bytes }
    const { retainedBytesWarning, source, slotName } = this.#options
    if (bytes < retainedBytesWarning) this.#warnedBytes = 0
    else if (bytes >= Math.max(retainedBytesWarning, 2 * this.#warnedBytes)) {
      this.#warnedBytes = bytes
      this.#observe({ type: 'capture-retains-wal', source, slot: slotName, retainedBytes: bytes })
    }
  }

  #change(to: Pick<CaptureStatus, 'state' | 'statements'> & { readonly reason?: string }): void {
    const { reason: before, ...rest } = this.#status
    const same = rest.state === to.state && before === to.reason
    this.#status = { ...rest, ...to, at: Date.now() }
    this.#announcement.announce()
    if (same) return
    const { state, reason } = to
    this.#observe({ type: 'capture-state', source: rest.source, state, ...(reason === undefined ? {} : { reason }) })
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

function backOffMs(failures: number): number {
  return Math.min(maxBackOffMs, firstBackOffMs * 2 ** Math.min(failures - 1, 10)) * (0.75 + Math.random() / 2)
}

function sqlState(error: unknown): unknown {
  return error instanceof Error && 'code' in error ? error.code : undefined
}

/** Connection errors of several addresses have no message of their own. */
function shortReason(error: unknown): string {
  if (error instanceof AggregateError && error.errors.length > 0) return shortReason(error.errors[0])
  return error instanceof Error && error.message !== ''
    ? error.message
    : String((error as { code?: unknown })?.code ?? error)
}
