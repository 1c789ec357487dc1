import { parse as parseCells } from 'csv-parse/sync'
import { stringify as writeCells } from 'csv-stringify/sync'
import { TaskFailure } from '../../plugin.ts'
import {
  type Cells,
  cellsOf,
  columnsOf,
  type GivenRows,
  givenRows,
  type TableOptions,
  toldTable,
  typed,
} from './table.ts'

interface Dialect {
  readonly delimiter: string
  readonly quote: string
  readonly escape: string
}

interface Parse extends TableOptions, Dialect {
  readonly text: string
  readonly comment: string
  readonly trim: boolean
  readonly types: 'text' | 'auto'
}

interface Stringify extends TableOptions, Dialect {
  readonly rows: GivenRows
  readonly lineBreak: string
  readonly quoteAll: boolean
  readonly byteOrderMark: boolean
  readonly escapeFormulas: boolean
}

const candidates = [',', ';', '\t', '|']

/** Source: RFC 4180 */
export function parse({ text, types, ...options }: Parse) {
  const cells = cellsIn(text, options)
  return toldTable(types === 'auto' ? cells.map((row) => row.map((cell) => typed(String(cell)))) : cells, options)
}

function cellsIn(text: string, { delimiter, comment, trim, ...rest }: Omit<Parse, 'text' | 'types'>) {
  try {
    return parseCells(text, {
      bom: true,
      columns: false,
      comment: comment === '' ? null : comment,
      delimiter: delimiter === 'auto' ? delimiterOf(text, rest.quote) : delimiter,
      escape: rest.escape === '' ? null : rest.escape,
      quote: rest.quote === '' ? null : rest.quote,
      skip_empty_lines: true,
      // One more than allowed, so that it is known there are more.
      to: rest.maxRows + (rest.header ? 2 : 1),
      trim,
    }) as Cells
  } catch (error) {
    const { message, column } = error as { message: string; column?: unknown }
    const place = typeof column === 'number' ? `, cell ${column + 1}` : ''
    throw new TaskFailure('refused', `This is no CSV: ${message}${place}`, error)
  }
}

/** Whatever the first line has most of, outside of quotes. */
function delimiterOf(text: string, quote: string): string {
  let isQuoted = false
  const counts = new Map(candidates.map((candidate) => [candidate, 0]))
  for (const character of text.slice(0, 65_536)) {
    if (character === quote) isQuoted = !isQuoted
    else if (character === '\n' && !isQuoted) break
    else if (!isQuoted && counts.has(character)) counts.set(character, counts.get(character)! + 1)
  }
  return [...counts].reduce((most, each) => (each[1] > most[1] ? each : most))[0]
}

export function stringify({ rows: given, ...options }: Stringify) {
  const rows = givenRows(given, options.maxRows)
  const columns = columnsOf(rows, options.columns)
  const isNamed = columns.length > 0
  const cells = cellsOf(rows, columns).map((row) => row.map(written))
  const made = writeCells(options.header && isNamed ? [[...columns], ...cells] : cells, {
    bom: options.byteOrderMark,
    delimiter: options.delimiter === 'auto' ? ',' : options.delimiter,
    escape: options.escape || '"',
    escape_formulas: options.escapeFormulas,
    quote: options.quote,
    quoted: options.quoteAll,
    // An empty line is none, and a break within a cell is no end of a row, whichever it is.
    quoted_empty: columns.length < 2,
    quoted_match: /[\r\n\ufeff]/,
    record_delimiter: options.lineBreak,
  })
  return { made, columns: [...columns], count: rows.length }
}

function written(cell: unknown): string {
  if (cell === null || cell === undefined) return ''
  return typeof cell === 'object' ? JSON.stringify(cell) : String(cell)
}
