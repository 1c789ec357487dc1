import { type CheerioAPI, load } from 'cheerio'
import { TaskFailure } from '../../plugin.ts'
import type { Field } from './html-properties.ts'
import { textIn } from './html-text.ts'

interface Asked {
  readonly text: string
  readonly selector: string
  readonly fields: Readonly<Record<string, string | Field>>
  readonly baseUrl?: string
  readonly limit: number
}

type Selection = ReturnType<CheerioAPI>
type Node = Selection[number]

const maxSpan = 1_000

export function extract(asked: Asked) {
  const { fields, selector } = asked
  if (Object.keys(fields).length === 0) throw new TaskFailure('refused', 'properties.fields is needed for extract')
  const { $, scope } = opened(asked)
  const items = scope.map((item) => {
    const entries = Object.entries(fields).map(([name, field]) => {
      const place = `properties.fields.${name}`
      return [name, fieldOf($, item, typeof field === 'string' ? shorthand(field) : field, place, asked.baseUrl)]
    })
    return Object.fromEntries(entries) as Record<string, unknown>
  })
  return { data: selector === '' ? items[0] : items, count: items.length }
}

export function text(asked: Asked) {
  const { scope } = opened(asked)
  return { text: scope.map((item) => textIn(item.get(0)!)).join('\n\n'), count: scope.length }
}

export function links(asked: Asked) {
  const { $, scope } = opened(asked)
  const found = scope.flatMap((item) => {
    const inside = item.find('a[href], area[href]').toArray()
    return (item.is('a[href]') ? [item.get(0)!, ...inside] : inside).map((link) => ({
      url: whole($(link).attr('href') ?? '', asked.baseUrl),
      text: textIn(link) || ($(link).attr('alt') ?? ''),
    }))
  })
  const links = found.slice(0, asked.limit)
  return { links, count: links.length }
}

export function tables(asked: Asked) {
  const { $, scope } = opened(asked)
  const found = scope.flatMap((item) => (item.is('table') ? [item.get(0)!] : item.find('table').toArray()))
  const tables = found.slice(0, asked.limit).map((table) => tableOf($, $(table)))
  return { tables, count: tables.length }
}

function opened({ text, selector, limit }: Asked) {
  const $ = load(text)
  if (selector === '') return { $, scope: [$.root() as Selection] }
  const scope = attempt('properties.selector', () => $(selector).toArray())
  return { $, scope: scope.slice(0, limit).map((element) => $(element) as Selection) }
}

function attempt<Result>(place: string, work: () => Result): Result {
  try {
    return work()
  } catch (error) {
    throw new TaskFailure('refused', `${place} is no CSS selector: ${(error as Error).message}`, error)
  }
}

/** `a@href` is the attribute of a selector. */
function shorthand(text: string): Field {
  const [, selector = text, attribute] = /^(.*)@([\w:-]+)$/s.exec(text) ?? []
  return { selector, ...(attribute !== undefined && { attribute }) }
}

function fieldOf($: CheerioAPI, item: Selection, field: Field, place: string, baseUrl?: string): unknown {
  const { selector = '', attribute, as = 'text', all = false } = field
  const found = selector === '' ? item.toArray() : attempt(place, () => item.find(selector).toArray())
  const values = (all ? found : found.slice(0, 1)).map((element) => {
    if (attribute !== undefined) {
      const value = $(element).attr(attribute) ?? null
      return value !== null && ['href', 'src'].includes(attribute) ? whole(value, baseUrl) : value
    }
    return as === 'html' ? ($(element).html() ?? '') : textIn(element)
  })
  return all ? values : (values[0] ?? null)
}

function whole(url: string, baseUrl?: string): string {
  if (baseUrl === undefined) return url
  if (!URL.canParse(baseUrl)) throw new TaskFailure('refused', 'properties.baseUrl is no URL')
  return URL.canParse(url, baseUrl) ? new URL(url, baseUrl).href : url
}

function tableOf($: CheerioAPI, table: Selection) {
  const own = table.find('tr').filter((_, row) => $(row).closest('table').is(table))
  const rows = own.toArray()
  const heads = rows.map((row) => $(row).children('td').length === 0 && $(row).children('th').length > 0)
  const cells = spread($, rows)
  const caption = table.children('caption').get(0)
  const body = cells.filter((_, row) => !heads[row])
  const columns = heads[0] === true ? named(cells[0] ?? []) : []
  return {
    caption: caption === undefined ? null : textIn(caption),
    columns,
    rows:
      columns.length === 0
        ? body
        : body.map((row) => Object.fromEntries(columns.map((name, at) => [name, row[at] ?? null]))),
  }
}

/** Cells that span several rows or columns are in each of them. */
function spread($: CheerioAPI, rows: readonly Node[]): string[][] {
  const grid: string[][] = rows.map(() => [])
  let room = 1_000_000
  for (const [at, row] of rows.entries()) {
    let column = 0
    for (const cell of $(row).children('td, th').toArray()) {
      while (grid[at]![column] !== undefined) column += 1
      const text = textIn(cell)
      const down = Math.min(spanOf($(cell).attr('rowspan')), rows.length - at)
      const across = spanOf($(cell).attr('colspan'))
      room -= down * across
      if (room < 0) throw new TaskFailure('refused', 'The table has more than 1000000 cells')
      for (let y = at; y < at + down; y++) for (let x = column; x < column + across; x++) grid[y]![x] = text
    }
  }
  return grid.map((row) => Array.from(row, (cell) => cell ?? ''))
}

function spanOf(written = '1'): number {
  const span = Number.parseInt(written, 10)
  return Number.isInteger(span) && span > 0 ? Math.min(span, maxSpan) : 1
}

/** Names that are there twice, or empty, get their place behind them. */
function named(names: readonly string[]): string[] {
  return names.map((name, at) => (name === '' || names.indexOf(name) !== at ? `${name || 'column'}_${at + 1}` : name))
}
