import type { Pgoutput } from 'pg-logical-replication'
import { Check } from 'typebox/value'
import { CommandMessage, commandPrefix } from '../../schemas/data/change.ts'
import type { ChangeMessage, ChangePublisher, Position } from './change-log.ts'
import { parseLsn } from './lsn.ts'
import { EventWriter, type Tuple } from './postgres-event.ts'
import type { CapturedSchemas } from './postgres-publication.ts'
import type { Encode } from './postgres-text.ts'

export interface ChangeReaderOptions {
  readonly schemas: CapturedSchemas
  readonly subjects: ChangeSubjects
  /** The last change the stream holds: it and those before it are left out. */
  readonly last: Position | null
  readonly publisher: ChangePublisher
  readonly maxBodyBytes: number
  readonly encodersOf: (typeOids: readonly number[]) => Promise<readonly Encode[]>
  /** The transaction ended at `endLsn`; it is stored as soon as `messages` messages of the publisher are. */
  readonly onCommit: (endLsn: bigint, messages: number) => void
  /** A table was described: it is new or has changed. */
  readonly onRelation: () => void
  readonly onOversized: (change: {
    readonly schema: string
    readonly table: string
    readonly omitted: readonly string[]
  }) => void
}

export interface ChangeSubjects {
  readonly command: string
  readonly change: (schema: string, table: string, operation: Operation) => string
}

export type Operation = 'insert' | 'update' | 'delete' | 'truncate'

interface Transaction {
  readonly lsn: bigint
  readonly id: number
  /** Commit time, epoch ms. */
  readonly timestamp: string
  /** Changes seen so far; each counts, published or not, so that a change has the same index at every reading. */
  count: number
  /** Id of the last command in the transaction. */
  command: string | undefined
}

type Write = (omitted?: ReadonlySet<string>) => string

/** Turns what the slot sends into events on the stream, in order. */
export class ChangeReader {
  readonly #options: ChangeReaderOptions
  readonly #writers = new WeakMap<Pgoutput.MessageRelation, EventWriter>()
  readonly #subjects = new Map<string, string>()
  #transaction: Transaction | null = null

  constructor(options: ChangeReaderOptions) {
    this.#options = options
  }

  /** Between two transactions. */
  get idle(): boolean {
    return this.#transaction === null
  }

