import type { Table } from './catalog.ts'
import { everyColumn, quoted, tableName } from './postgres-sql.ts'

/** Rows that the statement has inserted, or has changed from what their table still shows. */
export interface WrittenRows {
  readonly table: Table
  /** Something to select from, with all columns of the table. */
  readonly rows: string
  readonly replaced: boolean
}

/** Gives every table of a statement an alias of its own. Rows are always named `alias.*`: a bare alias would yield to a column of that name. */
export class Aliases {
  readonly #prefix: string
  #count = 0

  readonly #written: WrittenRows | null

  constructor(prefix = 't', written: WrittenRows | null = null) {
    this.#prefix = prefix
    this.#written = written
  }

  /** Where related rows of the table are read from. A statement sees the tables as they were before it: what it writes itself comes on top. */
  source(table: Pick<Table, 'schema' | 'name'>): string {
    const name = tableName(table)
    if (
      this.#written === null ||
      this.#written.table.schema !== table.schema ||
      this.#written.table.name !== table.name
    )
      return name
    const { rows, replaced, table: own } = this.#written
    const same = own.primaryKey.map((column) => `n.${quoted(column)} = o.${quoted(column)}`).join(' and ')
    const former = replaced ? ` where not exists (select from ${rows} n where ${same})` : ''
    return `(select ${everyColumn(own, 'o')} from ${name} o${former} union all select ${everyColumn(own, 'n')} from ${rows} n)`
  }

  next(): string {
    return `${this.#prefix}${this.#count++}`
  }
}
