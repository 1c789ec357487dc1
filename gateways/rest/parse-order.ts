import { Rejected } from '../../schemas/failure.ts'
import type { WantedSort } from '../data/order.ts'
import type { ReadLimits } from '../data/read-limits.ts'
import { shown } from '../data/suggestion.ts'
import { leadingName, type Place, refuse, splitList } from './parse-text.ts'

export interface OrderParameters {
  readonly orderBy?: string | undefined
  readonly orderDirection?: string | undefined
  readonly order?: string | undefined
}

/**
 * `orderBy=a,b&orderDirection=asc,desc` (one direction counts for all columns), or `order=a.desc.nullslast,b`.
 * @throws {Rejected} `data/invalid-order`, `data/too-complex`
 */
export function parseOrder(
  { orderBy, orderDirection, order }: OrderParameters,
  prefix: string,
  limits: ReadLimits,
): WantedSort[] {
  const place = (name: string): Place => ({ parameter: `${prefix}${name}`, code: 'data/invalid-order' })
  if (order !== undefined) {
    if (orderBy !== undefined || orderDirection !== undefined)
      refuse(place('order'), 'cannot be combined with orderBy or orderDirection')
    return bounded(splitList(order, place('order')), place('order'), limits).map((piece) =>
      parseTerm(piece.trim(), place('order')),
    )
  }
  if (orderBy === undefined) {
    if (orderDirection !== undefined) directions(orderDirection, place('orderDirection'))
    return []
  }
  const columns = bounded(splitList(orderBy, place('orderBy')), place('orderBy'), limits).map((piece) =>
    nameOf(piece.trim(), place('orderBy')),
  )
  const descending = orderDirection === undefined ? [false] : directions(orderDirection, place('orderDirection'))
  if (descending.length > 1 && descending.length !== columns.length) {
    refuse(place('orderDirection'), `has ${descending.length} directions for ${columns.length} columns`)
  }
  return columns.map((column, index) => ({ column, descending: descending[descending.length === 1 ? 0 : index]! }))
}

function directions(text: string, place: Place): boolean[] {
  return text.split(',').map((piece) => {
    const direction = piece.trim().toLowerCase()
    if (direction !== 'asc' && direction !== 'desc') refuse(place, `expected asc or desc, not ${shown(piece)}`)
    return direction === 'desc'
  })
}

const modifierPattern = /^(?:\.(asc|desc))?(?:\.nulls(first|last))?$/i

/** The modifiers are read from the end, so that a dot in a column's name needs no quotes. */
function parseTerm(text: string, place: Place): WantedSort {
  if (text.startsWith('"')) {
    const { name, rest } = leadingName(text, '', place)
    return term(name, rest, place)
  }
  const tail = /(?:\.(?:asc|desc))?(?:\.nulls(?:first|last))?$/i.exec(text)!
  return term(text.slice(0, tail.index), tail[0], place)
}

function term(column: string, modifiers: string, place: Place): WantedSort {
  const match = modifierPattern.exec(modifiers)
  if (column === '' || !match)
    return refuse(place, `expected <column>.<asc|desc>.<nullsfirst|nullslast>, not ${shown(column + modifiers)}`)
  const [, direction, nulls] = match
  const descending = direction?.toLowerCase() === 'desc'
  return nulls === undefined
    ? { column, descending }
    : { column, descending, nullsFirst: nulls.toLowerCase() === 'first' }
}

function nameOf(text: string, place: Place): string {
  const { name, rest } = text.startsWith('"') ? leadingName(text, '', place) : { name: text, rest: '' }
  if (name === '' || rest !== '') refuse(place, `expected a column, not ${shown(text)}`)
  return name
}

function bounded(pieces: string[], place: Place, limits: ReadLimits): string[] {
  if (pieces.length <= limits.maxSortKeys) return pieces
  throw new Rejected('data/too-complex', `${place.parameter}: more than ${limits.maxSortKeys} columns`, {
    details: { field: place.parameter },
  })
}