  handle(message: Pgoutput.Message): Promise<void> | undefined {
    switch (message.tag) {
      case 'begin':
        this.#transaction = {
          lsn: parseLsn(message.commitLsn ?? '0/0'),
          id: message.xid >>> 0,
          timestamp: String(BigInt(message.commitTime as bigint) / 1000n),
          count: 0,
          command: undefined,
        }
        return undefined
      case 'commit':
        this.#transaction = null
        this.#options.onCommit(parseLsn(message.commitEndLsn ?? '0/0'), this.#options.publisher.sent)
        return undefined
      case 'relation':
        return this.#learn(message)
      case 'insert':
        return this.#row(message.relation, 'insert', [message.new], (writer, timestamp, omitted) =>
          writer.insert(message.new, timestamp, omitted),
        )
      case 'update':
        return this.#row(message.relation, 'update', [message.old, message.new], (writer, timestamp, omitted) =>
          writer.update(message, timestamp, omitted),
        )
      case 'delete':
        return this.#row(message.relation, 'delete', [message.old], (writer, timestamp, omitted) =>
          writer.delete(message, timestamp, omitted),
        )
      case 'truncate':
        return this.#truncate(message.relations)
      case 'message':
        return message.transactional && message.prefix === commandPrefix ? this.#command(message.content) : undefined
      default:
        return undefined
    }
  }

  async #learn(relation: Pgoutput.MessageRelation): Promise<void> {
    const encoders = await this.#options.encodersOf(relation.columns.map(({ typeOid }) => typeOid >>> 0))
    this.#writers.set(relation, new EventWriter(relation, encoders))
    this.#options.onRelation()
  }

  #row(
    relation: Pgoutput.MessageRelation,
    operation: Operation,
    rows: readonly (Tuple | null)[],
    write: (writer: EventWriter, timestamp: string, omitted?: ReadonlySet<string>) => string,
  ): Promise<void> | undefined {
    const transaction = this.#current()
    const index = transaction.count++
    if (!this.#isWanted(relation, transaction.lsn, index)) return undefined
    const writer = this.#writerOf(relation)
    const text: Write = (omitted) => write(writer, transaction.timestamp, omitted)
    const { body, omitted } = this.#fit(writer, rows, text)
    return this.#publish({ subject: this.#subjectOf(writer, operation), body, omitted, index, transaction })
  }

  async #truncate(relations: readonly Pgoutput.MessageRelation[]): Promise<void> {
    const transaction = this.#current()
    for (const relation of relations) {
      const index = transaction.count++
      if (!this.#isWanted(relation, transaction.lsn, index)) continue
      const writer = this.#writerOf(relation)
      const body = writer.truncate(transaction.timestamp)
      await this.#publish({ subject: this.#subjectOf(writer, 'truncate'), body, index, transaction })
    }
  }

  /** Whatever else is written under our prefix is passed over: everybody in the database may write there. */
  #command(content: Uint8Array): Promise<void> | undefined {
    const transaction = this.#current()
    const index = transaction.count++
    const body = Buffer.from(content).toString('utf8')
    const command = parseCommand(body)
    if (!command || content.length > this.#options.maxBodyBytes) return undefined
    transaction.command = command.commandId
    if (this.#isStored(transaction.lsn, index)) return undefined
    return this.#publish({ subject: this.#options.subjects.command, body, index, transaction })
  }

  #publish(change: {
    readonly subject: string
    readonly body: string
    readonly index: number
    readonly transaction: Transaction
    readonly omitted?: readonly string[] | undefined
  }): Promise<void> | undefined {
    const { subject, body, index, transaction, omitted } = change
    const message: ChangeMessage = {
      subject,
      body,
      position: { lsn: transaction.lsn, index },
      transaction: transaction.id,
      ...(transaction.command === undefined ? {} : { command: transaction.command }),
      ...(omitted === undefined ? {} : { omitted }),
    }
    return this.#options.publisher.publish(message)
  }

  /** Leaves columns out, the longest first, until the event fits into a message. */
  #fit(writer: EventWriter, rows: readonly (Tuple | null)[], write: Write) {
    const { maxBodyBytes, onOversized } = this.#options
    const whole = write()
    if (whole.length * 3 <= maxBodyBytes || Buffer.byteLength(whole) <= maxBodyBytes) return { body: whole }
    const omitted: string[] = []
    for (const column of writer.bulkiest(rows)) {
      omitted.push(column)
      const body = write(new Set(omitted))
      // Their names travel in a header.
      if (Buffer.byteLength(body) + Buffer.byteLength(JSON.stringify(omitted)) > maxBodyBytes) continue
      onOversized({ schema: writer.schema, table: writer.table, omitted })
      return { body, omitted }
    }
    throw new Error(`The key of a row of ${writer.schema}.${writer.table} is too large for a message`)
  }

  #isWanted({ schema }: Pgoutput.MessageRelation, lsn: bigint, index: number): boolean {
    const { schemas } = this.#options
    return (schemas === 'ALL' || schemas.includes(schema)) && !this.#isStored(lsn, index)
  }

  #isStored(lsn: bigint, index: number): boolean {
    const { last } = this.#options
    return last !== null && (lsn < last.lsn || (lsn === last.lsn && index <= last.index))
  }

  #current(): Transaction {
    if (!this.#transaction) throw new Error('A change came outside of a transaction')
    return this.#transaction
  }

  #writerOf(relation: Pgoutput.MessageRelation): EventWriter {
    const writer = this.#writers.get(relation)
    if (!writer) throw new Error(`The table ${relation.schema}.${relation.name} was not described`)
    return writer
  }

  #subjectOf({ schema, table }: EventWriter, operation: Operation): string {
    const key = `${operation} ${schema} ${table}`
    let subject = this.#subjects.get(key)
    if (subject === undefined) {
      subject = this.#options.subjects.change(schema, table, operation)
      this.#subjects.set(key, subject)
    }
    return subject
  }
}

function parseCommand(body: string): CommandMessage | null {
  try {
    const command: unknown = JSON.parse(body)
    // The id becomes a header.
    return Check(CommandMessage, command) && /^[\w.:-]{1,100}$/.test(command.commandId) ? command : null
  } catch {
    return null
  }
}
