import { Check } from 'typebox/value'
import { CommandMessage } from '../../schemas/data/change.ts'
import type { ChangeMessage } from './change-message.ts'
import type { ChangePublisher } from './change-publisher.ts'
import type { EventWriter, Tuple } from './row-event.ts'

/** Schemas whose tables are published; `ALL`: every one but the system's and ours, those that are yet to come too. */
export type CapturedSchemas = readonly string[] | 'ALL'

export interface ChangeEmitterOptions {
  readonly schemas: CapturedSchemas
  readonly subjects: ChangeSubjects
  /** Whether the stream holds a change already: it is left out then. */
  readonly isStored: (transaction: Transaction, index: number) => boolean
  readonly publisher: ChangePublisher
  readonly maxBodyBytes: number
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

/** A transaction while its changes come. */
export interface Transaction {
  readonly lsn: bigint
  readonly id: number | string
  /** Commit time, epoch ms. */
  readonly timestamp: string
  /** Where to read from to get it again. */
  readonly resume?: string
  /** Changes seen so far; each counts, published or not, so that a change has the same index at every reading. */
  count: number
  /** Id of the last command in the transaction. */
  command: string | undefined
}

export interface RowChange {
  readonly operation: Operation
  /** What it is written from, to know what makes it large. */
  readonly rows: readonly (Tuple | null)[]
  readonly write: (writer: EventWriter, timestamp: string, omitted?: ReadonlySet<string>) => string
}

/** Puts the changes of transactions on the stream, each once, in their order. */
export class ChangeEmitter {
  readonly #options: ChangeEmitterOptions
  readonly #subjects = new Map<string, string>()

  constructor(options: ChangeEmitterOptions) {
    this.#options = options
  }

  /** Resolves when there is room for more; returns nothing when there is room already. Counts the change in any case. */
  row(
    transaction: Transaction,
    schema: string,
    writerOf: () => EventWriter,
    { operation, rows, write }: RowChange,
  ): Promise<void> | undefined {
    const index = transaction.count++
    if (!this.#isWanted(schema) || this.#options.isStored(transaction, index)) return undefined
    const writer = writerOf()
    const { body, omitted } = this.#fit(writer, rows, (left) => write(writer, transaction.timestamp, left))
    return this.#publish({ subject: this.#subjectOf(writer, operation), body, omitted, index, transaction })
  }

  /** Whatever else is written in the place of a command is passed over: everybody in the database may write there. */
  command(transaction: Transaction, body: string): Promise<void> | undefined {
    const index = transaction.count++
    const command = parseCommand(body)
    if (!command || Buffer.byteLength(body) > this.#options.maxBodyBytes) return undefined
    transaction.command = command.commandId
    if (this.#options.isStored(transaction, index)) return undefined
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
    const { lsn, id, command, resume } = transaction
    const message: ChangeMessage = {
      subject,
      body,
      position: { lsn, index },
      transaction: id,
      ...(command === undefined ? {} : { command }),
      ...(omitted === undefined ? {} : { omitted }),
      ...(resume === undefined ? {} : { resume }),
    }
    return this.#options.publisher.publish(message)
  }

  /** Leaves columns out, the longest first, until the event fits into a message. */
  #fit(writer: EventWriter, rows: readonly (Tuple | null)[], write: (omitted?: ReadonlySet<string>) => string) {
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

  #isWanted(schema: string): boolean {
    const { schemas } = this.#options
    return schemas === 'ALL' || schemas.includes(schema)
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
