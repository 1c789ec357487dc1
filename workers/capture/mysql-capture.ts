import { hash } from 'node:crypto'
import type { NatsConnection } from '@nats-io/nats-core'
import ZongJi, { type TableMapEvent } from '@vlasky/zongji'
import type { ConnectionOptions } from 'mysql2'
import { type Connection as AsyncConnection, createConnection } from 'mysql2/promise'
import { changeSubject, commandSubject, gapSubject, sourceSubjects } from '../../bus/subject.ts'
import { type Capture, CaptureLoop } from './capture-loop.ts'
import type { CapturedSchemas } from './change-emitter.ts'
import { ChangeLog, type LogState } from './change-log.ts'
import { formatLsn } from './lsn.ts'
import { BinlogReader } from './mysql-changes.ts'
import { EventQueue } from './mysql-events.ts'
import { type BinlogServer, checkBinlog, takeReading } from './mysql-findings.ts'
import { MysqlTables } from './mysql-tables.ts'
import type { CaptureObservation } from './observation.ts'

export interface MysqlCaptureOptions {
  /** As for `mysql2`; `database` is not needed. */
  readonly connection: ConnectionOptions
  /** Name of the database in the subjects of its changes. */
  readonly source: string
  /** Only changes of these databases' tables are published. */
  readonly schemas: CapturedSchemas
  readonly bus: NatsConnection
  readonly streamName: string
  readonly signal: AbortSignal
  readonly onObservation?: (observation: CaptureObservation) => void
  /** How often it is tried again when the database refuses. Default 5,000. */
  readonly refusedRetryMs?: number
}

/**
 * Starts the reader of a MySQL or MariaDB server's changes: the binary log in, events on `cdc.<source>.>` out, in commit order, each
 * exactly once. Where to go on lies with the last message of the stream. Resolves at once; the status tells how it goes.
 */
export function startMysqlCapture(options: MysqlCaptureOptions): Capture {
  return new MysqlCapture(options).loop
}

/** The server keeps nothing for us, so that there is no slot; the word is in the ids of messages. */
const slotName = 'binlog'
/** The last one is ours. */
const systemSchemas = ['mysql', 'information_schema', 'performance_schema', 'sys', 'busbar']
/** What the reader makes events of, and what it needs besides. */
const includeEvents = [
  'gtid',
  'mariadbgtid',
  'anonymousgtid',
  'rowsquery',
  'annotaterows',
  'tablemap',
  'writerows',
  'updaterows',
  'deleterows',
  'query',
  'xid',
]
class MysqlCapture {
  readonly loop: CaptureLoop
  readonly #options: MysqlCaptureOptions
  readonly #observe: (observation: CaptureObservation) => void
  readonly #log: ChangeLog
  #stored: bigint | null = null

