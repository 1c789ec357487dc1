import { performance } from 'node:perf_hooks'
import { type Call, newAttempt, type Outcome, resultOf } from './postgres-attempt.ts'
import type { PostgresConnection } from './postgres-connection.ts'
import { outcomeUnknown, tooLargeInTransaction, translate } from './postgres-failures.ts'
import type { CallContext, Parameter, RawResult, Statement } from './statement.ts'
import type { Weight } from './statement-costs.ts'

/** What waits for a connection. */
export interface Waiting {
  readonly use: 'shared' | 'statement' | 'transaction'
  /** It keeps its connection for long: not all connections may be taken by such. */
  readonly slow: boolean
  readonly since: number
  /** It no longer waits: its caller went away. */
  readonly settled: boolean
  start(connection: PostgresConnection): void
  fail(error: Error): void
}

/** A `run` on the pool: it may wait, and may be sent more than once. */
export class PooledCall implements Call, Waiting {
  readonly since = performance.now()
  attempts = 0
  attempt = newAttempt()
  settled = false
  readonly statement: Statement
  readonly parameters: readonly Parameter[]
  readonly context: CallContext
  readonly use: 'shared' | 'statement'
  readonly slow: boolean
  readonly #signal: AbortSignal | undefined
  readonly #settle: (call: PooledCall, outcome: Outcome) => void
  readonly #resolve: (result: RawResult) => void
  readonly #reject: (error: Error) => void
  #connection: PostgresConnection | null = null

  constructor(
    of: Statement,
    parameters: readonly Parameter[],
    context: CallContext,
    weight: Weight,
    settle: (call: PooledCall, outcome: Outcome) => void,
    resolve: (result: RawResult) => void,
    reject: (error: Error) => void,
  ) {
    this.statement = of
    this.parameters = parameters
    this.context = context
    this.use = weight === 'cheap' ? 'shared' : 'statement'
    this.slow = weight === 'heavy'
    const { signal } = context
    this.#signal = signal
    this.#settle = settle
    this.#resolve = resolve
    this.#reject = reject
    signal?.addEventListener('abort', this.#onAbort)
    if (signal?.aborted) this.#onAbort()
  }

  get unprepared(): boolean {
    return this.attempts > 1
  }

  start(connection: PostgresConnection): void {
    this.#connection = connection
    connection.send(this)
  }

  done(outcome: Outcome): void {
    this.#connection = null
    this.#settle(this, outcome)
  }

  resolve(result: RawResult): void {
    if (this.#finish()) this.#resolve(result)
  }

  reject(error: Error): void {
    if (this.#finish()) this.#reject(error)
  }

  fail(error: Error): void {
    this.reject(error)
  }

  #finish(): boolean {
    if (this.settled) return false
    this.settled = true
    this.#signal?.removeEventListener('abort', this.#onAbort)
    return true
  }

  /** A write goes on: its caller cannot know whether it was in time. */
  readonly #onAbort = (): void => {
    if (this.#connection !== null && !this.context.readOnly) return
    const connection = this.#connection
    const { reason } = this.#signal!
    this.reject(reason instanceof Error ? reason : new Error('The caller went away', { cause: reason }))
    if (connection?.use === 'statement' && connection.isHead(this)) void connection.cancelHead()
  }
}

/** A `run` inside an explicit transaction: never sent twice. */
export class TransactionCall implements Call {
  readonly unprepared = true
  attempts = 0
  attempt = newAttempt()
  readonly statement: Statement
  readonly parameters: readonly Parameter[]
  readonly context: CallContext
  readonly #state: { failed: boolean }
  readonly #resolve: (result: RawResult) => void
  readonly #reject: (error: Error) => void

  constructor(
    of: Statement,
    parameters: readonly Parameter[],
    context: CallContext,
    state: { failed: boolean },
    resolve: (result: RawResult) => void,
    reject: (error: Error) => void,
  ) {
    this.statement = of
    this.parameters = parameters
    this.context = context
    this.#state = state
    this.#resolve = resolve
    this.#reject = reject
  }

  done(outcome: Outcome): void {
    const { error, oversized, transactionStatus } = this.attempt
    if (transactionStatus === 'E' || oversized) this.#state.failed = true
    if (outcome.kind === 'lost') this.#reject(outcomeUnknown(outcome.cause))
    else if (error) this.#reject(translate(this, error))
    else if (oversized) this.#reject(tooLargeInTransaction())
    else this.#resolve(resultOf(this))
  }
}
