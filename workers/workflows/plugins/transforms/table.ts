import { TaskFailure } from '../../plugin.ts'
import { maxFileBytes } from '../content.ts'
import { parsedJson, parsedLines } from '../json-text.ts'

const maxInline = 16 * 1024 ** 2

/** Rows of cells, as every table is once it is read and before it is written. */
export type Cells = readonly (readonly unknown[])[]

export interface TableOptions {
  readonly header: boolean
  readonly columns?: readonly string[]
  readonly maxRows: number
  /** Whether the rows are to be a text with one as JSON a line. */
  readonly toFile: boolean
}

/** Rows as they are, or as a text: a list as JSON, or one row a line. */
export type GivenRows = readonly unknown[] | string

interface Table {
  readonly rows: readonly unknown[]
  readonly columns: string[]
  readonly count: number
}

/** As rows, or the text of their lines. @throws {TaskFailure} `refused` as `rowsOf` does, and when they are too large */
export function toldTable(cells: Cells, options: TableOptions) {
  return toldRows(rowsOf(cells, options), options.toFile)
}

/** @throws {TaskFailure} `refused` when they are too large */
export function toldRows({ rows, columns, count }: Table, toFile: boolean) {
  const most = toFile ? maxFileBytes : maxInline
  const lines: string[] = []
  let size = 0
  for (const row of rows) {
    const line = `${JSON.stringify(row)}\n`
    size += line.length
    if (size > most) {
      throw new TaskFailure(
        'refused',
        `The rows are larger than ${most / 1024 ** 2} MB${toFile ? '' : ': give properties.toFile'}`,
      )
    }
    if (toFile) lines.push(line)
  }
  return toFile ? { lines: lines.join(''), columns, count } : { rows: [...rows], columns, count }
}

/** @throws {TaskFailure} `refused` for a text that holds no rows, and for too many */
export function givenRows(given: GivenRows, maxRows: number): readonly unknown[] {
  const rows = typeof given !== 'string' ? given : /^\s*\[/.test(given) ? listed(given) : parsedLines(given)
  if (rows.length > maxRows) throw new TaskFailure('refused', `There are more than ${maxRows} rows`)
  return rows
}

/** A text that begins with a list may be one line of several. */
function listed(text: string): readonly unknown[] {
  if (/\]\s*\n\s*\[/.test(text)) return parsedLines(text)
  const list = parsedJson(text)
  return Array.isArray(list) ? list : [list]
}

/** @throws {TaskFailure} `refused` for columns that are twice or not there, and too many rows */
function rowsOf(cells: Cells, { header, columns, maxRows }: TableOptions): Table {
  const names = header ? (cells[0] ?? []).map((name) => String(name ?? '')) : (columns ?? [])
  const body = header ? cells.slice(1) : cells
  if (body.length > maxRows) throw new TaskFailure('refused', `There are more than ${maxRows} rows`)
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw new TaskFailure('refused', `The column "${twice}" is there twice`)
  if (!header && columns === undefined)
    return { rows: [...body] as unknown[], columns: [] as string[], count: body.length }
  const wanted = columns ?? names
  const places = wanted.map((name) => placeOf(name, names))
  const widest = body.findIndex((row) => row.length > names.length)
  if (widest >= 0) {
    throw new TaskFailure('refused', `Row ${widest + 1} has ${body[widest]!.length} cells for ${names.length} columns`)
  }
  const rows = body.map((row) => Object.fromEntries(wanted.map((name, at) => [name, row[places[at]!] ?? null])))
  return { rows: rows as unknown[], columns: [...wanted], count: rows.length }
}

function placeOf(name: string, names: readonly string[]): number {
  const place = names.indexOf(name)
  if (place >= 0) return place
  throw new TaskFailure('refused', `There is no column "${name}"; there are ${names.slice(0, 20).join(', ')}`)
}

/** Every name that a row has, in the order they are met, unless they are given. */
export function columnsOf(rows: readonly unknown[], columns?: readonly string[]): readonly string[] {
  if (columns !== undefined) return columns
  const names = new Set<string>()
  for (const [index, row] of rows.entries()) {
    if (row === null || typeof row !== 'object')
      throw new TaskFailure('refused', `Row ${index + 1} is no object or list`)
    if (!Array.isArray(row)) for (const name of Object.keys(row)) names.add(name)
  }
  return [...names]
}

/** Objects by the names of the columns, lists as they are. */
export function cellsOf(rows: readonly unknown[], columns: readonly string[]): unknown[][] {
  return rows.map((row) => {
    if (Array.isArray(row)) return row
    return columns.map((name) => (Object.hasOwn(row as object, name) ? (row as Record<string, unknown>)[name] : null))
  })
}

/** A text as the value it spells; a number only when nothing of it is lost. */
export function typed(text: string): unknown {
  if (text === '') return null
  if (text === 'true' || text === 'false') return text === 'true'
  if (!/^-?\d/.test(text)) return text
  const number = Number(text)
  const isExact = Number.isFinite(number) && (String(number) === text || isSameDecimal(text, number))
  return isExact ? number : text
}

/** `1.50` is 1.5; `007` and `1e3` stay what they are. */
function isSameDecimal(text: string, number: number): boolean {
  return /^-?(0|[1-9]\d*)\.\d+$/.test(text) && String(number) === text.replace(/\.?0+$/, '')
}
