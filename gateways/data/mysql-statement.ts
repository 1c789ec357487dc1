import { hash } from 'node:crypto'
import type { Statement } from './statement.ts'

/** How the text of a parameter becomes what the server reads. */
export type Conversion = 'text' | 'json' | 'boolean' | 'bytes' | 'moment' | 'keys'

/** A column of a body, and what its value is in the statement: a mark, or a function of it. */
export interface BodyColumn {
  readonly name: string
  readonly as: Conversion
  /** With one `?`. */
  readonly sql: string
}

/** The rows of a body as a list of parenthesised values: as many marks as there are values. */
export interface BodyRows {
  readonly columns: readonly BodyColumn[]
  /** Slot; null for rows of nothing but defaults. */
  readonly body: number | null
  readonly many: boolean
  /** As in `InsertSet`. */
  readonly places: number | null
  readonly emptyRows: number | null
}

type Piece =
  | string
  | { readonly kind: 'slot'; readonly slot: number; readonly as: Conversion | 'number' }
  /** As many marks as the list has members. */
  | { readonly kind: 'list'; readonly slot: number; readonly as: Conversion; readonly sql: string }
  /** Of a body that is one object. */
  | { readonly kind: 'member'; readonly slot: number; readonly as: Conversion; readonly name: string }
  | { readonly kind: 'rows'; readonly rows: BodyRows }
  /** The keys of the rows that the step before returned, as parenthesised values. */
  | { readonly kind: 'written'; readonly sql: readonly string[]; readonly as: readonly Conversion[] }
  /** How many rows the step before wrote. */
  | { readonly kind: 'count' }

/** One statement of a request. The last step that returns rows has the result. */
export interface Step {
  readonly pieces: readonly Piece[]
  /** Carries the command that it belongs to. */
  readonly writes: boolean
  readonly returns: boolean
  /** The server does not return these rows: the step behind reads them, after each statement that this one becomes. */
  readonly sent?: SentKey
}

/** What new rows are found by that were not returned. */
export interface SentKey {
  /** Columns of the key whose values were given with the rows. */
  readonly columns: readonly string[]
  /** Whether they are all of it. If not, the server reads the rows in their order. */
  readonly whole: boolean
}

/** Several steps are one transaction. */
export interface MysqlStatement extends Statement {
  readonly steps: readonly Step[]
}

/*
 * While a statement is put together, parameters stand in its text between two U+0000, which no name of MySQL's can hold: the server
 * knows them by the order they come in, and that is known at the end.
 */

/** @param as `number` for a whole one that stands in the text itself */
export function slotMark(slot: number, as: Conversion | 'number'): string {
  return mark({ kind: 'slot', slot, as })
}

/** @param sql of each member, with one `?` */
export function listMark(slot: number, as: Conversion, sql: string): string {
  return mark({ kind: 'list', slot, as, sql })
}

export function memberMark(slot: number, as: Conversion, name: string): string {
  return mark({ kind: 'member', slot, as, name })
}

export function rowsMark(rows: BodyRows): string {
  return mark({ kind: 'rows', rows })
}

export function writtenMark(sql: readonly string[], as: readonly Conversion[]): string {
  return mark({ kind: 'written', sql, as })
}

export const countMark: string = mark({ kind: 'count' })

function mark(piece: Exclude<Piece, string>): string {
  return `\u0000${JSON.stringify(piece)}\u0000`
}

/** A step before its text is taken apart. */
export type StepText = Omit<Step, 'pieces'> & { readonly text: string }

/** @param texts in the order they are run in */
export function mysqlStatement(texts: readonly StepText[]): MysqlStatement {
  const steps = texts.map(({ text, ...step }) => ({ ...step, pieces: piecesOf(text) }))
  const text = steps.map(({ pieces }) => pieces.map(shown).join('')).join(';\n')
  return { name: `m${hash('sha1', text, 'hex').slice(0, 24)}`, text, steps }
}

function piecesOf(text: string): Piece[] {
  return text
    .split('\u0000')
    .map((part, index) => (index % 2 === 0 ? part : (JSON.parse(part) as Piece)))
    .filter((part) => part !== '')
}

/** For people: marks with the slots they stand for. */
function shown(piece: Piece): string {
  if (typeof piece === 'string') return piece
  switch (piece.kind) {
    case 'slot':
      return `?${piece.slot}`
    case 'list':
      return `?${piece.slot}…`
    case 'member':
      return `?${piece.slot}.${piece.name}`
    case 'rows':
      return `?${piece.rows.body ?? piece.rows.emptyRows}(${piece.rows.columns.map(({ name }) => name).join(', ')})…`
    case 'written':
      return '?written…'
    case 'count':
      return '?count'
  }
}
