import { TaskFailure } from '../../plugin.ts'

/** Rows of cells, as every table is once it is read and before it is written. */
export type Cells = readonly (readonly unknown[])[]

export interface TableOptions {
  readonly header: boolean
  readonly columns?: readonly string[]
  readonly maxRows: number
}

/** @throws {TaskFailure} `refused` for columns that are twice or not there, and too many rows */
export function rowsOf(cells: Cells, { header, columns, maxRows }: TableOptions) {
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
