/**
 * `refused`: the request cannot be granted as it is (the status says why, 4xx). `unavailable`: the server does not answer at
 * the moment, the same request can succeed later (503). `failed`: it was begun and did not end well (500).
 */
export type CareFailureKind = 'refused' | 'unavailable' | 'failed'

interface CareFailureOptions {
  /** Default: 400 for `refused`, 503 for `unavailable`, 500 for `failed`. */
  readonly status?: number
  /** The request's field that is to blame. */
  readonly field?: string
  /** For a program: allowed values, the window of restorable times, SQLSTATE. No paths, no secrets. */
  readonly details?: Readonly<Record<string, unknown>>
  readonly cause?: unknown
}

const usualStatus = { refused: 400, unavailable: 503, failed: 500 } as const

/** What the care functions of the local driver throw. The message is for the user: no path, no secret, no stack. */
export class CareFailure extends Error {
  override readonly name = 'CareFailure'
  readonly kind: CareFailureKind
  readonly status: number
  readonly field: string | undefined
  readonly details: Readonly<Record<string, unknown>> | undefined

  constructor(kind: CareFailureKind, message: string, { status, field, details, cause }: CareFailureOptions = {}) {
    super(message, { cause })
    this.kind = kind
    this.status = status ?? usualStatus[kind]
    this.field = field
    this.details = details
  }
}

/** @throws {CareFailure} always; for the end of an expression. */
export function refuse(message: string, options: CareFailureOptions = {}): never {
  throw new CareFailure('refused', message, options)
}
