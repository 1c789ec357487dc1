import type { Field } from './filter.ts'
import { isArray, isJson, isRange, isText } from './operators.ts'
import { parameter, typeName } from './postgres-sql.ts'
import type { Comparison, Filter, RelatedRows } from './read-ast.ts'

/** A field as it stands in the statement. */
export type FieldSql = (name: string) => Pick<Field, 'type'> & { readonly sql: string }

/** A condition on related rows as it stands in the statement. */
export type RelatedSql = (rows: RelatedRows) => string

const unrelated: RelatedSql = ({ relation }) => {
  throw new Error(`the relation ${relation} cannot be followed here`)
}

/** The condition, ready to stand behind `where`, `and` or `not`. */
export function filterSql(filter: Filter, field: FieldSql, related: RelatedSql = unrelated): string {
  switch (filter.kind) {
    case 'and':
    case 'or':
      if (filter.items.length === 0) return String(filter.kind === 'and')
      return `(${filter.items.map((item) => filterSql(item, field, related)).join(` ${filter.kind} `)})`
    case 'not':
      return `not ${filterSql(filter.item, field, related)}`
    case 'some':
    case 'none':
    case 'every':
      return related(filter)
    case 'compare':
      return `(${comparisonSql(filter, field(filter.column))})`
  }
}

function comparisonSql(comparison: Comparison, { sql, type }: ReturnType<FieldSql>): string {
  const slot = comparison.slots[0] ?? 0
  const text = isText(type) ? sql : `${sql}::text`
  // json (not jsonb) has no operators of its own.
  const plainJson = type.base.name === 'json'
  const left = plainJson ? `${sql}::jsonb` : sql
  const right = plainJson ? `$${slot}::jsonb` : parameter(slot, type)
  const infix = (operator: string) => `${left} ${operator} ${right}`
  switch (comparison.operator) {
    case 'eq':
      return infix('=')
    case 'neq':
      return infix('<>')
    case 'gt':
      return infix('>')
    case 'gte':
      return infix('>=')
    case 'lt':
      return infix('<')
    case 'lte':
      return infix('<=')
    case 'isdistinct':
      return infix('is distinct from')
    case 'in':
      return membership(comparison, left, type, plainJson, '=', 'any', ' or ', 'false')
    case 'notin':
      return membership(comparison, left, type, plainJson, '<>', 'all', ' and ', 'true')
    case 'is':
      return truthSql(comparison, sql, type.base.kind === 'composite')
    case 'like':
      return `${text} like $${slot}::text`
    case 'ilike':
      return `${text} ilike $${slot}::text`
    case 'startswith':
      return `starts_with(${text}, $${slot}::text)`
    case 'endswith':
      return `right(${text}, length($${slot}::text)) = $${slot}::text`
    case 'contains':
      return `strpos(${text}, $${slot}::text) > 0`
    case 'match':
      return `${text} ~ $${slot}::text`
    case 'imatch':
      return `${text} ~* $${slot}::text`
    case 'haskey':
      return `${left} ? $${slot}::text`
    case 'haskeys':
      return `${left} ?& $${slot}::text[]`
    case 'hasanykeys':
      return `${left} ?| $${slot}::text[]`
    case 'jsoncontains':
      return `${left} @> $${slot}::jsonb`
    case 'jsoncontained':
      return `${left} <@ $${slot}::jsonb`
    case 'arraycontains':
    case 'arrayhasall':
    case 'cs':
      return infix('@>')
    case 'cd':
      return infix('<@')
    case 'arrayhasany':
    case 'ov':
      return infix('&&')
    case 'arraylength':
      return `cardinality(${sql}) = $${slot}::int4`
    case 'sl':
      return infix('<<')
    case 'sr':
      return infix('>>')
    case 'nxl':
      return infix('&>')
    case 'nxr':
      return infix('&<')
    case 'adj':
      return infix('-|-')
    case 'fts':
      return searchSql(comparison, sql, type, 'to_tsquery')
    case 'plfts':
      return searchSql(comparison, sql, type, 'plainto_tsquery')
    case 'phfts':
      return searchSql(comparison, sql, type, 'phraseto_tsquery')
    case 'wfts':
      return searchSql(comparison, sql, type, 'websearch_to_tsquery')
  }
}

function membership(
  { slots }: Comparison,
  left: string,
  type: Field['type'],
  plainJson: boolean,
  operator: string,
  quantifier: string,
  join: string,
  empty: string,
): string {
  if (isArray(type)) return slots.map((slot) => `${left} ${operator} ${parameter(slot, type)}`).join(join) || empty
  return `${left} ${operator} ${quantifier}($${slots[0]}::${plainJson ? 'jsonb' : typeName(type)}[])`
}

/** `is null` on a composite asks whether all its fields are null, which is not what a filter on the column means. */
function truthSql({ truth }: Comparison, sql: string, composite: boolean): string {
  return composite && truth === 'null' ? `${sql} is not distinct from null` : `${sql} is ${truth}`
}

function searchSql({ slots }: Comparison, sql: string, type: Field['type'], toQuery: string): string {
  const configuration = slots[1] === undefined ? '' : `$${slots[1]}::regconfig, `
  const document =
    type.base.name === 'tsvector'
      ? sql
      : `to_tsvector(${configuration}${isJson(type) ? `${sql}::jsonb` : `${sql}::text`})`
  return `${document} @@ ${toQuery}(${configuration}$${slots[0]}::text)`
}

/** Comparisons that no ordinary index answers. */
export function isHeavy(filter: Filter | null, field: (name: string) => Field['type']): boolean {
  if (filter === null) return false
  if (filter.kind === 'not') return isHeavy(filter.item, field)
  if (filter.kind === 'and' || filter.kind === 'or') return filter.items.some((item) => isHeavy(item, field))
  if (filter.kind !== 'compare') return true
  const type = field(filter.column)
  return isRange(type) || isArray(type) || isJson(type) || scanning.has(filter.operator)
}

const scanning = new Set(['like', 'ilike', 'endswith', 'contains', 'match', 'imatch', 'fts', 'plfts', 'phfts', 'wfts'])
