import type { FastifyInstance, FastifyRequest } from 'fastify'
import { decideChangeUser, decideDeleteUser, requireUser, type UserChange } from '../../schemas/workflows/user.ts'
import { bodyOf, invalid } from '../http/request.ts'
import { pageOf, queryOf, replyList } from './request.ts'
import type { WorkflowService } from './service.ts'
import { requirePassword } from './users-password.ts'
import { registerWritten } from './users-register.ts'
import { changeUser, sealedPassword } from './users-store.ts'
import { roleField, shownUser } from './users-view.ts'

type ByName = { Params: { username: string } }

/** Users, for admins. */
export function userRoutes(app: FastifyInstance, service: WorkflowService): void {
  const admin = { config: { role: 'admin' } } as const
  const change = (audit: string) => ({ config: { role: 'admin', audit } }) as const
  app.get('/api/v1/users', admin, async (request, reply) => {
    const query = queryOf(request, ['role', 'enabled', 'q', 'limit', 'cursor'])
    const found = service.accounts.users.all().filter(filterOf(query))
    const { limit, cursor = '0' } = pageOf(query)
    const [from, to] = [Number(cursor), Number(cursor) + limit]
    const next = to < found.length ? String(to) : null
    return replyList(request, reply, { rows: found.slice(from, to).map(shownUser), total: found.length, next })
  })
  app.post('/api/v1/users', change('user.create'), async (request, reply) => {
    const { username, password, role = 'viewer' } = bodyOf(request, ['username', 'password', 'role'])
    const { name } = service.principalOf(request)
    const user = await registerWritten(service, { username, password, role: roleField(role) }, name)
    request.auditNote = { resourceId: user.username }
    reply.code(201).header('Location', `/api/v1/users/${encodeURIComponent(user.username)}`)
    return shownUser(user)
  })
  app.get<ByName>('/api/v1/users/:username', admin, async ({ params }) => {
    const user = await service.accounts.users.refresh(params.username)
    return shownUser(requireUser(user === null ? { stage: 'absent' } : { stage: 'registered', user }))
  })
  app.put<ByName>('/api/v1/users/:username', change('user.change'), (request) => changeWritten(service, request))
  app.delete<ByName>('/api/v1/users/:username', change('user.delete'), async (request, reply) => {
    const { name: by } = service.principalOf(request)
    const { username } = request.params
    const change = { by, at: service.now() }
    const { state, sequence } = await changeUser(service.bus, username, by, (state) => decideDeleteUser(state, change))
    service.accounts.users.learn(username, state, sequence)
    return reply.code(204).send()
  })
}

async function changeWritten(service: WorkflowService, request: FastifyRequest<ByName>) {
  const { accounts, bus, now } = service
  const { role, enabled, password } = bodyOf(request, ['role', 'enabled', 'password'])
  const { name: by } = service.principalOf(request)
  const { username } = request.params
  if (enabled !== undefined && typeof enabled !== 'boolean') throw invalid('enabled', 'must be true or false')
  const known = { ...(role !== undefined && { role: roleField(role) }), ...(enabled !== undefined && { enabled }) }
  const { ring } = accounts.keyed()
  const digest = password === undefined ? null : await accounts.passwords.digest(requirePassword('password', password))
  const { state, sequence } = await changeUser(bus, username, by, (state) => {
    const { userId } = requireUser(state)
    const change: UserChange = { ...known, ...(digest !== null && { password: sealedPassword(ring, userId, digest) }) }
    return decideChangeUser(state, change, { by, at: now() })
  })
  accounts.users.learn(username, state, sequence)
  return shownUser(requireUser(state))
}

function filterOf({ role, enabled, q }: { readonly role?: string; readonly enabled?: string; readonly q?: string }) {
  const wanted = role === undefined ? null : roleField(role)
  if (enabled !== undefined && enabled !== 'true' && enabled !== 'false') {
    throw invalid('enabled', 'must be true or false')
  }
  const text = q?.toLowerCase()
  return (user: { readonly username: string; readonly role: string; readonly enabled: boolean }) =>
    (wanted === null || user.role === wanted) &&
    (enabled === undefined || String(user.enabled) === enabled) &&
    (text === undefined || user.username.toLowerCase().includes(text))
}
