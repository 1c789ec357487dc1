import { FetchRefused, type Hop, type HopAnswer, type PartialRead, type Resolve, sendHop } from './hop.ts'
import type { EgressPolicy } from './policy.ts'

export interface FollowOptions {
  readonly policy: EgressPolicy
  readonly resolve: Resolve
  /** After decompression. */
  readonly maxResponseBytes: number
  readonly partial?: PartialRead
  readonly maxRedirects: number
  /** Headers that may go along to another origin. Default: all but those that the web's fetch takes away. */
  readonly keptElsewhere?: ReadonlySet<string>
  /** As of the web's fetch. */
  readonly redirect: 'follow' | 'manual' | 'error'
  /** Called before each hop; what it throws ends the request. */
  readonly onHop?: () => void
}

export interface Followed {
  readonly answer: HopAnswer
  readonly url: URL
  readonly redirected: boolean
}

const MAX_HEADER_BYTES = 32_768
const MAX_URL_CHARS = 16_384

/**
 * One request, and the redirects it leads to; every hop is checked again.
 * @throws {FetchRefused} when a target is not allowed, or a limit is passed
 */
export async function followHops(first: Hop, options: FollowOptions, signal: AbortSignal): Promise<Followed> {
  const { maxResponseBytes, partial } = options
  const limits = { maxResponseBytes, maxHeaderBytes: MAX_HEADER_BYTES, ...(partial && { partial }) }
  let hop = first
  for (let redirects = 0; ; redirects++) {
    options.onHop?.()
    const answer = await sendHop(hop, options.policy, options.resolve, limits, signal)
    const next = redirectOf(hop, answer, options.keptElsewhere)
    if (next === null || options.redirect === 'manual') return { answer, url: hop.url, redirected: redirects > 0 }
    if (options.redirect === 'error') throw new FetchRefused('The server redirects')
    if (redirects >= options.maxRedirects) throw new FetchRefused(`More than ${options.maxRedirects} redirects`)
    hop = next
  }
}

/** A request that may be sent. @throws {FetchRefused} for a URL, method or header that cannot be used */
export function hopOf(
  url: string,
  method: string,
  headers: readonly (readonly [string, string])[],
  body: Buffer | null,
): Hop {
  return { url: urlOf(url), method: methodOf(method), headers: headersOf(headers), body }
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

function headersOf(given: readonly (readonly [string, string])[]): [string, string][] {
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
function redirectOf(hop: Hop, { status, location }: HopAnswer, kept?: ReadonlySet<string>): Hop | null {
  if (!REDIRECTS.has(status) || location === null) return null
  const url = urlOf(location, hop.url)
  const toGet =
    (status === 303 && hop.method !== 'GET' && hop.method !== 'HEAD') ||
    ((status === 301 || status === 302) && hop.method === 'POST')
  const sameOrigin = url.origin === hop.url.origin
  const headers = hop.headers.filter(
    ([name]) =>
      (sameOrigin || (kept === undefined ? !SECRETS.has(name) : kept.has(name))) &&
      !(toGet && name.startsWith('content-')),
  )
  return toGet ? { url, method: 'GET', headers, body: null } : { ...hop, url, headers }
}
