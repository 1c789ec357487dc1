import { Rejected } from '../../schemas/failure.ts'
import type { Column, DatabaseType } from './catalog.ts'
import type { Flavour } from './mysql-sql.ts'
import { slotMark } from './mysql-statement.ts'
import { comparable, parameter, parameterList, textSql } from './mysql-values.ts'
import { isJson } from './operators.ts'
import type { Comparison, Filter, RelatedRows } from './read-ast.ts'

export interface FilterScope {
  readonly flavour: Flavour
  readonly alias: string
  readonly column: (name: string) => Column
  /** A condition on related rows as it stands in the statement. */
  readonly related: (rows: RelatedRows) => string
}

/** The condition, ready to stand behind `where`, `and` or `not`. */
export function filterSql(filter: Filter, scope: FilterScope): string {
  switch (filter.kind) {
    case 'and':
    case 'or':
      if (filter.items.length === 0) return String(filter.kind === 'and')
      return `(${filter.items.map((item) => filterSql(item, scope)).join(` ${filter.kind} `)})`
    case 'not':
      return `(not ${filterSql(filter.item, scope)})`
    case 'some':
    case 'none':
    case 'every':
      return scope.related(filter)
    case 'compare':
      return `(${comparisonSql(filter, scope)})`
  }
}

function comparisonSql(comparison: Comparison, { alias, column, flavour }: FilterScope): string {
  const field = column(comparison.column)
  const { type } = field
  const slot = comparison.slots[0] ?? 0
  const raw = slotMark(slot, 'text')
  const left = comparable(alias, field)
  const ranked = rankOf(field, alias, slot)
  const infix = (operator: string) => `${left} ${operator} ${parameter(slot, type)}`
  switch (comparison.operator) {
    case 'eq':
      return isJson(type) ? sameJson(left, raw, flavour) : infix('=')
    case 'neq':
      return isJson(type) ? `not ${sameJson(left, raw, flavour)}` : infix('<>')
    case 'isdistinct':
      return `not (${left} <=> ${parameter(slot, type)})`
    case 'gt':
      return `${ranked.left} > ${ranked.right}`
    case 'gte':
      return `${ranked.left} >= ${ranked.right}`
    case 'lt':
      return `${ranked.left} < ${ranked.right}`
    case 'lte':
      return `${ranked.left} <= ${ranked.right}`
    case 'in':
      return `${left} in (${parameterList(slot, type)})`
    case 'notin':
      return `${left} not in (${parameterList(slot, type)})`
    case 'is':
      return `${left} is ${comparison.truth}`
    case 'jsoncontains':
      return `json_contains(${left}, ${raw})`
    case 'jsoncontained':
      return `json_contains(${raw}, ${left})`
    case 'haskey':
      return `json_contains_path(${left}, 'one', concat('$.', json_quote(${raw})))`
    case 'haskeys':
      return `json_contains(json_keys(${left}), ${slotMark(slot, 'keys')})`
    case 'hasanykeys':
      return `json_overlaps(json_keys(${left}), ${slotMark(slot, 'keys')})`
    default:
      return textComparison(comparison, exactText(`${alias}.\`${field.name.replaceAll('`', '``')}\``, type), raw)
  }
}

/** Whatever the collation of the column, these tell apart what is not the same. */
function textComparison({ operator, column }: Comparison, text: string, raw: string): string {
  switch (operator) {
    case 'like':
      return `${text} like ${raw}`
    case 'ilike':
      return `lower(${text}) like lower(${raw})`
    case 'contains':
      return `locate(${raw}, ${text}) > 0`
    case 'startswith':
      return `locate(${raw}, ${text}) = 1`
    case 'endswith':
      // Compared as bytes: texts would be the same whatever the spaces at their ends.
      return `cast(right(${text}, char_length(${raw})) as binary) = cast(${raw} as binary)`
    case 'match':
      return `${text} regexp ${raw}`
    case 'imatch':
      return `lower(${text}) regexp lower(${raw})`
    default:
      throw new Rejected('data/invalid-filter', `MySQL has no operator like ${operator}`, {
        details: { field: column, operator },
      })
  }
}

function exactText(sql: string, type: DatabaseType): string {
  return `convert(${textSql(sql, type)} using utf8mb4) collate utf8mb4_bin`
}

/** The places of labels are their order; a comparison with a text would go by the alphabet. */
export function rankOf(
  field: Pick<Column, 'name' | 'type'>,
  alias: string,
  slot: number,
): { readonly left: string; readonly right: string } {
  const left = comparable(alias, field)
  const { type } = field
  if (type.base.kind !== 'enum') return { left, right: parameter(slot, type) }
  const labels = type.base.enumValues.map((label) => `_utf8mb4 x'${Buffer.from(label).toString('hex')}'`)
  return { left: `${left} + 0`, right: `field(${slotMark(slot, 'text')}, ${labels.join(', ')})` }
}

function sameJson(left: string, raw: string, flavour: Flavour): string {
  return flavour.server === 'mysql' ? `(${left} = cast(${raw} as json))` : `json_equals(${left}, ${raw})`
}
