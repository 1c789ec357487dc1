import type { ChangeEvent } from '../../schemas/data/change.ts'

/** Writes a value's text, as the database prints it, as JSON. */
export type Encode = (text: string) => string

/** A table as its changes come. */
export interface ChangedTable {
  readonly schema: string
  readonly name: string
  readonly columns: readonly { readonly name: string }[]
  readonly keyColumns: readonly string[]
}

/** A row as texts, null, and nothing for a value that was left out (an unchanged TOASTed one of PostgreSQL). */
export type Tuple = Readonly<Record<string, string | null | undefined>>

type EventType = ChangeEvent['type']

interface ColumnWriter {
  readonly name: string
  /** The column's name and a colon, as JSON. */
  readonly head: string
  readonly encode: Encode
}

/** Writes the events of one table: everything that depends only on the table's shape is done once. */
export class EventWriter {
  readonly schema: string
  readonly table: string
  readonly #columns: readonly ColumnWriter[]
  readonly #key: readonly ColumnWriter[]
  readonly #heads: Readonly<Record<EventType, string>>

  /** @param encoders one for each column of the relation */
  constructor(relation: ChangedTable, encoders: readonly Encode[]) {
    this.schema = relation.schema
    this.table = relation.name
    this.#columns = relation.columns.map(({ name }, index) => ({
      name,
      head: `${JSON.stringify(name)}:`,
      encode: encoders[index]!,
    }))
    this.#key = this.#columns.filter(({ name }) => relation.keyColumns.includes(name))
    const head = (type: EventType) =>
      `{"type":"${type}","schema":${JSON.stringify(this.schema)},"table":${JSON.stringify(this.table)},"data":`
    this.#heads = {
      INSERT: head('INSERT'),
      UPDATE: head('UPDATE'),
      DELETE: head('DELETE'),
      TRUNCATE: head('TRUNCATE'),
    }
  }

  /** @param omitted columns to leave out */
  insert(row: Tuple, timestamp: string, omitted?: ReadonlySet<string>): string {
    return this.#event('INSERT', writeRow(this.#columns, row, omitted), timestamp)
  }

  /** Without full replica identity `old` is the key as it was, whether it changed or not. */
  update({ old, key, new: row }: UpdatedRow, timestamp: string, omitted?: ReadonlySet<string>): string {
    const before = old ? writeRow(this.#columns, old, omitted) : writeRow(this.#key, key ?? row, omitted)
    return this.#event('UPDATE', `{"old":${before},"new":${writeRow(this.#columns, row, omitted)}}`, timestamp)
  }

  delete({ old, key }: DeletedRow, timestamp: string, omitted?: ReadonlySet<string>): string {
    const before = old ? writeRow(this.#columns, old, omitted) : writeRow(this.#key, key ?? {}, omitted)
    return this.#event('DELETE', before, timestamp)
  }

  truncate(timestamp: string): string {
    return this.#event('TRUNCATE', '{}', timestamp)
  }

  /** The columns that are not part of the key, the longest first: what is left out of an event that would be too large. */
  bulkiest(rows: readonly (Tuple | null)[]): string[] {
    const keyed = new Set(this.#key.length === this.#columns.length ? [] : this.#key.map(({ name }) => name))
    const size = (name: string) => rows.reduce((sum, row) => sum + (row?.[name]?.length ?? 0), 0)
    return this.#columns
      .map(({ name }) => name)
      .filter((name) => !keyed.has(name))
      .sort((one, other) => size(other) - size(one))
  }

  #event(type: EventType, data: string, timestamp: string): string {
    return `${this.#heads[type]}${data},"timestamp":${timestamp}}`
  }
}

export interface UpdatedRow {
  readonly old: Tuple | null
  readonly key: Tuple | null
  readonly new: Tuple
}

export type DeletedRow = Pick<UpdatedRow, 'old' | 'key'>

function writeRow(columns: readonly ColumnWriter[], row: Tuple, omitted?: ReadonlySet<string>): string {
  let json = ''
  for (const { name, head, encode } of columns) {
    const text = row[name]
    if (text === undefined || omitted?.has(name)) continue
    json += `${json === '' ? '' : ','}${head}${text === null ? 'null' : encode(text)}`
  }
  return `{${json}}`
}
