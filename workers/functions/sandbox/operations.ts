/**
 * What crosses the boundary between an isolate (guest) and its host process: names, argument and result shapes, limits.
 * Only strings and numbers cross. Shared by both sides, so it imports nothing of Node.
 *
 * A *packet* is one line of JSON (the head), a line feed, and the rest: bytes as Latin-1 text (one character a byte) or
 * plain text, which costs no escaping. `wire.ts` packs and unpacks.
 *
 * The installer the sandbox script evaluates to is called once with the two host functions and answers `GuestInterface`.
 */

/** Synchronous host operations: `op(name, argument)` answers `'=' + value`, or `'!' + JSON {name, message}` to be thrown. */
export interface SyncOperations {
  /** Argument JSON `[url, base | null]`; value: the eleven parts of `URL_PARTS` joined by line feeds. */
  readonly 'url-parse': string
  /** Argument JSON `[href, part, value]`; value as for `url-parse`. */
  readonly 'url-set': string
  /** Packet, head `[label, fatal, ignoreBOM, decoderId, stream, goesOn]`, rest the bytes; value: the decoded text. */
  readonly decode: string
  /** Argument: an encoding label; value: the encoding's canonical name. */
  readonly encoding: string
  /** Argument: a decimal number of bytes, at most 65536; value: that many random bytes as Latin-1. */
  readonly random: string
  /** No argument; value: a version 4 UUID. */
  readonly uuid: string
  /** No argument; value: milliseconds since the process's time origin, in steps of 0.1. */
  readonly now: string
  /** Packet, head `[algorithm]`, rest the bytes (at most `SYNC_DIGEST_BYTES`); value: the digest as Latin-1. */
  readonly digest: string
  /** Packet, head `[level, invocationId]`, rest the text of one console call; value is empty. */
  readonly log: string
}

/**
 * Asynchronous host operations: `begin(operationId, name, argument, invocationId)`, answered by `settle(operationId, result)` where result
 * is `'='` + a packet or `'!' + JSON {name, message}`. The last four are notes that take no answer.
 */
export interface AsyncOperations {
  /** Packet, head `FetchHead`, rest the body's bytes; answer: packet, head `FetchAnswer`, rest the body's bytes. */
  readonly fetch: string
  /** Packet, head `{method, algorithm, key | null, extra}`; answer: a packet that depends on the method. */
  readonly subtle: string
  /** Argument JSON `[key]`; answer head: the JSON value or null. */
  readonly 'kv-get': string
  /** Argument: packet, head `[key, {expirationTtl?}]`, rest the JSON text of the value; answer head: null. */
  readonly 'kv-put': string
  /** Argument JSON `[key]`; answer head: null. */
  readonly 'kv-delete': string
  /** Argument JSON `[{prefix?, limit?, cursor?}]`; answer head: `{keys: string[], cursor: string | null}`. */
  readonly 'kv-list': string
  /** Wake the guest by `fire(id)` once, after `argument` ms; replaces the wake-up set before. '' takes it back. */
  readonly timer: string
  /** The call of ticket `id` has settled: call `take(id)`. Sent only after a `take(id)` that answered ''. */
  readonly 'reply-ready': string
  /** Nobody waits for the operation `id` any more: a `fetch` is given up, and answered all the same. */
  readonly abandon: string
  /** Every promise given to waitUntil has settled (a reply with `waiting: true` came before). */
  readonly 'waits-done': string
}

export type SyncOperation = keyof SyncOperations
export type AsyncOperation = keyof AsyncOperations
export type HostOp = (name: SyncOperation, argument: string) => string
export type HostBegin = (id: number, name: AsyncOperation, argument: string, invocationId: string) => void

export const URL_PARTS = [
  'href',
  'origin',
  'protocol',
  'username',
  'password',
  'host',
  'hostname',
  'port',
  'pathname',
  'search',
  'hash',
] as const
export const SYNC_DIGEST_BYTES = 65_536

/** `start`'s first argument as JSON. */
export interface GuestCall {
  readonly functionId: string
  readonly revision: number
  readonly invocationId: string
  readonly method: string
  readonly path: string
  readonly query: Readonly<Record<string, string | readonly string[]>>
  readonly headers: Readonly<Record<string, string>>
}

/** `fetch`'s head. `invocationId` names the call it is counted for ('' outside any). */
export interface FetchHead {
  readonly url: string
  readonly method: string
  readonly headers: readonly (readonly [string, string])[]
  readonly redirect: 'follow' | 'error' | 'manual'
  readonly hasBody: boolean
  readonly invocationId: string
}
export interface FetchAnswer {
  readonly url: string
  readonly redirected: boolean
  readonly status: number
  readonly statusText: string
  readonly headers: readonly (readonly [string, string])[]
}

/**
 * The functions the host keeps References to. Every one may throw only when the isolate ends (time, memory) or a
 * detached rejection of user code surfaces in it (isolated-vm does that): log such an error, and read the outcome again
 * by `take`; the guest has kept it.
 */
export interface GuestInterface {
  /**
   * Runs the program once. `program` is the function that `wrapProgram`'s script evaluates to (give it by
   * `reference.derefInto()`), `envJson` a JSON object of strings. Answers '' or a failure reply for `readReply`.
   */
  readonly load: (program: unknown, envJson: string) => string
  /**
   * Calls the handler, once for each three of `callJson`, `body`, `bodyKind`. `bodyKind` 0: `body` is the text; 1: base64 of the bytes; 2: the
   * bytes as Latin-1 text. Answers for each `<length>:` and a reply when the handler was synchronous, else `#` and a ticket (an integer above 0) for
   * `take`.
   */
  readonly start: (...callsBodiesAndKinds: (string | number)[]) => string
  /** The reply of a ticket, once; '' while it has not settled. `take(0)`: what the last `start` answered. */
  readonly take: (ticket: number) => string
  /** The answer of an asynchronous operation; unknown ids are ignored. */
  readonly settle: (operationId: number, result: string) => void
  /** The wake-up asked for by `timer` is due. */
  readonly fire: (timerId: number) => void
}

/** What `readReply` makes of a reply. `waiting`: promises given to waitUntil are still open (`waits-done` will come). */
export type GuestReply =
  | {
      readonly ok: true
      readonly status: number
      readonly headers: Readonly<Record<string, string>>
      /** Text, or bytes as Latin-1 when `binary`. */
      readonly body: string
      readonly binary: boolean
      readonly waiting: boolean
    }
  | {
      readonly ok: false
      readonly code: 'no-handler' | 'threw' | 'unserialisable' | 'output-too-large'
      readonly message: string
      readonly stack: string | null
    }

/** The limits a sandbox is built with; numbers only. */
export interface GuestLimits {
  /** Body of a reply, in bytes of UTF-8. */
  readonly maxOutputBytes: number
  /** Timers set and not yet fired. */
  readonly maxTimers: number
  /** Operations begun and not yet settled. */
  readonly maxOperations: number
  /** Characters of one console call; the rest is cut. */
  readonly maxLogChars: number
}
export const GUEST_LIMITS: GuestLimits = {
  maxOutputBytes: 6_291_456,
  maxTimers: 1_000,
  maxOperations: 256,
  maxLogChars: 16_384,
}
