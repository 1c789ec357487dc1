import { Rejected } from '../../schemas/failure.ts'
import type { Table } from '../data/catalog.ts'
import type { Aggregate, AggregateFunction, Aggregation, RowSelection, SelectedColumn } from '../data/read-ast.ts'
import type { ReadLimits } from '../data/read-limits.ts'
import { checkAggregate, checkGroup, checkProperties, columnOf } from '../data/select.ts'
import { shown } from '../data/suggestion.ts'
import { leadingName, type Place, refuse, splitList } from './parse-text.ts'

type Selected =
  | { readonly kind: 'every' }
  | ({ readonly kind: 'column' } & SelectedColumn)
  | ({ readonly kind: 'aggregate' } & Aggregate)

/** `*`, `<column>`, `<column>.sum()`, `count()`, each with `<name>:` in front to name the property. */
export function parseSelect(
  table: Table,
  text: string,
  parameter: string,
  limits: ReadLimits,
): RowSelection | Aggregation {
  const place: Place = { parameter, code: 'data/invalid-select' }
  const pieces = splitList(text, place)
  if (pieces.length > limits.maxSelected) {
    throw new Rejected('data/too-complex', `${parameter}: more than ${limits.maxSelected} columns`, {
      details: { field: parameter },
    })
  }
  const selected = pieces.map((piece) => parsePiece(table, piece.trim(), place))
  const aggregates = selected.filter((one) => one.kind === 'aggregate').map(({ kind: _, ...aggregate }) => aggregate)
  const named = selected.filter((one) => one.kind === 'column').map(({ kind: _, ...column }) => column)
  const every = selected.some((one) => one.kind === 'every')
  if (aggregates.length > 0) {
    if (every) refuse(place, '* cannot stand beside an aggregate', 'name the columns to group by')
    const groups = withoutRepeats(named)
    for (const { column } of groups) checkGroup(columnOf(table, column, parameter), parameter)
    checkProperties(
      [...groups, ...aggregates].map(({ property }) => property),
      parameter,
    )
    return { kind: 'aggregate', groups, aggregates }
  }
  const all = every ? table.columns.map(({ name }) => ({ property: name, column: name })) : []
  const columns = withoutRepeats([...all, ...named])
  checkProperties(
    columns.map(({ property }) => property),
    parameter,
  )
  return { kind: 'rows', columns: every && columns.length === table.columns.length ? null : columns, expansions: [] }
}

/** The same column under the same name twice says nothing new. */
function withoutRepeats(columns: readonly SelectedColumn[]): SelectedColumn[] {
  const seen = new Map(columns.map((column) => [JSON.stringify([column.property, column.column]), column]))
  return [...seen.values()]
}

const callPattern = /^(?:(.*)\.)?(count|sum|avg|min|max)\(\)$/

function parsePiece(table: Table, text: string, place: Place): Selected {
  if (text === '*') return { kind: 'every' }
  // A column's own name may hold a colon or look like a call.
  if (table.columnByName.has(text)) return { kind: 'column', property: text, column: text }
  const { name: first, rest } = leadingName(text, ':', place)
  const aliased = rest.startsWith(':')
  const alias = aliased ? first : undefined
  const subject = aliased ? rest.slice(1).trim() : text
  if (first === '' || subject === '') refuse(place, `expected a column or an aggregate, not ${shown(text)}`)
  const call = callPattern.exec(subject)
  if (call) return aggregate(table, alias, call[2] as AggregateFunction, call[1], place)
  const column = columnOf(table, columnName(subject, place), place.parameter).name
  return { kind: 'column', property: alias ?? column, column }
}

function aggregate(
  table: Table,
  alias: string | undefined,
  name: AggregateFunction,
  argument: string | undefined,
  place: Place,
): Selected {
  const property = alias ?? name
  if (argument === undefined) {
    if (name !== 'count') refuse(place, `${name}() needs a column, as in amount.${name}()`)
    return { kind: 'aggregate', property, function: name, column: null }
  }
  const column = columnOf(table, columnName(argument, place), place.parameter)
  checkAggregate(name, column, place.parameter)
  return { kind: 'aggregate', property, function: name, column: column.name }
}

function columnName(text: string, place: Place): string {
  if (!text.startsWith('"')) return text
  const { name, rest } = leadingName(text, '', place)
  if (rest !== '') refuse(place, `unexpected ${shown(rest)} after the closing quote`)
  return name
}
