import { BusUnavailable } from '../../bus/connect.ts'
import { type ErrorCode, errorCodes } from '../../schemas/errors.ts'
import { Rejected, Unavailable } from '../../schemas/failure.ts'

export interface Failure {
  readonly status: number
  readonly code: ErrorCode
  readonly text: string
  readonly details?: unknown
  readonly hint?: string | undefined
  readonly retryAfterSeconds?: number
  /** True when it is ours: the caller gets no more than a request id. */
  readonly fault: boolean
}

interface FastifyFailure {
  readonly code: ErrorCode
  readonly text: string
  /** What of the request it is about. */
  readonly field?: string
}

/** Fastify's own refusals by its code, in our words. */
const fastifyFailures: Readonly<Record<string, FastifyFailure>> = {
  FST_ERR_CTP_BODY_TOO_LARGE: { code: 'http/payload-too-large', text: 'The request body is larger than the limit' },
  FST_ERR_CTP_INVALID_MEDIA_TYPE: {
    code: 'http/unsupported-media-type',
    text: 'The request body must be sent with Content-Type: application/json',
  },
  FST_ERR_CTP_INVALID_CONTENT_LENGTH: {
    code: 'http/bad-request',
    text: 'Content-Length does not match the body',
    field: 'Content-Length',
  },
  FST_ERR_CTP_EMPTY_JSON_BODY: { code: 'http/bad-request', text: 'The request body is empty', field: 'body' },
  FST_ERR_MAX_PARAM_LENGTH: {
    code: 'http/bad-request',
    text: 'A segment of the path is longer than the limit',
    field: 'path',
  },
  FST_ERR_BAD_URL: { code: 'http/bad-request', text: 'The URL has a malformed percent escape', field: 'path' },
}

const busRetrySeconds = 2

/** What an error thrown anywhere in a request may tell its caller. */
export function failureOf(error: unknown): Failure {
  if (error instanceof Rejected) {
    const { status, code, message: text, details, hint } = error
    return { status, code, text, details, hint, fault: false }
  }
  if (error instanceof Unavailable) {
    const { status, code, message: text, details, hint, retryAfterSeconds } = error
    return { status, code, text, details, hint, retryAfterSeconds, fault: false }
  }
  if (error instanceof BusUnavailable) {
    const text = 'The bus is away; send the request again'
    return { status: 503, code: 'http/unavailable', text, retryAfterSeconds: busRetrySeconds, fault: false }
  }
  const known = fastifyFailures[fastifyCode(error)]
  if (known) {
    const { code, text, field } = known
    const details = field === undefined ? null : { field, reason: text }
    return { code, text, details, status: errorCodes[code].status, fault: false }
  }
  const text = 'Something went wrong on our side; the requestId finds it in the log'
  return { status: 500, code: 'http/internal', text, fault: true }
}

/** The one error shape of all services. `details` and `hint` are null when there is nothing to say. */
export function errorBody(failure: Pick<Failure, 'code' | 'text' | 'details' | 'hint'>, requestId: string): string {
  const { code, text, details = null, hint = null } = failure
  return JSON.stringify({ error: text, code, details, hint, requestId })
}

function fastifyCode(error: unknown): string {
  return error instanceof Error && 'code' in error && typeof error.code === 'string' ? error.code : ''
}
