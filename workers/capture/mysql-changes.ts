import type {
  BinlogEvent,
  DeleteRowsEvent,
  QueryEvent,
  RowData,
  TableMapEvent,
  UpdateRowsEvent,
  WriteRowsEvent,
} from '@vlasky/zongji'
import { ChangeEmitter, type ChangeEmitterOptions, type RowChange, type Transaction } from './change-emitter.ts'
import type { MysqlTable, MysqlTables } from './mysql-tables.ts'
import { EventWriter, type Tuple } from './row-event.ts'

export interface BinlogReaderOptions extends ChangeEmitterOptions {
  readonly tables: MysqlTables
  /** A transaction has ended. */
  readonly onCommit: (lsn: bigint) => void
}

/**
 * What an API write leaves in the comment of its statement, for the change streams to know whose it is:
 * `busbar.command:<base64url of the JSON>`.
 */
const commandComment = /\/\*busbar\.command:([\w-]{1,4000})\*\//

/** Turns the events of the log into events on the stream, in order. */
export class BinlogReader {
  readonly #options: BinlogReaderOptions
  readonly #emitter: ChangeEmitter
  #transaction: Transaction | null = null

  constructor(options: BinlogReaderOptions) {
    this.#options = options
    this.#emitter = new ChangeEmitter(options)
  }

  /** @param resume what is executed when the event comes; before its transaction, for the event that begins one */
  handle(event: BinlogEvent, resume: string): Promise<void> | undefined {
    switch (event.getEventName()) {
      case 'gtid':
      case 'mariadbgtid':
      case 'anonymousgtid':
        this.#begin(event, resume)
        return undefined
      case 'annotaterows':
      case 'rowsquery':
        return this.#command((event as BinlogEvent & { readonly statement?: string }).statement ?? '')
      case 'tablemap':
        return this.#options.tables.learn(event as TableMapEvent)
      case 'writerows':
        return this.#rows(event as WriteRowsEvent, (table, row: RowData) => {
          const after = tupleOf(table, row)
          return {
            operation: 'insert',
            rows: [after],
            write: (writer, timestamp, omitted) => writer.insert(after, timestamp, omitted),
          }
        })
      case 'updaterows':
        return this.#rows(event as UpdateRowsEvent, (table, { before, after }) => {
          const change = { old: tupleOf(table, before), key: null, new: tupleOf(table, after) }
          return {
            operation: 'update',
            rows: [change.old, change.new],
            write: (writer, timestamp, omitted) => writer.update(change, timestamp, omitted),
          }
        })
      case 'deleterows':
        return this.#rows(event as DeleteRowsEvent, (table, row: RowData) => {
          const before = { old: tupleOf(table, row), key: null }
          return {
            operation: 'delete',
            rows: [before.old],
            write: (writer, timestamp, omitted) => writer.delete(before, timestamp, omitted),
          }
        })
      case 'query':
        return this.#query(event as QueryEvent)
      case 'xid':
        this.#end()
        return undefined
      default:
        return undefined
    }
  }

  #begin(event: BinlogEvent, resume: string): void {
    const { gtid = '' } = event
    this.#transaction = {
      lsn: BigInt(/(\d+)$/.exec(gtid)?.[1] ?? 0),
      id: gtid,
      timestamp: String(event.timestamp),
      resume: resume === '' ? 'none' : resume,
      count: 0,
      command: undefined,
    }
  }

  #end(): void {
    if (this.#transaction === null) return
    this.#options.onCommit(this.#transaction.lsn)
    this.#transaction = null
  }

  async #rows<Row>(
    event: { readonly tableId: number; readonly rows: readonly Row[] },
    changeOf: (table: MysqlTable, row: Row) => RowChange,
  ): Promise<void> {
    const table = this.#options.tables.get(event.tableId)
    if (table === undefined) throw new Error('The log has rows of a table that it has not described')
    for (const row of event.rows) {
      const busy = this.#emitter.row(this.#current(), table.schema, () => table.writer, changeOf(table, row))
      if (busy !== undefined) await busy
    }
  }

  /** Statements stand in the log for what changes no rows one by one. */
  #query({ query, schema }: QueryEvent): Promise<void> | undefined {
    if (/^\s*(?:begin|start\s+transaction|savepoint|xa\s)/i.test(query)) return undefined
    const emptied = emptiedTable(query, schema)
    const transaction = this.#transaction
    if (emptied === null || transaction === null) {
      this.#end()
      return undefined
    }
    const busy = this.#emitter.row(
      transaction,
      emptied.schema,
      () => new EventWriter({ ...emptied, columns: [], keyColumns: [] }, []),
      { operation: 'truncate', rows: [], write: (writer, timestamp) => writer.truncate(timestamp) },
    )
    this.#end()
    return busy
  }

  #command(statement: string): Promise<void> | undefined {
    const encoded = commandComment.exec(statement)?.[1]
    if (encoded === undefined || this.#transaction === null) return undefined
    return this.#emitter.command(this.#transaction, Buffer.from(encoded, 'base64url').toString('utf8'))
  }

  #current(): Transaction {
    if (this.#transaction === null) throw new Error('A change came outside of a transaction')
    return this.#transaction
  }
}

function tupleOf(table: MysqlTable, row: RowData): Tuple {
  return Object.fromEntries(table.columns.map(({ name, value }) => [name, value.text(row[name])]))
}

const word = '(?:`((?:[^`]|``)+)`|([\\w$\\u0080-\\uffff]+))'
const truncate = new RegExp(`^\\s*(?:/\\*.*?\\*/\\s*)*truncate\\s+(?:table\\s+)?${word}(?:\\s*\\.\\s*${word})?`, 'is')

/** The table that a statement empties; null when it does something else. */
function emptiedTable(query: string, schema: string): { readonly schema: string; readonly name: string } | null {
  const found = truncate.exec(query)
  if (found === null) return null
  const [, firstQuoted, first, secondQuoted, second] = found
  const [one, other] = [firstQuoted?.replaceAll('``', '`') ?? first!, secondQuoted?.replaceAll('``', '`') ?? second]
  return other === undefined ? { schema, name: one } : { schema: one, name: other }
}
