import { type ClientRequest, Agent as HttpAgent, request as httpRequest, type IncomingMessage } from 'node:http'
import { Agent as HttpsAgent, request as httpsRequest, type RequestOptions } from 'node:https'
import { isIP, type LookupFunction, type Socket } from 'node:net'
import { promisify } from 'node:util'
import { brotliDecompress, gunzip, inflate } from 'node:zlib'
import type { EgressPolicy } from './policy.ts'

/** What may not be fetched; the text is for its author and names nothing of this machine. */
export class FetchRefused extends Error {
  override readonly name = 'FetchRefused'
}

export interface ResolvedAddress {
  readonly address: string
  readonly family: number
}
/** Looks a host name up. Seam: `dns.lookup` with `all`. */
export type Resolve = (host: string) => Promise<readonly ResolvedAddress[]>

export interface Hop {
  readonly url: URL
  readonly method: string
  readonly headers: readonly (readonly [string, string])[]
  readonly body: Buffer | null
}
export interface HopAnswer {
  readonly status: number
  readonly statusText: string
  readonly headers: readonly [string, string][]
  readonly location: string | null
  readonly body: Buffer
}
export interface HopLimits {
  readonly maxResponseBytes: number
  readonly maxHeaderBytes: number
  readonly partial?: PartialRead
}
/** For bodies that have no end of their own: what has come until then is the body. */
export interface PartialRead {
  readonly until: AbortSignal
  readonly onChunk: (chunk: Buffer) => void
}

/** Ports that speak something a request could be taken for. Source: WHATWG Fetch, bad ports (those in use) */
const BAD_PORTS: ReadonlySet<string> = new Set(
  '1 7 9 11 13 15 17 19 20 21 22 23 25 37 53 69 110 111 119 123 135 137 139 143 161 179 389 427 465 512 513 514 515 526 530 531 532 540 548 554 556 563 587 601 636 989 990 993 995 1719 1720 1723 2049 3659 4045 4190 5060 5061 6000 6566 6665 6666 6667 6668 6669 6679 6697 10080'.split(
    ' ',
  ),
)

/** Connections are kept for requests that may be sent again when the other side has just closed one. */
const keepAlive = { keepAlive: true, maxFreeSockets: 64, timeout: 5_000 }
const agents = { 'http:': new HttpAgent(keepAlive), 'https:': new HttpsAgent(keepAlive) }
const REPEATABLE: ReadonlySet<string> = new Set(['GET', 'HEAD', 'OPTIONS'])

/**
 * One request and its answer, no redirect followed. The name is resolved once, and only addresses that were checked are
 * connected to.
 *
 * @throws {FetchRefused} when the target is not allowed or the answer is too large
 */
export async function sendHop(
  hop: Hop,
  policy: EgressPolicy,
  resolve: Resolve,
  limits: HopLimits,
  signal: AbortSignal,
): Promise<HopAnswer> {
  const { url } = hop
  if (url.protocol !== 'http:' && url.protocol !== 'https:')
    throw new FetchRefused(`URL scheme "${url.protocol}" is not supported`)
  if (url.username !== '' || url.password !== '') throw new FetchRefused('A request URL cannot include credentials')
  if (BAD_PORTS.has(url.port)) throw new FetchRefused(`Port ${url.port} may not be fetched from`)
  const host = url.hostname.replace(/^\[|\]$/g, '')
  const addresses = await checkedAddresses(host, policy, resolve, signal)
  const once = (fresh: boolean) => exchange(hop, host, addresses, policy, limits, signal, fresh)
  if (!REPEATABLE.has(hop.method)) return await once(true)
  try {
    return await once(false)
  } catch (error) {
    if (!(error instanceof StaleConnection)) throw error
    return await once(true)
  }
}

/**
 * The addresses of a host that may be connected to: what was checked is what must be connected to.
 * @throws {FetchRefused} when none may
 */
export async function checkedAddresses(
  host: string,
  policy: EgressPolicy,
  resolve: Resolve,
  signal: AbortSignal,
): Promise<readonly ResolvedAddress[]> {
  const forbidden = () => new FetchRefused(`"${host}" may not be fetched from here`)
  if (!policy.allowsHost(host)) throw forbidden()
  const family = isIP(host)
  const found = family > 0 ? [{ address: host, family }] : await unlessAborted(resolve(host), signal)
  const checked = found.filter(({ address }) => policy.allows(host, address))
  if (checked.length === 0) throw forbidden()
  return checked
}

async function unlessAborted<Value>(promise: Promise<Value>, signal: AbortSignal): Promise<Value> {
  const { promise: aborted, reject } = Promise.withResolvers<never>()
  const abort = () => reject(signal.reason)
  signal.throwIfAborted()
  signal.addEventListener('abort', abort, { once: true })
  try {
    return await Promise.race([promise, aborted])
  } finally {
    signal.removeEventListener('abort', abort)
  }
}

class StaleConnection extends Error {}

/** In place of a look-up: these addresses. */
export const pinned =
  (addresses: readonly ResolvedAddress[]): LookupFunction =>
  (_host, options, done) => {
    if (options.all) done(null, addresses as never)
    else done(null, addresses[0]!.address, addresses[0]!.family)
  }

