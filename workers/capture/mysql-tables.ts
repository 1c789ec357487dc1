import { setTimeout as delay } from 'node:timers/promises'
import type { TableMapEvent } from '@vlasky/zongji'
import { LRUCache } from 'lru-cache'
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

/** What only the database knows of a table's columns: their types as declared, and which hold JSON. */
interface Present {
  readonly types: ReadonlyMap<string, string>
  readonly json: ReadonlySet<string>
}

const maxPresents = 10_000

/**
 * The tables of a log. Names, keys and values come from the log, so that a row is read as the table was when it was written; whether a
 * number is a boolean and a text JSON is only in the database's present.
 */
export class MysqlTables {
  readonly #connection: Connection
  readonly #isMariadb: boolean
  /** By the table's number in the log, which is another one after each change of the table. */
  readonly #known = new Map<number, MysqlTable>()
  /** By schema and name. */
  readonly #presents = new LRUCache<string, Present>({ max: maxPresents })
  /** Columns with a character set of tables with geometries, by the table's number. */
  readonly #texts = new Map<number, ReadonlyMap<string, TextColumn>>()

  constructor(connection: Connection, isMariadb: boolean) {
    this.#connection = connection
    this.#isMariadb = isMariadb
  }

  get(tableId: number): MysqlTable | undefined {
    return this.#known.get(tableId)
  }

  /**
   * MariaDB counts geometries among the columns that have a character set, and the client of the log does not, so that it takes one
   * column's for another's. Where there are both, the database is asked, before the rows behind the event are read.
   */
  mend(event: TableMapEvent): Promise<void> | undefined {
    const columns = event.tableMap[event.tableId]?.columnSchemas ?? []
    const isMixed = columns.some(isGeometry) && columns.some(isText)
    if (!this.#isMariadb || !isMixed) return undefined
    const known = this.#texts.get(event.tableId)
    if (known !== undefined) return mendTexts(event, known)
    return this.#textsOf(event.schemaName, event.tableName).then((texts) => {
      this.#texts.set(event.tableId, texts)
      mendTexts(event, texts)
    })
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
    const { types, json } = await this.#presentOf(schema, name)
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

  /** A table that is being truncated is not there for a moment: then it is what it was, or is asked for again. */
  async #presentOf(schema: string, name: string): Promise<Present> {
    const key = JSON.stringify([schema, name])
    for (const waitMs of [20, 60, 180, 0]) {
      const json = this.#isMariadb ? await this.#jsonOf(schema, name) : new Set<string>()
      const types = await this.#typesOf(schema, name)
      const before = this.#presents.get(key)
      if (types.size === 0 && before !== undefined) return before
      if (types.size > 0) {
        this.#presents.set(key, { types, json })
        return { types, json }
      }
      if (waitMs > 0) await delay(waitMs)
    }
    return { types: new Map(), json: new Set() }
  }

  async #typesOf(schema: string, table: string): Promise<ReadonlyMap<string, string>> {
    const [rows] = await this.#connection.query<RowDataPacket[]>(
      'select column_name as name, column_type as type from information_schema.columns where table_schema = ? and table_name = ?',
      [schema, table],
    )
    return new Map(rows.map(({ name, type }) => [String(name), String(type)]))
  }

  async #textsOf(schema: string, table: string): Promise<ReadonlyMap<string, TextColumn>> {
    const [rows] = await this.#connection.query<RowDataPacket[]>(
      `select column_name as COLUMN_NAME, column_type as COLUMN_TYPE, character_set_name as CHARACTER_SET_NAME, collation_name as COLLATION_NAME
       from information_schema.columns where table_schema = ? and table_name = ?`,
      [schema, table],
    )
    return new Map((rows as TextColumn[]).map((row) => [row.COLUMN_NAME, row]))
  }

  async #jsonOf(schema: string, table: string): Promise<ReadonlySet<string>> {
    const [rows] = await this.#connection.query<RowDataPacket[]>(
      "select check_clause as clause from information_schema.check_constraints where constraint_schema = ? and table_name = ? and check_clause like '%json_valid%'",
      [schema, table],
    )
    return new Set(rows.flatMap(({ clause }) => /^json_valid\(`(.+)`\)$/i.exec(String(clause))?.[1] ?? []))
  }
}

type ColumnSchema = TableMapEvent['tableMap'][number]['columnSchemas'][number]
type TextColumn = Pick<ColumnSchema, 'COLUMN_NAME' | 'COLUMN_TYPE' | 'CHARACTER_SET_NAME' | 'COLLATION_NAME'>

const isGeometry = ({ COLUMN_TYPE: type }: Pick<ColumnSchema, 'COLUMN_TYPE'>) =>
  /^(?:geom|point|linestring|polygon|multi)/i.test(type)
const isText = ({ COLUMN_TYPE: type }: Pick<ColumnSchema, 'COLUMN_TYPE'>) => /^\w*(?:char|binary|text|blob)/i.test(type)

/** In place, since rows are read by what stands there. */
function mendTexts(event: TableMapEvent, texts: ReadonlyMap<string, TextColumn>): undefined {
  for (const column of event.tableMap[event.tableId]?.columnSchemas ?? []) {
    const present = texts.get(column.COLUMN_NAME)
    if (isText(column) && present !== undefined && isText(present)) Object.assign(column, present)
  }
  // The client keeps character sets in a second place.
  const { updateColumnInfo } = event as unknown as { readonly updateColumnInfo: () => void }
  updateColumnInfo.call(event)
}

const baseOf = (type: string) => type.toLowerCase().split(/[ (]/)[0]
