import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Rejected } from '../../schemas/failure.ts'
import { mayAct } from '../../schemas/workflows/role.ts'
import type { Accounts } from './auth-accounts.ts'
import type { Principal } from './auth-principal.ts'
import type { TokenUse } from './tokens.ts'

declare module 'fastify' {
  interface FastifyRequest {
    /** Who asks. */
    principal: Principal
  }
}

interface Guard {
  /** Routes from here on are those that all services share, for everybody: the pages of the docs, and 405. */
  openFromHere(): void
}

const anonymous = { name: 'anonymous', role: 'viewer' } as const
/** Where nobody is asked who they are, everybody may do everything. */
const anybody = { name: 'anonymous', role: 'admin' } as const
const protocolPrefix = 'bearer.'
const defaultStreamCheckMs = 10_000

/**
 * Before anything else of a request is looked at: who asks (`Authorization: Bearer`; for WebSockets of browsers the subprotocols
 * `busbar` and `bearer.<token>`; for a GET `?ticket=`), and whether the role that its route names in `config.role` is theirs. The roles of
 * the routes are the one table, which the OpenAPI document shows; a route without one cannot be added.
 */
export function guardRoutes(app: FastifyInstance, accounts: Accounts): Guard {
  let shared = false
  app.addHook('onRoute', (route) => {
    if (shared) route.config = { ...route.config, role: 'public' }
    if (route.config?.role === undefined)
      throw new TypeError(`${route.method} ${route.url} does not say who may use it`)
  })
  // What fastify refuses before any hook has no principal, and no route that could ask for it.
  app.decorateRequest('principal', null as unknown as Principal)
  app.addHook('onRequest', async (request, reply) => {
    request.principal = await principalOf(accounts, request)
    admit(accounts, request)
    if (request.principal.session !== undefined && isStream(request)) endWithSession(accounts, request, reply)
  })
  return {
    openFromHere() {
      shared = true
    },
  }
}

/** @throws {Rejected} `http/unauthorized`, `workflows/forbidden` */
function admit({ enabled }: Accounts, { is404, routeOptions, principal }: FastifyRequest): void {
  const needed = routeOptions.config.role
  if (!enabled || is404 || needed === 'public') return
  if (principal.session === undefined) {
    throw new Rejected('http/unauthorized', 'A token is required', {
      hint: 'Sign in with POST /auth/login and send Authorization: Bearer <token>.',
    })
  }
  if (needed !== undefined && mayAct(principal.role, needed)) return
  throw new Rejected(
    'workflows/forbidden',
    `This needs the role ${needed ?? 'admin'}; ${principal.name} is ${principal.role}`,
    {
      details: { needed, role: principal.role },
    },
  )
}

/** @throws {Rejected} `http/unauthorized` for a bad token, where one is needed; {BusUnavailable} */
async function principalOf(accounts: Accounts, request: FastifyRequest): Promise<Principal> {
  const { is404, routeOptions } = request
  const asked = accounts.enabled && !is404 && routeOptions.config.role !== 'public'
  const nobody = accounts.enabled ? anonymous : anybody
  try {
    const given = tokenOf(request)
    if (given === null) return nobody
    const principal = await accounts.identify(given.use, given.token)
    return accounts.enabled ? principal : { ...principal, role: anybody.role }
  } catch (error) {
    if (asked) throw error
    return nobody
  }
}

/** @throws {Rejected} `http/unauthorized` */
function tokenOf({ method, headers, url }: FastifyRequest): { readonly use: TokenUse; readonly token: string } | null {
  const { authorization } = headers
  if (authorization !== undefined) {
    const [, token] = /^bearer +(\S+)$/i.exec(authorization.trim()) ?? []
    if (token !== undefined) return { use: 'access', token }
    throw new Rejected('http/unauthorized', 'The Authorization header must read: Bearer <token>')
  }
  if (method !== 'GET') return null
  const protocols = (headers['sec-websocket-protocol'] ?? '').split(',').map((protocol) => protocol.trim())
  const offered = protocols.find((protocol) => protocol.startsWith(protocolPrefix))
  if (offered !== undefined) return { use: 'access', token: offered.slice(protocolPrefix.length) }
  const at = url.indexOf('?')
  const token = at < 0 ? null : new URLSearchParams(url.slice(at)).get('ticket')
  return token === null ? null : { use: 'ticket', token }
}

function isStream({ ws, headers }: FastifyRequest): boolean {
  return ws || /\btext\/event-stream\b/.test(headers.accept ?? '')
}

/** A stream can live longer than what it was opened with. */
function endWithSession(accounts: Accounts, request: FastifyRequest, { raw }: FastifyReply): void {
  const { principal } = request
  const { socket } = request.raw
  const look = async () => {
    if (!(await accounts.counts(principal))) socket.destroy()
  }
  // A bus that is away is asked again.
  const timer = setInterval(() => void look().catch(() => undefined), accounts.streamCheckMs ?? defaultStreamCheckMs)
  const end = () => clearInterval(timer)
  socket.once('close', end)
  raw.once('close', end)
}