  constructor(options: MysqlCaptureOptions) {
    const { source, bus, streamName, signal, refusedRetryMs = 5_000, onObservation = () => undefined } = options
    this.#options = options
    this.#observe = onObservation
    this.#log = new ChangeLog({ bus, streamName, slotName, subjects: sourceSubjects(source) })
    this.loop = new CaptureLoop({
      source,
      slot: slotName,
      publication: slotName,
      bus,
      log: this.#log,
      signal,
      refusedRetryMs,
      onObservation,
      session: (stopped) => this.#session(stopped),
      meaning: (error) => error,
      position: () => (this.#stored === null ? undefined : formatLsn(this.#stored)),
    })
    this.loop.start()
  }

  async #session(stopped: AbortSignal): Promise<void> {
    const connection = await createConnection({ ...this.#options.connection, connectTimeout: 10_000 })
    const lost = Promise.withResolvers<never>()
    lost.promise.catch(() => undefined)
    connection.on('error', (error) => lost.reject(error))
    connection.on('end', () => lost.reject(new Error('The connection to the database has ended')))
    try {
      const server = await checkBinlog(connection)
      await takeReading(connection, this.#options.source)
      const state = await this.#comparable(server)
      await Promise.race([lost.promise, this.#read(connection, server, state, stopped)])
    } finally {
      connection.destroy()
    }
  }

  /** A place of this server to go on from; where there is none, readers are told of a gap, and it begins with what comes now. */
  async #comparable(server: BinlogServer): Promise<LogState> {
    const state = await this.#log.state()
    if (state.origin === originOf(server) && state.resume !== '') return state
    await this.#gap(server, state.last === null ? 'capture-started' : 'source-changed')
    return await this.#log.state()
  }

  async #gap(server: BinlogServer, reason: string): Promise<void> {
    const { source } = this.#options
    // An empty set would mean all that the log still has.
    const resume = server.executed === '' ? 'none' : server.executed
    await this.#log.publishGap(gapSubject(source), reason, { origin: originOf(server), resume })
    this.#observe({ type: 'capture-gap', source, reason })
  }

  async #read(connection: AsyncConnection, server: BinlogServer, state: LogState, stopped: AbortSignal): Promise<void> {
    const { source, schemas, connection: to } = this.#options
    const publisher = this.#log.publisher(state, originOf(server), () => undefined)
    const tables = new MysqlTables(connection, server.isMariadb)
    const reader = new BinlogReader({
      schemas,
      isStored: ({ id }, index) => id === state.transaction && state.last !== null && index <= state.last.index,
      publisher,
      maxBodyBytes: state.maxBodyBytes,
      subjects: {
        command: commandSubject(source),
        change: (schema, table, operation) => changeSubject(source, schema, table, operation),
      },
      tables,
      onCommit: (lsn) => {
        this.#stored = lsn
      },
      onOversized: (change) => this.#observe({ type: 'capture-oversized', source, ...change }),
    })
    const zongji = new ZongJi({ ...to, dateStrings: true, jsonStrings: true, timezone: 'Z' } as ConnectionOptions)
    const failed = Promise.withResolvers<never>()
    failed.promise.catch(() => undefined)
    zongji.on('error', (error) => failed.reject(error))
    zongji.on('ready', () => this.loop.running())
    const events = new EventQueue(zongji, {
      prepare: (event) => (event.getEventName() === 'tablemap' ? tables.mend(event as TableMapEvent) : undefined),
      handle: (event, resume) => reader.handle(event, resume),
      fail: failed.reject,
    })
    const ended = Promise.withResolvers<void>()
    const stop = () => ended.resolve()
    stopped.addEventListener('abort', stop, { once: true })
    if (stopped.aborted) stop()
    try {
      zongji.start({
        gtidSet: state.resume === 'none' ? '' : state.resume,
        serverId: serverId(source),
        includeEvents,
        requestAnnotateRows: true,
        ...(schemas === 'ALL'
          ? { excludeSchema: Object.fromEntries(systemSchemas.map((name) => [name, true as const])) }
          : { includeSchema: Object.fromEntries(schemas.map((name) => [name, true as const])) }),
      })
      await Promise.race([ended.promise, failed.promise, publisher.failed])
    } catch (error) {
      if (!isPurged(error)) throw error
      await this.#gap(server, 'log-purged')
      throw error
    } finally {
      stopped.removeEventListener('abort', stop)
      events.close()
      zongji.stop()
    }
  }
}

/** Of this reader among the replicas: two of the same number throw each other out. */
function serverId(source: string): number {
  return 1_000_000_000 + (Number.parseInt(hash('sha256', source, 'hex').slice(0, 7), 16) % 1_000_000_000)
}

function originOf({ identity }: BinlogServer): string {
  return hash('sha256', identity, 'hex').slice(0, 8)
}

/** The server has thrown away, or never had, what comes next. */
function isPurged(error: unknown): boolean {
  const { errno, code } = error as { readonly errno?: number; readonly code?: string }
  return errno === 1236 || code === 'ER_MASTER_FATAL_ERROR_READING_BINLOG'
}
