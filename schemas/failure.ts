import { type ErrorCode, errorCodes } from './errors.ts'

interface FailureDetail {
  /** What exactly was wrong, for a program: the field, the value's place, the database's own message. */
  readonly details?: unknown
  /** What the caller can do about it, in one sentence. */
  readonly hint?: string
  readonly cause?: unknown
}

/** A business no: it has a code, an HTTP status and a text, and is never retried. */
export class Rejected extends Error {
  override readonly name = 'Rejected'
  readonly code: ErrorCode
  readonly status: number
  readonly details: unknown
  readonly hint: string | undefined
  constructor(code: ErrorCode, text: string, { details, hint, cause }: FailureDetail = {}) {
    super(text, { cause })
    this.code = code
    this.status = errorCodes[code].status
    this.details = details
    this.hint = hint
  }
}

/** A passing fault: the same request can succeed after `retryAfterSeconds`. Always HTTP 503. */
export class Unavailable extends Error {
  override readonly name = 'Unavailable'
  readonly code: ErrorCode
  readonly status = 503
  readonly retryAfterSeconds: number
  readonly details: unknown
  readonly hint: string | undefined
  constructor(
    code: ErrorCode,
    text: string,
    { retryAfterSeconds = 1, details, hint, cause }: FailureDetail & { readonly retryAfterSeconds?: number } = {},
  ) {
    super(text, { cause })
    this.code = code
    this.retryAfterSeconds = retryAfterSeconds
    this.details = details
    this.hint = hint
  }
}
