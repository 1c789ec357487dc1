import { hash } from 'node:crypto'
import type { Column, Table } from './catalog.ts'

/** A parameterised SQL statement; parameters are `$1…`, sent in text format, null as SQL NULL. */
export interface Statement {
  /** Prepared-statement name, a digest of the text: equal texts share one plan on a connection. */
  readonly name: string
  readonly text: string
}

export type Parameter = string | null

export function statement(text: string): Statement {
  return { name: `b${hash('sha1', text, 'hex').slice(0, 24)}`, text }
}

/** Under whose eyes a statement runs, which reaches the database in the same round trip as the statement; and how. */
export interface CallContext {
  /** Database role for the transaction (`set_config('role', …, true)`); absent: the login role. */
  readonly role?: string
  /** JSON text for `request.jwt.claims`; absent: empty. */
  readonly claims?: string
  readonly readOnly: boolean
  /** Emitted into the WAL in the same transaction, before the statement; only with change capture on. */
  readonly command?: string
  /** Tokens are on and the caller sent none: a missing right is then 401 instead of 403. Default false. */
  readonly anonymous?: boolean
  /**
   * What is expected of a read before it has been measured: cheap ones share connections, several in flight; heavy ones
   * get a connection to themselves, as writes always do. Default `cheap`.
   */
  readonly weight?: 'cheap' | 'heavy'
  /** The caller went away: a read that waits is dropped, a heavy one that runs is cancelled in the database. */
  readonly signal?: AbortSignal
}

/** One result row: the raw bytes of each column in text format, null for SQL NULL. */
export type RawRow = readonly (Buffer | null)[]

export interface RawResult {
  readonly rows: readonly RawRow[]
  /** The number in the command tag (`INSERT 0 3` -> 3). */
  readonly rowCount: number
}

export type Run = (statement: Statement, parameters: readonly Parameter[], context: CallContext) => Promise<RawResult>

/** Of a database that has no rights on single rows, and that is not asked for operands. */
export interface ChangeDialect {
  /** The JSON text of a value of the column, as its change events have it. */
  readonly writeOperand: (column: Column, text: string) => string
  /** The members of a list of operands. */
  readonly readList: (text: string) => readonly string[]
  /** Fails where the caller may not read all of the table. */
  readonly reading: (table: Table) => Statement
}

/** How the keys of requests are kept in a database; parameters are `actor, key` and then what is named. */
export interface KeyStore {
  /** What makes the table, in this order. */
  readonly create: readonly Statement[]
  /** What an owner runs instead, where the service may not. */
  readonly byHand: readonly string[]
  /** And `fingerprint`. One row when the key is the caller's now, none when it has its answer. */
  readonly claimKey: Statement
  /** And `fingerprint`. One row unless the key belongs to another request; holds it until the transaction ends. */
  readonly claimRequest: Statement
  /** Columns: fingerprint, status, headers, body. */
  readonly readReply: Statement
  /** In front of `storeReply`, without parameters. */
  readonly beforeStoring: readonly Statement[]
  /** And `status`, `headers`, `body`. */
  readonly storeReply: Statement
  /** Without parameters. */
  readonly cleanUp: Statement
  readonly bodyToText: (body: Buffer) => string
  readonly bodyOf: (column: Buffer) => Buffer
}

/** The effect edge to the database: one round trip, one implicit transaction. */
export interface Database {
  /** For change streams; absent: it is asked, in PostgreSQL's words. */
  readonly changes?: ChangeDialect
  /** @throws {Rejected|Unavailable} the database's error, translated (SQLSTATE in `details.sqlstate`). */
  readonly run: Run
}

/** For the rare request of several statements that depend on each other. */
export interface TransactionalDatabase extends Database {
  /** Default: PostgreSQL's. */
  readonly keys?: KeyStore
  /**
   * Runs `work` in one transaction on a connection of its own; commits when it resolves, rolls back when it rejects.
   * A role given to one `run` stays for the rest of the transaction.
   */
  transaction<T>(work: (run: Run) => Promise<T>): Promise<T>
}
