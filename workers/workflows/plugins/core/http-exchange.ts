import { setTimeout as delay } from 'node:timers/promises'
import { isPassing, systemCode } from '../../passing-faults.ts'
import { TaskFailure, type TaskRequestInit, type TaskRun } from '../../plugin.ts'
import { durationMs } from '../duration.ts'
import { toldBody } from './http-answer.ts'
import type { HttpInput } from './http-properties.ts'

export interface Answer {
  readonly response: Response
  readonly bytes: Uint8Array
  /** How many requests it took. */
  readonly attempts: number
}

type Partial = NonNullable<TaskRequestInit['partial']>

const longestPauseMs = 30_000
/** A server that wants more than this is not waited for: the worker has other things to do. */
const longestRetryAfterMs = 60_000
/** What may be sent again whatever the method: nothing has been done. */
const untouched: ReadonlySet<number> = new Set([429, 503])
const passingStatus: ReadonlySet<number> = new Set([408, 425, 429])
const unsafe: ReadonlySet<string> = new Set(['POST', 'PATCH'])
const unreached: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
])

/**
 * Sends a request until there is an answer that is expected, or it has been sent often enough.
 * @param begin reads a body without an end, from the start with each request
 * @throws {TaskFailure} with the status and the beginning of the body
 */
export async function exchange(
  task: TaskRun<HttpInput>,
  url: URL,
  init: RequestInit,
  begin?: () => Partial,
): Promise<Answer> {
  const { input, signal, log } = task
  const firstPauseMs = durationMs(input.retryDelay, 'properties.retryDelay')
  for (let attempts = 1; ; attempts++) {
    const sent = await sendOnce(task, url, init, begin?.())
    if ('response' in sent && isExpected(input, sent.response.status)) return { ...sent, attempts }
    const failure = 'response' in sent ? failureOf(sent.response, sent.bytes) : sent.failure
    if (attempts > input.retries || !isWorthIt(input, sent)) throw failure
    const askedMs = 'response' in sent ? retryAfterMs(sent.response.headers.get('retry-after')) : null
    if (askedMs !== null && askedMs > longestRetryAfterMs) throw failure
    const pauseMs = askedMs ?? Math.random() * Math.min(longestPauseMs, firstPauseMs * 2 ** (attempts - 1))
    log.warn(`${failure.message.slice(0, 200)}; again in ${Math.ceil(pauseMs)} ms`)
    await delay(pauseMs, undefined, { signal })
  }
}

type Sent =
  | { readonly response: Response; readonly bytes: Uint8Array }
  | { readonly failure: TaskFailure; readonly code: string | null }

async function sendOnce(
  { input, signal, services, log }: TaskRun<HttpInput>,
  url: URL,
  init: RequestInit,
  partial?: Partial,
): Promise<Sent> {
  const timeoutMs = durationMs(input.timeout, 'properties.timeout')
  const timeout = AbortSignal.timeout(Math.max(1, timeoutMs))
  const began = performance.now()
  try {
    const options = { ...init, signal: AbortSignal.any([signal, timeout]), ...(partial && { partial }) }
    const response = await services.fetch(url, options)
    const bytes = await bytesOf(response, partial === undefined ? input.maxBytes : Number.POSITIVE_INFINITY)
    const took = Math.round(performance.now() - began)
    log.debug(`${input.method} ${url.origin}${url.pathname}: ${response.status}, ${bytes.length} bytes in ${took} ms`)
    return { response, bytes }
  } catch (error) {
    signal.throwIfAborted()
    if (timeout.aborted) {
      const failure = new TaskFailure('timeout', `${url.host} has not answered within ${timeoutMs} ms`, error)
      return { failure, code: 'ETIMEDOUT' }
    }
    if (!isPassing(error)) throw error
    const code = systemCode(error)
    return { failure: new TaskFailure('unavailable', `${url.host} cannot be reached: ${code}`, error), code }
  }
}

async function bytesOf(response: Response, maxBytes: number): Promise<Uint8Array> {
  const tooLarge = () => new TaskFailure('refused', `The answer is larger than ${maxBytes} bytes (properties.maxBytes)`)
  if (Number(response.headers.get('content-length') ?? 0) > maxBytes) {
    await response.body?.cancel()
    throw tooLarge()
  }
  const bytes = new Uint8Array(await response.arrayBuffer())
  if (bytes.length > maxBytes) throw tooLarge()
  return bytes
}

function isExpected({ expectedStatus }: HttpInput, status: number): boolean {
  return expectedStatus.some((each) => String(each) === String(status) || each === `${Math.floor(status / 100)}xx`)
}

function failureOf(response: Response, bytes: Uint8Array): TaskFailure {
  const { status } = response
  const again = passingStatus.has(status) || status >= 500
  const told = toldBody(bytes, response.headers.get('content-type'))
  return new TaskFailure(
    again ? 'unavailable' : 'refused',
    `The server answered ${status}${told === '' ? '' : `: ${told}`}`,
  )
}

function isWorthIt({ method, retryOn }: HttpInput, sent: Sent): boolean {
  if ('failure' in sent) return !unsafe.has(method) || unreached.has(sent.code ?? '')
  const { status } = sent.response
  if (retryOn !== undefined) return retryOn.includes(status)
  return unsafe.has(method) ? untouched.has(status) : passingStatus.has(status) || status >= 500
}

/** Source: RFC 9110, Retry-After: seconds, or a date. */
function retryAfterMs(value: string | null): number | null {
  if (value === null) return null
  if (/^\d+$/.test(value.trim())) return Number(value) * 1_000
  const at = Date.parse(value)
  return Number.isNaN(at) ? null : Math.max(0, at - Date.now())
}
