import type { DatabaseError } from 'pg-protocol/dist/messages.js'
import type { CallContext, Parameter, RawResult, RawRow, Statement } from './statement.ts'

/** One statement on its way: who waits for it, and what its present attempt has brought so far. */
export interface Call {
  readonly statement: Statement
  readonly parameters: readonly Parameter[]
  readonly context: CallContext
  /** Parse the statement in this bundle: in an explicit transaction and on a second try, where a stale plan must not be met. */
  readonly unprepared: boolean
  attempts: number
  attempt: Attempt
  done(outcome: Outcome): void
}

export interface Attempt {
  /** Statements of the bundle before the caller's own (role and claims, command). */
  prefixes: number
  completed: number
  rows: RawRow[]
  sizeBytes: number
  rowCount: number
  oversized: boolean
  error: DatabaseError | null
  /** Names under which this bundle prepares statements, in order, and how many the server has confirmed. */
  preparing: readonly string[]
  prepared: number
  /** Whether the caller's statement ran from a plan of an earlier bundle. */
  reused: boolean
  /** A cancel request meant for another call may have hit this one. */
  strayCancel: boolean
  transactionStatus: string
}

export type Outcome =
  | { readonly kind: 'answered'; readonly serviceMs: number; readonly by: StatementHolder }
  /** The connection went away; what the server did with the statement is not known. */
  | { readonly kind: 'lost'; readonly cause: Error }

/** The connection that answered, as far as the one who waits needs it. */
interface StatementHolder {
  forgetStatements(): void
}

const noNames: readonly string[] = []

export function newAttempt(): Attempt {
  return {
    prefixes: 0,
    completed: 0,
    rows: [],
    sizeBytes: 0,
    rowCount: 0,
    oversized: false,
    error: null,
    preparing: noNames,
    prepared: 0,
    reused: false,
    strayCancel: false,
    transactionStatus: '',
  }
}

export function resultOf(call: Call): RawResult {
  return { rows: call.attempt.rows, rowCount: call.attempt.rowCount }
}
