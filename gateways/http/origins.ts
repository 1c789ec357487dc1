import type { IncomingMessage } from 'node:http'
import { isIP } from 'node:net'
import { Rejected } from '../../schemas/failure.ts'

/** In a list of origins: pages of this machine, on any port. */
const loopback = 'loopback'

const loopbackOrigin = /^https?:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::\d{1,5})?$/

/** The list as `@fastify/cors` takes it. */
export function corsOrigin(allowed: readonly string[]): '*' | (string | RegExp)[] {
  if (allowed.includes('*')) return '*'
  return allowed.map((origin) => (origin === loopback ? loopbackOrigin : origin))
}

export function isAllowedOrigin(origin: string, allowed: readonly string[]): boolean {
  if (allowed.includes('*') || allowed.includes(origin)) return true
  return allowed.includes(loopback) && loopbackOrigin.test(origin)
}

const safeMethods = ['GET', 'HEAD', 'OPTIONS']

/**
 * Browsers send what a page of another origin asks for before they look at its answer, and take any name that leads to this machine for
 * the origin it says (DNS rebinding): so what is not for every page is looked at here, before anything is done.
 * @throws {Rejected} `http/forbidden` for what a page of an origin that may not call would change, and for an unknown name of this machine
 */
export function refuseForeignPages(
  { method = '', headers, socket }: IncomingMessage,
  allowed: readonly string[],
): void {
  if (allowed.includes('*')) return
  const { origin, host } = headers
  if (!safeMethods.includes(method) && !isOwnOrAllowed(headers, allowed)) {
    throw new Rejected('http/forbidden', 'Pages of this origin may not change anything here (app.cors-origins)', {
      details: { origin },
    })
  }
  if (host === undefined || !isLoopback(socket.localAddress) || isKnownHost(host, allowed)) return
  throw new Rejected('http/forbidden', 'This machine is not known by this name: list its origin in app.cors-origins', {
    details: { host },
  })
}

/** Whether a request comes from no page, from one of this server, or from one that may call. */
export function isOwnOrAllowed({ origin, host }: IncomingMessage['headers'], allowed: readonly string[]): boolean {
  if (origin === undefined || isAllowedOrigin(origin, allowed)) return true
  return URL.canParse(origin) && new URL(origin).host === host
}

function isLoopback(address = ''): boolean {
  return address === '::1' || /^(::ffff:)?127\./.test(address)
}

/** Addresses cannot be made to lead elsewhere, and `localhost` is nobody's. */
function isKnownHost(host: string, allowed: readonly string[]): boolean {
  const { hostname } = URL.parse(`http://${host}`) ?? { hostname: '' }
  if (isIP(hostname.replace(/^\[|\]$/g, '')) > 0 || /^(.+\.)?localhost$/.test(hostname)) return true
  return allowed.some((origin) => URL.parse(origin)?.hostname === hostname)
}
