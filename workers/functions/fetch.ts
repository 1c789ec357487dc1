import { lookup } from 'node:dns/promises'
import { LRUCache } from 'lru-cache'
import { followHops, hopOf } from '../egress/follow.ts'
import { FetchRefused, type HopAnswer, type Resolve } from '../egress/hop.ts'
import type { EgressPolicy } from '../egress/policy.ts'
import type { FetchAnswer, FetchHead } from './sandbox/operations.ts'
import { pack, unpack } from './sandbox/wire.ts'
import type { PerformOperation } from './supervisor-operations.ts'

export interface FetchOptions {
  readonly policy: EgressPolicy
  /** Default: the system's resolver. */
  readonly resolve?: Resolve
  /** From the first look-up to the last byte. Default 30,000. */
  readonly timeoutMs?: number
  /** Default 6,291,456. */
  readonly maxRequestBytes?: number
  /** After decompression. Default 6,291,456. */
  readonly maxResponseBytes?: number
  /** Redirects followed. Default 5. */
  readonly maxRedirects?: number
  /** Requests of one call, redirects counted. Default 50. */
  readonly maxPerCall?: number
  /** For how long those of a call are counted; what a function sends outside its calls is counted as one of them. Default 120,000. */
  readonly countedMs?: number
  /** Requests of one function under way. Default 32. */
  readonly maxConcurrent?: number
}

type Settings = Required<FetchOptions>

const systemResolve: Resolve = (host) => lookup(host, { all: true })

/**
 * `fetch` for functions, in the process that supervises their hosts. Every hop of a redirect is checked again; refusals and
 * failures are answered as a TypeError, as the web's fetch does.
 */
export function functionFetch(options: FetchOptions): PerformOperation {
  const settings: Settings = {
    resolve: systemResolve,
    timeoutMs: 30_000,
    maxRequestBytes: 6_291_456,
    maxResponseBytes: 6_291_456,
    maxRedirects: 5,
    maxPerCall: 50,
    countedMs: 120_000,
    maxConcurrent: 32,
    ...options,
  }
  const counted = new LRUCache<string, number>({ max: 10_000, ttl: settings.countedMs, noUpdateTTL: true })
  const open = new Map<string, number>()
  return async (functionId, _name, argument, signal) => {
    const running = open.get(functionId) ?? 0
    try {
      if (running >= settings.maxConcurrent)
        throw new FetchRefused(`More than ${settings.maxConcurrent} requests are under way`)
      open.set(functionId, running + 1)
      try {
        return `=${await perform(functionId, argument, settings, counted, signal)}`
      } finally {
        const left = open.get(functionId)! - 1
        if (left === 0) open.delete(functionId)
        else open.set(functionId, left)
      }
    } catch (error) {
      return `!${JSON.stringify(failureOf(error, signal))}`
    }
  }
}

function failureOf(error: unknown, signal: AbortSignal): { readonly name: string; readonly message: string } {
  if (error instanceof FetchRefused) return { name: 'TypeError', message: `fetch failed: ${error.message}` }
  if (signal.aborted) return { name: 'AbortError', message: 'The request was given up' }
  const { name, code } = error as NodeJS.ErrnoException
  if (name === 'TimeoutError' || (error as { cause?: Error }).cause?.name === 'TimeoutError')
    return { name: 'TimeoutError', message: 'fetch failed: the time limit was reached' }
  // Codes only: messages of Node name addresses of this network.
  return { name: 'TypeError', message: `fetch failed${typeof code === 'string' ? `: ${code}` : ''}` }
}

async function perform(
  functionId: string,
  argument: string,
  settings: Settings,
  counted: LRUCache<string, number>,
  given: AbortSignal,
): Promise<string> {
  const { head, rest } = unpack<FetchHead>(argument)
  const signal = AbortSignal.any([given, AbortSignal.timeout(settings.timeoutMs)])
  if (rest.length > settings.maxRequestBytes)
    throw new FetchRefused(`The request body is larger than ${settings.maxRequestBytes} bytes`)
  const first = hopOf(head.url, head.method, head.headers, head.hasBody ? Buffer.from(rest, 'latin1') : null)
  const { policy, resolve, maxResponseBytes, maxRedirects } = settings
  const onHop = () => countFor(`${functionId} ${head.invocationId}`, counted, settings.maxPerCall)
  const { redirect = 'follow' } = head
  const options = { policy, resolve, maxResponseBytes, maxRedirects, redirect, onHop }
  const { answer, url, redirected } = await followHops(first, options, signal)
  return packed(answer, url, redirected)
}

function countFor(key: string, counted: LRUCache<string, number>, most: number): void {
  const count = (counted.get(key) ?? 0) + 1
  if (count > most) throw new FetchRefused(`A call may send ${most} requests`)
  counted.set(key, count)
}

function packed({ status, statusText, headers, body }: HopAnswer, url: URL, redirected: boolean): string {
  if (status < 200 || status > 599) throw new FetchRefused(`The server answered with status ${status}`)
  const head: FetchAnswer = { url: url.href, redirected, status, statusText, headers }
  return pack(head, body.toString('latin1'))
}
