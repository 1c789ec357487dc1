import type { Pgoutput } from 'pg-logical-replication'
import { commandPrefix } from '../../schemas/data/change.ts'
import { ChangeEmitter, type ChangeEmitterOptions, type RowChange, type Transaction } from './change-emitter.ts'
import { parseLsn } from './lsn.ts'
import { type Encode, EventWriter } from './row-event.ts'

export interface ChangeReaderOptions extends ChangeEmitterOptions {
  readonly encodersOf: (typeOids: readonly number[]) => Promise<readonly Encode[]>
  /** The transaction ended at `endLsn`; it is stored as soon as `messages` messages of the publisher are. */
  readonly onCommit: (endLsn: bigint, messages: number) => void
  /** A table was described: it is new or has changed. */
  readonly onRelation: () => void
}

/** Turns what the slot sends into events on the stream, in order. */
export class ChangeReader {
  readonly #options: ChangeReaderOptions
  readonly #emitter: ChangeEmitter
  readonly #writers = new WeakMap<Pgoutput.MessageRelation, EventWriter>()
  #transaction: Transaction | null = null

  constructor(options: ChangeReaderOptions) {
    this.#options = options
    this.#emitter = new ChangeEmitter(options)
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
        return this.#row(message.relation, {
          operation: 'insert',
          rows: [message.new],
          write: (writer, timestamp, omitted) => writer.insert(message.new, timestamp, omitted),
        })
      case 'update':
        return this.#row(message.relation, {
          operation: 'update',
          rows: [message.old, message.new],
          write: (writer, timestamp, omitted) => writer.update(message, timestamp, omitted),
        })
      case 'delete':
        return this.#row(message.relation, {
          operation: 'delete',
          rows: [message.old],
          write: (writer, timestamp, omitted) => writer.delete(message, timestamp, omitted),
        })
      case 'truncate':
        return this.#truncate(message.relations)
      case 'message':
        if (!message.transactional || message.prefix !== commandPrefix) return undefined
        return this.#emitter.command(this.#current(), Buffer.from(message.content).toString('utf8'))
      default:
        return undefined
    }
  }

  async #learn(relation: Pgoutput.MessageRelation): Promise<void> {
    const encoders = await this.#options.encodersOf(relation.columns.map(({ typeOid }) => typeOid >>> 0))
    this.#writers.set(relation, new EventWriter(relation, encoders))
    this.#options.onRelation()
  }

  #row(relation: Pgoutput.MessageRelation, change: RowChange): Promise<void> | undefined {
    return this.#emitter.row(this.#current(), relation.schema, () => this.#writerOf(relation), change)
  }

  async #truncate(relations: readonly Pgoutput.MessageRelation[]): Promise<void> {
    for (const relation of relations) {
      await this.#row(relation, {
        operation: 'truncate',
        rows: [],
        write: (writer, timestamp) => writer.truncate(timestamp),
      })
    }
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
}
