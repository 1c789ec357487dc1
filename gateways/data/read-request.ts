import type { Places } from './blame.ts'
import type { ListShape, RowShape } from './read-ast.ts'
import type { Parameter } from './statement.ts'

/**
 * The parameters of a request while it is parsed. A slot is the `$n` of its value, so a parsed request holds only slots:
 * what is left of it without the values is its shape, and equal shapes compile to equal SQL.
 */
export class Slots {
  readonly values: Parameter[] = []
  /** Where in the request each of them stands, as error texts name it. */
  readonly places: (string | undefined)[] = []

  add(value: Parameter, place?: string): number {
    this.places.push(place)
    return this.values.push(value)
  }
}

/** What the reply says of the page; `cursorDigest` is given with cursor paging. */
export interface PageInfo {
  readonly limit: number
  readonly offset: number
  readonly cursorDigest: string | null
  /** Cursors were given, so there are rows on that side. */
  readonly hasAfter: boolean
  readonly hasBefore: boolean
}

export interface ListRequest {
  readonly shape: ListShape
  readonly parameters: readonly Parameter[]
  readonly places?: Places
  readonly page: PageInfo
}

export interface RowRequest {
  readonly shape: RowShape
  readonly parameters: readonly Parameter[]
  readonly places?: Places
}

/** Key of the compiled statement, to be joined with the catalog's version. */
export function shapeOf(request: { readonly shape: unknown }): string {
  return JSON.stringify(request.shape)
}

/** Splits what the statement returned into the page's rows, in the order asked for, and what lies around them. */
export function pageOf<Row>(
  request: ListRequest,
  rows: readonly Row[],
): { readonly rows: readonly Row[]; readonly hasMore: boolean; readonly hasPrevious: boolean } {
  const { limit, offset, hasAfter, hasBefore } = request.page
  const further = rows.length > limit
  const page = further ? rows.slice(0, limit) : rows
  if (request.shape.page.kind === 'offset') return { rows: page, hasMore: further, hasPrevious: offset > 0 }
  if (!request.shape.page.backward) return { rows: page, hasMore: further, hasPrevious: hasAfter }
  return { rows: page.toReversed(), hasMore: hasBefore, hasPrevious: further }
}