async function exchange(
  hop: Hop,
  host: string,
  addresses: readonly ResolvedAddress[],
  policy: EgressPolicy,
  limits: HopLimits,
  signal: AbortSignal,
  fresh: boolean,
): Promise<HopAnswer> {
  const { url, method, body } = hop
  const send = url.protocol === 'https:' ? httpsRequest : httpRequest
  const request = send({
    host,
    port: url.port === '' ? undefined : Number(url.port),
    path: `${url.pathname}${url.search}`,
    method,
    headers: sentHeaders(hop, fresh, limits.partial === undefined ? 'gzip, deflate, br' : 'identity'),
    agent: fresh ? false : agents[url.protocol as 'http:'],
    lookup: pinned(addresses),
    ...(isIP(host) === 0 ? { servername: host } : {}),
    maxHeaderSize: limits.maxHeaderBytes,
    setDefaultHeaders: false,
    signal,
  } as RequestOptions)
  const response = responseTo(request, (address) => policy.allows(host, address))
  request.end(body ?? undefined)
  return await answerOf(await response, method, limits)
}

function responseTo(request: ClientRequest, allows: (address: string) => boolean): Promise<IncomingMessage> {
  const { promise, resolve, reject } = Promise.withResolvers<IncomingMessage>()
  request.once('response', resolve)
  request.on('error', (error) => reject(request.reusedSocket && isReset(error) ? new StaleConnection() : error))
  request.on('upgrade', (_response, socket: Socket) => {
    socket.destroy()
    reject(new FetchRefused('The server changed the protocol'))
  })
  // What was checked is what was connected to; a bug elsewhere must not make that untrue.
  request.once('socket', (socket) => {
    const check = () => {
      if (!allows(socket.remoteAddress ?? '')) request.destroy(new FetchRefused('The connection is not allowed'))
    }
    if (socket.connecting) socket.once('connect', check)
    else check()
  })
  return promise
}

const isReset = (error: Error): boolean => ['ECONNRESET', 'EPIPE'].includes((error as NodeJS.ErrnoException).code ?? '')

function sentHeaders({ url, method, headers, body }: Hop, fresh: boolean, encodings: string): string[] {
  const flat = ['Host', url.host, 'Connection', fresh ? 'close' : 'keep-alive']
  for (const [name, value] of headers) flat.push(name, value)
  flat.push('Accept-Encoding', encodings)
  if (body !== null) flat.push('Content-Length', `${body.length}`)
  else if (method === 'POST' || method === 'PUT' || method === 'PATCH') flat.push('Content-Length', '0')
  return flat
}

const DROPPED: ReadonlySet<string> = new Set([
  'connection',
  'content-encoding',
  'content-length',
  'keep-alive',
  'proxy-authenticate',
  'trailer',
  'transfer-encoding',
  'upgrade',
])

async function answerOf(response: IncomingMessage, method: string, limits: HopLimits): Promise<HopAnswer> {
  const headers: [string, string][] = []
  const raw = response.rawHeaders
  for (let at = 0; at + 1 < raw.length; at += 2) {
    const name = raw[at]!.toLowerCase()
    if (!DROPPED.has(name)) headers.push([name, raw[at + 1]!])
  }
  const received = await bodyOf(response, limits)
  const encoding = response.headers['content-encoding']
  const body = method === 'HEAD' ? received : await decoded(received, encoding, limits.maxResponseBytes)
  const { statusCode = 0, statusMessage = '' } = response
  return { status: statusCode, statusText: statusMessage, headers, location: response.headers.location ?? null, body }
}

async function bodyOf(response: IncomingMessage, { maxResponseBytes, partial }: HopLimits): Promise<Buffer> {
  const chunks: Buffer[] = []
  let size = 0
  const stop = () => response.destroy()
  partial?.until.addEventListener('abort', stop, { once: true })
  if (partial?.until.aborted) stop()
  try {
    for await (const chunk of response as AsyncIterable<Buffer>) {
      size += chunk.length
      if (size > maxResponseBytes) {
        response.destroy()
        throw tooLarge(maxResponseBytes)
      }
      chunks.push(chunk)
      partial?.onChunk(chunk)
    }
  } catch (error) {
    if (partial?.until.aborted !== true) throw error
  } finally {
    partial?.until.removeEventListener('abort', stop)
  }
  return Buffer.concat(chunks)
}

const tooLarge = (maxBytes: number) => new FetchRefused(`The response is larger than ${maxBytes} bytes`)

const DECODERS = {
  gzip: promisify(gunzip),
  'x-gzip': promisify(gunzip),
  deflate: promisify(inflate),
  br: promisify(brotliDecompress),
}

async function decoded(body: Buffer, encoding: string | undefined, maxOutputLength: number): Promise<Buffer> {
  const name = encoding?.trim().toLowerCase() ?? ''
  if (body.length === 0 || name === '' || name === 'identity') return body
  if (!Object.hasOwn(DECODERS, name))
    throw new FetchRefused(`The content encoding "${name.slice(0, 40)}" is not supported`)
  try {
    return await DECODERS[name as keyof typeof DECODERS](body, { maxOutputLength })
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code === 'ERR_BUFFER_TOO_LARGE') throw tooLarge(maxOutputLength)
    throw new FetchRefused(`The response is not valid ${name}`)
  }
}
