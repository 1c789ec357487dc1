import { jsonElements, jsonMembers } from './mysql-json.ts'
import type { BodyColumn, BodyRows, Conversion, Step } from './mysql-statement.ts'
import type { Parameter, RawRow } from './statement.ts'

/** A value as the driver sends it. */
export type BoundValue = string | Buffer | null

export interface BoundStatement {
  readonly text: string
  readonly values: readonly BoundValue[]
  /** The keys of its rows as they were sent, as rows with the key in column 1. */
  readonly sent: readonly RawRow[]
}

/** MySQL counts the marks of a statement in two bytes; a statement must also fit into a packet. */
const maxMarks = 60_000
const maxCharacters = 4_000_000

/**
 * A step with its values in the order of its marks; several statements where rows need more marks than one has.
 *
 * @param written rows that the step before returned, their keys in column 1
 */
export function bindStep(
  step: Step,
  parameters: readonly Parameter[],
  written: readonly RawRow[],
): readonly BoundStatement[] {
  const rows = step.pieces.find((piece) => typeof piece === 'object' && piece.kind === 'rows')
  if (rows === undefined) return [bind(step, parameters, written, [])]
  const all = rowsOf(rows.rows, step.sent?.columns ?? [], parameters)
  return chunksOf(all, rows.rows.columns.length).map((chunk) => bind(step, parameters, written, chunk))
}

interface BoundRow {
  readonly values: readonly BoundValue[]
  readonly key: readonly (string | null)[]
}

function bind(
  { pieces }: Step,
  parameters: readonly Parameter[],
  written: readonly RawRow[],
  rows: readonly BoundRow[],
): BoundStatement {
  const values: BoundValue[] = []
  const parameter = (slot: number) => parameters[slot - 1] ?? null
  const textOf = (piece: Step['pieces'][number]): string => {
    if (typeof piece === 'string') return piece
    switch (piece.kind) {
      case 'slot':
        // The limits of aggregates take no marks.
        if (piece.as === 'number') return wholeNumber(parameter(piece.slot))
        values.push(converted(parameter(piece.slot), piece.as))
        return '?'
      case 'list': {
        const members = listMembers(parameter(piece.slot) ?? '{}')
        values.push(...members.map((member) => converted(member, piece.as)))
        // No text is among none, and all are.
        return members.length === 0 ? 'select null from dual where false' : members.map(() => piece.sql).join(', ')
      }
      case 'member':
        values.push(
          converted(memberText(jsonMembers(parameter(piece.slot) ?? '{}').get(piece.name), piece.as), piece.as),
        )
        return '?'
      case 'rows':
        for (const row of rows) values.push(...row.values)
        return rows.map(() => `(${piece.rows.columns.map(({ sql }) => sql).join(', ')})`).join(', ')
      case 'written':
        return writtenKeys(piece, written, values)
      case 'count':
        return String(written.length)
    }
  }
  const sent = rows.map(({ key }): RawRow => [null, Buffer.from(JSON.stringify(key))])
  return { text: pieces.map(textOf).join(''), values, sent }
}

function wholeNumber(text: Parameter): string {
  if (text !== null && /^\d{1,15}$/.test(text)) return text
  throw new Error('What stands in a statement is no whole number')
}

function writtenKeys(
  { sql, as }: { readonly sql: readonly string[]; readonly as: readonly Conversion[] },
  written: readonly RawRow[],
  values: BoundValue[],
): string {
  const keys = written.map((row) => JSON.parse(row[1]?.toString() ?? '[]') as (string | null)[])
  for (const key of keys) values.push(...key.map((text, index) => converted(text, as[index]!)))
  return keys.length === 0 ? 'select null from dual where false' : keys.map(() => `(${sql.join(', ')})`).join(', ')
}

function rowsOf(
  { columns, body, many, places, emptyRows }: BodyRows,
  key: readonly string[],
  parameters: readonly Parameter[],
): BoundRow[] {
  if (body === null) {
    return Array.from({ length: Number(parameters[(emptyRows ?? 1) - 1] ?? 0) }, () => ({ values: [], key: [] }))
  }
  const text = parameters[body - 1] ?? '{}'
  const all = many ? jsonElements(text) : [text]
  const wanted = places === null ? all : placesOf(parameters[places - 1] ?? '{}').map((place) => all[place - 1]!)
  return wanted.map((row) => rowOf(row, columns, key))
}

function rowOf(text: string, columns: readonly BodyColumn[], key: readonly string[]): BoundRow {
  const members = jsonMembers(text)
  return {
    values: columns.map(({ name, as }) => converted(memberText(members.get(name), as), as)),
    key: key.map((name) => memberText(members.get(name), 'text')),
  }
}

/** A text without its quotes, unless it is JSON for the database too; anything else as it is written. */
function memberText(json: string | undefined, as: Conversion): string | null {
  if (json === undefined || json === 'null') return null
  return as !== 'json' && json.startsWith('"') ? (JSON.parse(json) as string) : json
}

function chunksOf(rows: readonly BoundRow[], columns: number): BoundRow[][] {
  const chunks: BoundRow[][] = []
  const most = Math.max(1, Math.floor(maxMarks / Math.max(1, columns)))
  let size = 0
  for (const row of rows) {
    const own = row.values.reduce<number>((sum, value) => sum + (value?.length ?? 1), 0)
    const last = chunks.at(-1)
    if (last === undefined || last.length >= most || size + own > maxCharacters) {
      chunks.push([row])
      size = own
    } else {
      last.push(row)
      size += own
    }
  }
  return chunks
}

/** `{1,2,3}` */
function placesOf(text: string): number[] {
  return text.slice(1, -1).split(',').map(Number)
}

/** The members of a list as `arrayLiteral` writes it. */
export function listMembers(text: string): string[] {
  return [...text.matchAll(/"((?:[^"\\]|\\.)*)"/gs)].map(([, member]) => member!.replace(/\\(.)/gs, '$1'))
}

function converted(text: string | null, as: Conversion): BoundValue {
  if (text === null) return null
  switch (as) {
    case 'text':
    case 'json':
      return text
    case 'boolean':
      return isTrue(text) ? '1' : '0'
    case 'bytes':
      return Buffer.from(text.replace(/^\\x/i, ''), 'hex')
    case 'moment':
      return moment(text)
    case 'keys':
      return JSON.stringify(listMembers(text))
  }
}

export function isTrue(text: string): boolean {
  return /^(t|true|y|yes|on|1)$/i.test(text.trim())
}

const isoMoment = /^(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d(?::\d\d)?)(\.\d+)?\s*(Z|[+-]\d\d(?::?\d\d)?)?$/i

/** In universal time, without the letters of ISO 8601; what is no moment is left to the server. */
export function moment(text: string): string {
  const [, day, time, fraction = '', offset] = isoMoment.exec(text.trim()) ?? []
  if (day === undefined || time === undefined) return text
  const seconds = time.length === 5 ? `${time}:00` : time
  if (offset === undefined || /^z$/i.test(offset)) return `${day} ${seconds}${fraction}`
  const [, sign, hours = '0', minutes = '0'] = /^([+-])(\d\d):?(\d\d)?$/.exec(offset) ?? []
  const away = (Number(hours) * 60 + Number(minutes)) * 60_000 * (sign === '-' ? -1 : 1)
  const at = new Date(Date.parse(`${day}T${seconds}Z`) - away)
  return Number.isNaN(at.getTime()) ? text : `${at.toISOString().slice(0, 19).replace('T', ' ')}${fraction}`
}
