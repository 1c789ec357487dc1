import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Rejected } from '../../schemas/failure.ts'
import { mayAct } from '../../schemas/workflows/role.ts'
import { decideChangeUser, decideSignOut, requireUser } from '../../schemas/workflows/user.ts'
import { bodyOf } from '../http/request.ts'
import { checkLogin, refuseTooMany, signedIn, signIn, tokensOf } from './auth-login.ts'
import { belongs } from './auth-sessions.ts'
import { tryRegister } from './auth-throttle.ts'
import { textField } from './request.ts'
import type { WorkflowService } from './service.ts'
import { requirePassword } from './users-password.ts'
import { registerWritten } from './users-register.ts'
import { changeUser, sealedPassword } from './users-store.ts'
import { roleField, shownUser } from './users-view.ts'

const ticketMs = 30_000
const maxTextLength = 1_024

/** Registering, signing in and out, and the keys that tokens are checked with. */
export function authRoutes(app: FastifyInstance, service: WorkflowService): void {
  const open = (audit: string) => ({ config: { role: 'public', audit } }) as const
  // Where strangers may, they may all the same not be more than viewers.
  const registrar = service.accounts?.openRegistration === true ? 'public' : 'admin'
  const registering = { config: { role: registrar, audit: 'user.register' } } as const
  app.post('/auth/register', registering, (request, reply) => register(service, request, reply))
  app.post('/auth/login', open('auth.login'), async (request, reply) => {
    const { username, password } = bodyOf(request, ['username', 'password'])
    const tried = {
      username: textField('username', username, { max: maxTextLength }),
      password: textField('password', password, { max: maxTextLength }),
    }
    const user = await checkLogin(service, request, reply, tried)
    return await signIn(service, user)
  })
  app.post('/auth/refresh', open('auth.refresh'), (request) => refresh(service, request))
  app.post('/auth/logout', open('auth.logout'), (request, reply) => logout(service, request, reply))
  const viewer = { role: 'viewer' } as const
  app.get('/auth/me', { config: viewer }, async (request) => {
    const { name, role, session } = service.principalOf(request)
    if (session === undefined) return { username: name, role, authenticated: false }
    const { user } = await signedIn(service, request)
    return { ...shownUser(user), authenticated: true }
  })
  app.post('/auth/password', { config: { ...viewer, audit: 'auth.password' } }, (request, reply) =>
    changePassword(service, request, reply),
  )
  app.post('/auth/ticket', { config: viewer }, async (request) => {
    const { user, session } = await signedIn(service, request)
    const expiresAt = service.now() + ticketMs
    const claims = { ...user, sessionId: session.id, expiresAt }
    const ticket = await service.accounts.keyed().tokens.sign('ticket', claims)
    return { ticket, expiresAt: new Date(expiresAt).toISOString() }
  })
  keySetRoutes(app, service)
  app.addHook('onSend', async (request, reply) => {
    if (request.url.startsWith('/auth/') && !reply.hasHeader('Cache-Control')) reply.header('Cache-Control', 'no-store')
  })
}

function keySetRoutes(app: FastifyInstance, service: WorkflowService): void {
  for (const path of ['/.well-known/jwks.json', '/auth/jwks.json']) {
    app.get(path, { config: { role: 'public' } }, async (_request, reply) => {
      reply.header('Cache-Control', 'public, max-age=60')
      return service.accounts.keyed().tokens.keySet()
    })
  }
}

async function register(service: WorkflowService, request: FastifyRequest, reply: FastifyReply) {
  const { username, password, role: written = 'viewer' } = bodyOf(request, ['username', 'password', 'role'])
  const role = roleField(written)
  const { name, role: own, session } = service.principalOf(request)
  const isAdmin = mayAct(own, 'admin')
  if (!isAdmin && role !== 'viewer') {
    throw new Rejected('workflows/forbidden', `Only an admin registers a user as ${role}`, { details: { role } })
  }
  if (!isAdmin) {
    const address = service.accounts.addressOf(request)
    refuseTooMany(reply, await tryRegister(service.bus, address, service.now()))
  }
  const user = await registerWritten(
    service,
    { username, password, role },
    session === undefined && !isAdmin ? null : name,
  )
  request.auditNote = { resourceId: user.username, ...(!isAdmin && { username: user.username }) }
  reply.code(201)
  return shownUser(user)
}

async function refresh(service: WorkflowService, request: FastifyRequest) {
  const { accounts } = service
  accounts.keyed()
  const { refreshToken } = bodyOf(request, ['refreshToken'])
  const outcome = await accounts.sessions.refresh(textField('refreshToken', refreshToken, { max: maxTextLength }))
  if (outcome.outcome === 'refreshed') {
    const { session, sessionId } = outcome
    const user = await accounts.users.refresh(session.username)
    request.auditNote = { username: session.username, resourceId: session.username }
    if (user !== null && belongs(session, user)) {
      return await tokensOf(service, user, sessionId, outcome.refreshToken)
    }
    await accounts.sessions.end(sessionId, session.username)
  } else if (outcome.outcome === 'reused') {
    request.auditNote = { username: outcome.username ?? 'anonymous', resourceId: outcome.username, error: 'reused' }
  }
  throw new Rejected('http/unauthorized', 'The refresh token is spent, expired or unknown', {
    hint: 'Sign in again: POST /auth/login.',
  })
}

async function logout(service: WorkflowService, request: FastifyRequest, reply: FastifyReply) {
  const { accounts, bus, now } = service
  const { refreshToken, everywhere = false } = bodyOf(request, ['refreshToken', 'everywhere'])
  const { name, session } = service.principalOf(request)
  const holder =
    refreshToken === undefined
      ? null
      : await accounts.sessions.holder(textField('refreshToken', refreshToken, { max: maxTextLength }))
  const username = holder?.username ?? (session === undefined ? null : name)
  if (username === null)
    throw new Rejected('http/unauthorized', 'A token is required: one of the session that is to end')
  request.auditNote = { username, resourceId: username }
  await accounts.sessions.end(holder?.sessionId ?? session!.id, username)
  if (everywhere === true) {
    const by = { by: username, at: now() }
    const { state, sequence } = await changeUser(bus, username, username, (state) => decideSignOut(state, by))
    accounts.users.learn(username, state, sequence)
  }
  return reply.code(204).send()
}

/** All sessions end, and one begins. */
async function changePassword(service: WorkflowService, request: FastifyRequest, reply: FastifyReply) {
  const { accounts, bus, now } = service
  const { currentPassword, newPassword } = bodyOf(request, ['currentPassword', 'newPassword'])
  const { user: asking } = await signedIn(service, request)
  const wanted = requirePassword('newPassword', newPassword)
  const { username } = asking
  const password = textField('currentPassword', currentPassword, { max: maxTextLength })
  const { userId } = await checkLogin(service, request, reply, { username, password })
  const sealed = sealedPassword(accounts.keyed().ring, userId, await accounts.passwords.digest(wanted))
  const by = { by: username, at: now() }
  const { state, sequence } = await changeUser(bus, username, username, (state) =>
    decideChangeUser(state, { password: sealed }, by),
  )
  accounts.users.learn(username, state, sequence)
  return await signIn(service, requireUser(state))
}
