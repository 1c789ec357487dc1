import type { ErrorCode } from '../errors.ts'

/** What a request is for a function. */
export interface CallRequest {
  readonly method: string
  readonly path: string
  readonly query: Record<string, string | string[]>
  readonly headers: Readonly<Record<string, string>>
}

/**
 * An asynchronous call: compact JSON in the header `Busbar-Call` on `invocation.<id>` (INVOCATIONS); the message's data is the request body,
 * as it came. Synchronous calls travel as `call-frames.ts` says.
 */
export interface Call extends CallRequest {
  /** Invocation id: one token of a subject. */
  readonly id: string
  readonly fn: string
  /** Revision that was asked for. */
  readonly rev: number
  /** Sequence in EVT_FUNCTIONS of the message with the program of this revision. */
  readonly seq: number
  /** Version of the variables and secrets; 0 before any were set. */
  readonly env: number
  /** Sequence in EVT_FUNCTIONS of the message with them; null when there are none. */
  readonly envSeq: number | null
  /** Epoch ms. */
  readonly at: number
  /** May run again when its worker is lost. */
  readonly idempotent?: true
}

/** What the handler is told of a call, as JSON. */
export function callStart(
  { fn, rev }: Pick<Call, 'fn' | 'rev'>,
  invocationId: string,
  { method, path, query, headers }: CallRequest,
): string {
  return JSON.stringify({ functionId: fn, revision: rev, invocationId, method, path, query, headers })
}

/** Invocation id of a synchronous call. */
export function invocationId(gateway: string, id: number): string {
  return `${gateway}-${id.toString(36)}`
}

/** What a call has come to, beside the response body. */
export interface CallReply {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly fault?: CallFault
}

/** As most functions answer: no text stands for it on the way. */
export const plainReply: CallReply & Required<Pick<CallReply, 'headers'>> = {
  status: 200,
  headers: { 'content-type': 'application/json' },
}

const garbled: CallReply = { status: 500, fault: { code: 'internal', message: '' } }

/** Of a reply's JSON, or of nothing for status 200 and JSON. It comes from where users' code runs: what is none is a failure. */
export function readReplyHead(head: string): CallReply {
  if (head === '') return plainReply
  try {
    const { status, headers = {}, fault } = JSON.parse(head) as CallReply
    if (fault !== undefined) return faultErrors[fault.code] === undefined ? garbled : { status: 500, fault }
    return Number.isInteger(status) && status >= 200 && status <= 599 && isObject(headers)
      ? { status, headers }
      : garbled
  } catch {
    return garbled
  }
}

const isObject = (value: unknown) => typeof value === 'object' && value !== null

export interface CallFault {
  readonly code: FaultCode
  readonly message: string
}

/** What can go wrong with a call, with its code for clients. */
export const faultErrors = {
  timeout: 'functions/timeout',
  'no-handler': 'functions/no-handler',
  threw: 'functions/threw',
  memory: 'functions/memory',
  'output-too-large': 'functions/output-too-large',
  'too-many-calls': 'functions/too-many-calls',
  'host-died': 'functions/worker-lost',
  unserialisable: 'functions/unserialisable',
  'not-found': 'functions/not-found',
  internal: 'http/internal',
} as const satisfies Record<string, ErrorCode>
export type FaultCode = keyof typeof faultErrors

export const callHeader = 'Busbar-Call'

/** How often a worker says which calls it holds; a call it has held for less is left out. */
export const noteMs = 300

/** Says that a worker is there, on core NATS, every `presenceMs`. */
export interface Presence {
  readonly worker: string
  /** It leaves: it takes no more calls. */
  readonly leaving?: true
}
export const presenceMs = 1_000

/** What is kept of an asynchronous invocation that is done: header `Busbar-Outcome`, with the response body as data. */
export interface Outcome extends CallReply {
  readonly fn: string
  readonly durationMs: number
  readonly finishedAt: number
}
export const outcomeHeader = 'Busbar-Outcome'

/** A line that a function wrote. */
export interface LogLine {
  /** Epoch ms. */
  readonly at: number
  readonly level: string
  readonly text: string
  readonly invocationId: string
  readonly revision: number
}
