import type { Table } from '../data/catalog.ts'
import { cursorDigest, decodeCursor } from '../data/cursor.ts'
import type { CursorPage, OffsetPage, SortKey } from '../data/read-ast.ts'
import type { ReadLimits } from '../data/read-limits.ts'
import type { PageInfo, Slots } from '../data/read-request.ts'
import { shown } from '../data/suggestion.ts'
import { type Place, refuse } from './parse-text.ts'

export interface PageParameters {
  readonly limit?: string | undefined
  readonly offset?: string | undefined
  readonly first?: string | undefined
  readonly after?: string | undefined
  readonly last?: string | undefined
  readonly before?: string | undefined
}

export interface ParsedPage {
  readonly page: OffsetPage | CursorPage
  readonly info: PageInfo
}

/** A limit over the maximum is lowered to it. @throws {Rejected} `data/invalid-page` */
export function parseLimit(text: string | undefined, parameter: string, limits: ReadLimits): number {
  return text === undefined
    ? Math.min(limits.defaultPageSize, limits.maxPageSize)
    : Math.min(wholeNumber(text, parameter), limits.maxPageSize)
}

/** @throws {Rejected} `data/invalid-page` unless it is a whole number; the database takes it up to 2^63. */
export function parseOffset(text: string | undefined, parameter: string): number {
  return text === undefined ? 0 : wholeNumber(text, parameter)
}

export function isCursorPage({ first, after, last, before }: PageParameters): boolean {
  return first !== undefined || after !== undefined || last !== undefined || before !== undefined
}

export function offsetPage(parameters: PageParameters, slots: Slots, limits: ReadLimits): ParsedPage {
  const limit = parseLimit(parameters.limit, 'limit', limits)
  const offset = parseOffset(parameters.offset, 'offset')
  return {
    page: {
      kind: 'offset',
      limit: limit + 1,
      offset: offset === 0 ? null : slots.add(String(offset), 'offset'),
    },
    info: { limit, offset, cursorDigest: null, hasAfter: false, hasBefore: false },
  }
}

/** @throws {Rejected} `data/invalid-page` for contradicting parameters, `data/invalid-cursor` for a cursor of another list. */
export function cursorPage(
  parameters: PageParameters,
  table: Table,
  keys: readonly SortKey[],
  slots: Slots,
  limits: ReadLimits,
): ParsedPage {
  const { first, after, last, before, limit: plain, offset } = parameters
  if (offset !== undefined) refuse(pagePlace('offset'), 'cannot be combined with first, after, last or before')
  const sizes = Object.entries({ first, last, limit: plain }).filter(([, text]) => text !== undefined)
  if (sizes.length > 1) refuse(pagePlace(sizes[1]![0]), `cannot be combined with ${sizes[0]![0]}`)
  const limit = parseLimit(sizes[0]?.[1], sizes[0]?.[0] ?? 'limit', limits)
  const backward = last !== undefined || (before !== undefined && after === undefined && first === undefined)
  const bound = (text: string | undefined, name: string) =>
    text === undefined
      ? null
      : decodeCursor(text, table, keys, name).map((value) => (value === null ? null : slots.add(value, name)))
  return {
    page: {
      kind: 'cursor',
      backward,
      limit: limit + 1,
      after: bound(after, 'after'),
      before: bound(before, 'before'),
    },
    info: {
      limit,
      offset: 0,
      cursorDigest: cursorDigest(table, keys),
      hasAfter: after !== undefined,
      hasBefore: before !== undefined,
    },
  }
}

export function pagePlace(parameter: string): Place {
  return { parameter, code: 'data/invalid-page' }
}

function wholeNumber(text: string, parameter: string): number {
  if (/^\d{1,15}$/.test(text)) return Number(text)
  return refuse(pagePlace(parameter), `expected a whole number, not ${shown(text)}`)
}
