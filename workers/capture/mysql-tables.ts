import type { TableMapEvent } from '@vlasky/zongji'
import type { Connection, RowDataPacket } from 'mysql2/promise'
import { type ValueWriter, valueWriter } from './mysql-text.ts'
import { EventWriter } from './row-event.ts'

/** A table as the log describes it, and how its rows are written. */
export interface MysqlTable {
  readonly schema: string
  readonly name: string
  readonly columns: readonly { readonly name: string; readonly value: ValueWriter }[]
  readonly writer: EventWriter
}

/**
 * The tables of a log. Names, keys and values come from the log, so that a row is read as the table was when it was written; whether a
 * number is a boolean and a text JSON is only in the database's present.
 */
export class MysqlTables {
  readonly #connection: Connection
  readonly #isMariadb: boolean
  /** By the table's number in the log, which is another one after each change of the table. */
  readonly #known = new Map<number, MysqlTable>()

  constructor(connection: Connection, isMariadb: boolean) {
    this.#connection = connection
    this.#isMariadb = isMariadb
  }

  get(tableId: number): MysqlTable | undefined {
    return this.#known.get(tableId)
  }

  /** A table that is known already needs no asking. */
  learn(event: TableMapEvent): Promise<void> | undefined {
    const known = this.#known.get(event.tableId)
    if (known !== undefined && known.schema === event.schemaName && known.name === event.tableName) return undefined
    return this.#ask(event)
  }

  async #ask(event: TableMapEvent): Promise<void> {
    const { schemaName: schema, tableName: name, tableId } = event
    const columns = event.tableMap[tableId]?.columnSchemas ?? []
    const types = await this.#typesOf(schema, name)
    const json = this.#isMariadb ? await this.#jsonOf(schema, name) : new Set<string>()
    const described = columns.map(({ COLUMN_NAME: column, COLUMN_TYPE: type }, index) => {
      const present = types.get(column)
      // Of another base type it is another column by now.
      const sure = present !== undefined && baseOf(present) === baseOf(type) ? present : type
      return { name: column, value: valueWriter(sure, json.has(column), event.geometryTypes?.[index]) }
    })
    const keyColumns = (event.primaryKey ?? []).flatMap((index) => columns[index]?.COLUMN_NAME ?? [])
    const writer = new EventWriter(
      { schema, name, columns: described, keyColumns },
      described.map(({ value }) => value.encode),
    )
    this.#known.set(tableId, { schema, name, columns: described, writer })
  }

  async #typesOf(schema: string, table: string): Promise<ReadonlyMap<string, string>> {
    const [rows] = await this.#connection.query<RowDataPacket[]>(
      'select column_name as name, column_type as type from information_schema.columns where table_schema = ? and table_name = ?',
      [schema, table],
    )
    return new Map(rows.map(({ name, type }) => [String(name), String(type)]))
  }

  async #jsonOf(schema: string, table: string): Promise<ReadonlySet<string>> {
    const [rows] = await this.#connection.query<RowDataPacket[]>(
      "select check_clause as clause from information_schema.check_constraints where constraint_schema = ? and table_name = ? and check_clause like '%json_valid%'",
      [schema, table],
    )
    return new Set(rows.flatMap(({ clause }) => /^json_valid\(`(.+)`\)$/i.exec(String(clause))?.[1] ?? []))
  }
}

const baseOf = (type: string) => type.toLowerCase().split(/[ (]/)[0]
