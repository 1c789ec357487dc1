import type { DatabaseType } from './catalog.ts'
import { quoted } from './postgres-sql.ts'
import type { Aliases } from './postgres-sql-aliases.ts'
import type { Shaping } from './read-ast.ts'

/** A value as the JSON function of the row around it shall see it. */
export function shapedSql(sql: string, type: DatabaseType, shaping: Shaping, aliases: Aliases): string {
  if (shaping.kind === 'plain') return sql
  const { base } = type
  if (base.kind !== 'array') return shapedElement(sql, base, shaping, aliases)
  if (shaping.kind === 'text') return `${sql}::text[]`
  const element = aliases.next()
  const shaped = shapedElement(`${element}.v`, base.element!.base, shaping, aliases)
  const aggregate = shaping.kind === 'object' ? 'json_agg' : 'array_agg'
  // Over no elements both aggregates are NULL.
  return `case when cardinality(${sql}) = 0 then ${aggregate === 'json_agg' ? `'[]'::json` : `'{}'::text[]`} else (select ${aggregate}(${shaped}) from (select unnest(${sql}) as v) ${element}) end`
}

function shapedElement(sql: string, type: DatabaseType, shaping: Shaping, aliases: Aliases): string {
  switch (shaping.kind) {
    case 'plain':
      return sql
    case 'text':
      return `${sql}::text`
    case 'renamed': {
      const cases = shaping.names.map(([label, name]) => `when ${textLiteral(label)} then ${textLiteral(name)}`)
      return `case ${sql}::text ${cases.join(' ')} else ${sql}::text end`
    }
    case 'object': {
      const attributes = new Map(type.attributes.map((attribute) => [attribute.name, attribute.type]))
      const list = shaping.items.map((item) => {
        const value =
          item.kind === 'constant'
            ? textLiteral(item.value)
            : shapedSql(`(${sql}).${quoted(item.column)}`, attributes.get(item.column)!, item.shaping, aliases)
        return { property: item.property, sql: value }
      })
      return `case when ${sql} is distinct from null then ${objectSql(list, aliases)} end`
    }
  }
}

export interface Member {
  readonly property: string
  readonly sql: string
}

/** One JSON object of the members, as a value. */
export function objectSql(members: readonly Member[], aliases: Aliases): string {
  const row = aliases.next()
  return `(select ${objectOf(members, row)} from (select ${memberList(members)}) ${row})`
}

/** PostgreSQL cuts names behind this many bytes, so that the columns of a row cannot carry longer ones. */
const maxNameBytes = 63

const isTooLong = ({ property }: Member) => Buffer.byteLength(property) > maxNameBytes

/** What to select for `objectOf`. */
export function memberList(members: readonly Member[]): string {
  const long = members.some(isTooLong)
  return members.map(({ property, sql }, index) => `${sql} as ${long ? `c${index}` : quoted(property)}`).join(', ')
}

/** The JSON object of a row that was selected with `memberList`. */
export function objectOf(members: readonly Member[], row: string): string {
  if (!members.some(isTooLong)) return `row_to_json(${row}.*)`
  const texts = members.map(({ property }, index) => {
    const name = `${index === 0 ? '{' : ','}${JSON.stringify(property)}:`
    return `${textLiteral(name)} || coalesce(to_json(${row}.c${index})::text, 'null')`
  })
  return `(${texts.join(' || ')} || '}')::json`
}

/** Names and labels of the catalog, which may hold anything. */
export function textLiteral(text: string): string {
  const escaped = text.replaceAll("'", "''")
  return text.includes('\\') ? `e'${escaped.replaceAll('\\', '\\\\')}'::text` : `'${escaped}'::text`
}
