import { AbortController, AbortSignal } from './events.ts'
import { Headers, headerPairs } from './headers.ts'
import { Body, unread } from './http-body.ts'
import { jsonStringify, toText } from './intrinsics.ts'
import { addHeader, readResponsesWith } from './reply.ts'
import { URL } from './url.ts'

interface RequestInit {
  method?: unknown
  headers?: unknown
  body?: unknown
  redirect?: unknown
  signal?: AbortSignal | null
}

const METHODS = new Set(['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE', 'OPTIONS'])
type Redirect = 'follow' | 'error' | 'manual'

export class Request extends Body {
  readonly #url: string
  readonly #method: string
  readonly #redirect: Redirect
  readonly #signal: AbortSignal
  constructor(input: unknown, init: RequestInit = {}) {
    const from = input instanceof Request ? input : null
    const method = methodOf(init.method ?? from?.method ?? 'GET')
    const body = init.body ?? (from === null ? null : unread(from))
    if (init.body !== undefined && init.body !== null && (method === 'GET' || method === 'HEAD'))
      throw new TypeError(`A ${method} request cannot have a body`)
    super(init.headers ?? from?.headers, body)
    this.#url = from === null ? urlOf(input) : from.#url
    this.#method = method
    const redirect = toText(init.redirect ?? from?.redirect ?? 'follow')
    if (!['follow', 'error', 'manual'].includes(redirect)) throw new TypeError(`"${redirect}" is no redirect mode`)
    this.#redirect = redirect as Redirect
    this.#signal = init.signal ?? from?.signal ?? new AbortController().signal
    if (!(this.#signal instanceof AbortSignal)) throw new TypeError('signal must be an AbortSignal')
  }
  get url(): string {
    return this.#url
  }
  get method(): string {
    return this.#method
  }
  get redirect(): Redirect {
    return this.#redirect
  }
  get signal(): AbortSignal {
    return this.#signal
  }
  clone(): Request {
    unread(this)
    return new Request(this)
  }
}

function methodOf(given: unknown): string {
  const method = toText(given)
  const upper = method.toUpperCase()
  if (METHODS.has(upper)) return upper
  if (!/^[A-Za-z-]{1,32}$/.test(method) || ['CONNECT', 'TRACE', 'TRACK'].includes(upper))
    throw new TypeError(`"${method.slice(0, 40)}" is not a method that can be used`)
  return method
}

function urlOf(input: unknown): string {
  const url = new URL(input)
  if (url.username !== '' || url.password !== '') throw new TypeError('A request URL cannot include credentials')
  return url.href
}

interface ResponseInit {
  status?: unknown
  statusText?: unknown
  headers?: unknown
}
const EMPTY = new Set([204, 205, 304])

let received: (response: Response, url: string, redirected: boolean) => Response

export class Response extends Body {
  readonly #status: number
  readonly #statusText: string
  #url = ''
  #redirected = false
  #type = 'default'
  static {
    received = (response, url, redirected) => {
      response.#url = url
      response.#redirected = redirected
      response.#type = 'basic'
      return response
    }
    readResponsesWith((value) => {
      if (!(#status in value)) return null
      const headers: Record<string, string> = { __proto__: null as never }
      for (const [name, text] of headerPairs(value.headers)) addHeader(headers, name, text)
      return { status: value.#status === 0 ? 500 : value.#status, headers, body: unread(value) }
    })
  }
  constructor(body?: unknown, init: ResponseInit = {}) {
    const status = init.status === undefined ? 200 : Number(init.status)
    if (!Number.isInteger(status) || status < 200 || status > 599)
      throw new RangeError('The status must be an integer from 200 to 599')
    if (body !== undefined && body !== null && EMPTY.has(status))
      throw new TypeError(`A response of status ${status} cannot have a body`)
    super(init.headers, body)
    this.#status = status
    this.#statusText = toText(init.statusText ?? '')
    if (!/^[\t\x20-\x7e\x80-\xff]*$/.test(this.#statusText)) throw new TypeError('The status text is not allowed')
  }
  static json(value: unknown, init: ResponseInit = {}): Response {
    const text = jsonStringify(value)
    if (text === undefined) throw new TypeError('The value has no JSON form')
    const headers = new Headers(init.headers)
    if (!headers.has('content-type')) headers.set('content-type', 'application/json')
    return new Response(text, { ...init, headers })
  }
  static redirect(url: unknown, status: unknown = 302): Response {
    const code = Number(status)
    if (![301, 302, 303, 307, 308].includes(code)) throw new RangeError('The status must be one of a redirect')
    return new Response(null, { status: code, headers: { location: new URL(url).href } })
  }
  static error(): Response {
    const response = new Response(null)
    response.#type = 'error'
    return response
  }
  get status(): number {
    return this.#type === 'error' ? 0 : this.#status
  }
  get statusText(): string {
    return this.#statusText
  }
  get ok(): boolean {
    return this.status >= 200 && this.status < 300
  }
  get url(): string {
    return this.#url
  }
  get redirected(): boolean {
    return this.#redirected
  }
  get type(): string {
    return this.#type
  }
  clone(): Response {
    const content = unread(this)
    const copy = new Response(content, { status: this.#status, statusText: this.#statusText, headers: this.headers })
    return received(copy, this.#url, this.#redirected)
  }
}

/** The Response that the host's answer stands for. */
export function receivedResponse(
  {
    status,
    statusText,
    headers,
    url,
    redirected,
  }: {
    status: number
    statusText: string
    headers: readonly (readonly [string, string])[]
    url: string
    redirected: boolean
  },
  bytes: Uint8Array,
): Response {
  const body = EMPTY.has(status) ? null : bytes
  return received(new Response(body, { status, statusText, headers }), url, redirected)
}
