import { stringify } from 'csv-stringify/sync'
import type { RawRow } from '../data/statement.ts'

/**
 * Rows as CSV (RFC 4180, header line first, CRLF). Numbers keep the digits the database wrote; objects and arrays are JSON text;
 * NULL is an empty field. Cells a spreadsheet would run as formulas are left as they are: this is data, for programs.
 */
export function rowsToCsv(rows: readonly RawRow[], columns: readonly string[]): string {
  const records = rows.map((row) => Object.entries(parseKeepingDigits(row[0]?.toString() ?? '{}')))
  const header = records[0] ? records[0].map(([name]) => name) : columns
  const cells = records.map((record) => record.map(([, value]) => cellText(value)))
  return stringify([[...header], ...cells], { record_delimiter: 'windows' })
}

/** A number as it stood in the JSON text. */
class Digits {
  readonly text: string
  constructor(text: string) {
    this.text = text
  }
  toJSON(): unknown {
    return (JSON as unknown as { rawJSON(text: string): unknown }).rawJSON(this.text)
  }
}

function parseKeepingDigits(json: string): Record<string, unknown> {
  const keepDigits = (_key: string, value: unknown, context?: { readonly source?: string }): unknown =>
    typeof value === 'number' && context?.source !== undefined ? new Digits(context.source) : value
  return JSON.parse(json, keepDigits as (key: string, value: unknown) => unknown)
}

function cellText(value: unknown): string {
  if (value === null || value === undefined) return ''
  if (value instanceof Digits) return value.text
  return typeof value === 'object' ? JSON.stringify(value) : String(value)
}
