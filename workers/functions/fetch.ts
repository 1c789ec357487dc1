import { lookup } from 'node:dns/promises'
import { LRUCache } from 'lru-cache'
import type { EgressPolicy } from './egress.ts'
import { FetchRefused, type Hop, type HopAnswer, type HopLimits, type Resolve, sendHop } from './fetch-hop.ts'
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
  /** Requests of one function under way. Default 32. */
  readonly maxConcurrent?: number
}

type Settings = Required<FetchOptions>

const MAX_HEADER_BYTES = 32_768
const MAX_URL_CHARS = 16_384
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
    maxConcurrent: 32,
    ...options,
  }
  const counted = new LRUCache<string, number>({ max: 10_000 })
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
  let hop: Hop = {
    url: urlOf(head.url),
    method: methodOf(head.method),
    headers: headersOf(head.headers),
    body: head.hasBody ? Buffer.from(rest, 'latin1') : null,
  }
  const limits: HopLimits = { maxResponseBytes: settings.maxResponseBytes, maxHeaderBytes: MAX_HEADER_BYTES }
  const count = () => countFor(`${functionId} ${head.invocationId}`, counted, settings.maxPerCall)
  for (let redirects = 0; ; redirects++) {
    count()
    const answer = await sendHop(hop, settings.policy, settings.resolve, limits, signal)
    const next = redirectOf(hop, answer)
    if (next === null || head.redirect === 'manual') return packed(answer, hop.url, redirects > 0)
    if (head.redirect === 'error') throw new FetchRefused('The server redirects')
    if (redirects >= settings.maxRedirects) throw new FetchRefused(`More than ${settings.maxRedirects} redirects`)
    hop = next
  }
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

function urlOf(text: string, base?: URL): URL {
  const url = URL.parse(text, base)
  if (url === null || text.length > MAX_URL_CHARS) throw new FetchRefused('The URL is not valid')
  url.hash = ''
  return url
}

function methodOf(method: string): string {
  if (!/^[A-Za-z-]{1,32}$/.test(method) || /^(connect|trace|track)$/i.test(method))
    throw new FetchRefused('The method cannot be used')
  return method
}

/** Headers that belong to the connection, or that this side sets. */
const FORBIDDEN =
  /^(host|connection|keep-alive|proxy-.*|te|trailer|transfer-encoding|upgrade|content-length|expect|accept-encoding|http2-settings)$/

function headersOf(given: FetchHead['headers']): [string, string][] {
  const headers: [string, string][] = []
  let size = 0
  for (const [name, value] of given) {
    const lower = String(name).toLowerCase()
    if (!/^[!#$%&'*+.^_`|~0-9a-z-]+$/.test(lower) || !/^[\t\x20-\x7e\x80-\xff]*$/.test(value))
      throw new FetchRefused('A header is not valid')
    size += lower.length + value.length
    if (!FORBIDDEN.test(lower)) headers.push([lower, value])
  }
  if (size > MAX_HEADER_BYTES) throw new FetchRefused(`The headers are larger than ${MAX_HEADER_BYTES} bytes`)
  if (!headers.some(([name]) => name === 'accept')) headers.push(['accept', '*/*'])
  if (!headers.some(([name]) => name === 'user-agent')) headers.push(['user-agent', 'Busbar'])
  return headers
}

const REDIRECTS: ReadonlySet<number> = new Set([301, 302, 303, 307, 308])
const SECRETS: ReadonlySet<string> = new Set(['authorization', 'cookie'])

/** The request a redirect asks for; null when the answer is none. Source: WHATWG Fetch, HTTP-redirect fetch */
function redirectOf(hop: Hop, { status, location }: HopAnswer): Hop | null {
  if (!REDIRECTS.has(status) || location === null) return null
  const url = urlOf(location, hop.url)
  const toGet =
    (status === 303 && hop.method !== 'GET' && hop.method !== 'HEAD') ||
    ((status === 301 || status === 302) && hop.method === 'POST')
  const sameOrigin = url.origin === hop.url.origin
  const headers = hop.headers.filter(
    ([name]) => (sameOrigin || !SECRETS.has(name)) && !(toGet && name.startsWith('content-')),
  )
  return toGet ? { url, method: 'GET', headers, body: null } : { ...hop, url, headers }
}
