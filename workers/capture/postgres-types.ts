import type { ClientBase } from 'pg'
import {
  encodeArray,
  encodeBoolean,
  encodeComposite,
  encodeJson,
  encodeNumber,
  encodeText,
  encodeTimestamp,
  encodeTimestampTz,
} from './postgres-text.ts'
import type { Encode } from './row-event.ts'

/** Base types `row_to_json` does not write as texts. Source: PostgreSQL, json_categorize_type. */
const baseEncoders: ReadonlyMap<number, Encode> = new Map([
  [16, encodeBoolean],
  [20, encodeNumber],
  [21, encodeNumber],
  [23, encodeNumber],
  [700, encodeNumber],
  [701, encodeNumber],
  [1700, encodeNumber],
  [114, encodeJson],
  [3802, encodeJson],
  [1114, encodeTimestamp],
  [1184, encodeTimestampTz],
])

interface TypeRow {
  readonly oid: number
  readonly base: number
  /** Of a true array, else 0. */
  readonly element: number
  readonly delimiter: string
  readonly attributes: readonly { readonly name: string; readonly type: number }[] | null
}

/** All that a set of types consists of, in one statement: bases of domains, elements of arrays, attributes of composites. */
const typesSql = `
  with recursive wanted(oid) as (
    select unnest($1::oid[])
    union
    select part.oid from wanted
      join pg_type t on t.oid = wanted.oid
      left join lateral (
        select t.typbasetype union all select t.typelem
        union all select atttypid from pg_attribute where attrelid = t.typrelid and attnum > 0 and not attisdropped
      ) part(oid) on true
      where part.oid <> 0 and (t.typtype in ('d', 'c') or t.typelem <> 0)
  )
  select t.oid::int8::text as oid, t.typbasetype::int8::text as base, coalesce(e.typdelim, ',') as delimiter,
    case when t.typtype = 'b' and t.typlen = -1 and t.typsubscript = 'array_subscript_handler'::regproc
      then t.typelem else 0 end::int8::text as element,
    case when t.typtype = 'c' then (
      select coalesce(json_agg(json_build_object('name', attname, 'type', atttypid::int8) order by attnum), '[]')::text
      from pg_attribute where attrelid = t.typrelid and attnum > 0 and not attisdropped) end as attributes
  from wanted join pg_type t using (oid) left join pg_type e on e.oid = t.typelem`

/** Encoders by type, read from the database when a table with a new type appears. */
export class TypeEncoders {
  readonly #client: ClientBase
  readonly #encoders = new Map<number, Encode>(baseEncoders)

  constructor(client: ClientBase) {
    this.#client = client
  }

  /**
   * One encoder for each of the types; a type the database does not know (any more) is a text. Types that users made are read
   * anew each time, because ALTER TYPE can change them.
   */
  async of(oids: readonly number[]): Promise<readonly Encode[]> {
    const firstOfUsers = 16_384
    const unknown = [...new Set(oids)].filter((oid) => oid >= firstOfUsers || !this.#encoders.has(oid))
    if (unknown.length > 0) {
      const { rows } = await this.#client.query<Record<string, string | null>>(typesSql, [unknown])
      const byOid = new Map(rows.map((row) => [Number(row.oid), typeRow(row)]))
      for (const oid of byOid.keys()) if (oid >= firstOfUsers) this.#encoders.delete(oid)
      for (const oid of unknown) this.#encoders.set(oid, this.#build(oid, byOid))
    }
    return oids.map((oid) => this.#encoders.get(oid) ?? encodeText)
  }

  #build(oid: number, byOid: ReadonlyMap<number, TypeRow>): Encode {
    const known = this.#encoders.get(oid)
    if (known) return known
    const type = byOid.get(oid)
    if (!type) return encodeText
    let built: Encode = encodeText
    // A composite can hold an array of itself: what refers to it meanwhile is led to the finished encoder.
    this.#encoders.set(oid, (text) => built(text))
    if (type.base !== 0) built = this.#build(type.base, byOid)
    else if (type.element !== 0) built = encodeArray(this.#build(type.element, byOid), type.delimiter)
    else if (type.attributes !== null) {
      built = encodeComposite(
        type.attributes.map((attribute) => ({
          head: `${JSON.stringify(attribute.name)}:`,
          encode: this.#build(attribute.type, byOid),
        })),
      )
    }
    this.#encoders.set(oid, built)
    return built
  }
}

function typeRow(row: Record<string, string | null>): TypeRow {
  return {
    oid: Number(row.oid),
    base: Number(row.base),
    element: Number(row.element),
    delimiter: row.delimiter ?? ',',
    attributes: row.attributes ? JSON.parse(row.attributes) : null,
  }
}
