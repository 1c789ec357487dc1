import type { ErrorCode } from '../errors.ts'

/**
 * A call on its way from a gateway to a worker: compact JSON in the header `Busbar-Call`; the message's data is the request body, as it
 * came. Subject `call.<functionId>.<id>` (CALLS) for a synchronous call, `invocation.<id>` (INVOCATIONS) for an asynchronous one.
 */
export interface Call {
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
  /** Epoch ms: nobody waits for the answer any more. */
  readonly deadlineAt: number
  readonly method: string
  readonly path: string
  readonly query: Record<string, string | string[]>
  readonly headers: Record<string, string>
  /** Subject on core NATS where the answer of a synchronous call goes; notes that it is being worked on go to `<inbox>.note`. */
  readonly reply?: string
  /** May run again when its worker is lost. */
  readonly idempotent?: true
}

/** Compact JSON in the header `Busbar-Reply` of an answer; the message's data is the response body. */
export interface CallReply {
  readonly status: number
  readonly headers?: Readonly<Record<string, string>>
  readonly fault?: CallFault
  readonly durationMs: number
  readonly worker: string
}

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
export const replyHeader = 'Busbar-Reply'

/** Ids of calls that a worker holds, sent to `<inbox>.note` while they run. */
export type CallNote = readonly string[]

/** How often a worker sends notes; a call it has held for less is in none. */
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
