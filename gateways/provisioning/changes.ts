import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { nextTick } from '../../schemas/cron.ts'
import { Rejected } from '../../schemas/failure.ts'
import type { Instance } from '../../schemas/provisioning/instance.ts'
import { sizeBytes, sizeText, tierNames } from '../../schemas/provisioning/tiers.ts'
import { bodyOf, invalid, mapOf, queryOf } from '../http/request.ts'
import { shownCredentials } from './credentials-view.ts'
import { askOf, changeSettings, existing, operate, replyInstance } from './operations.ts'
import { requireEngine } from './provision.ts'
import { cronField, parameterLimits, versionField } from './provision-body.ts'
import {
  type ByProject,
  choiceField,
  flagField,
  textField,
  textsField,
  waitOf,
  wholeNumber,
  writtenNumber,
} from './request.ts'
import type { ProvisioningService } from './service.ts'

/** Of what is asked for, without more ado, in the answer itself. */
const standardWaitSeconds = 30
const maxWindowMinutes = 24 * 60

/** What changes an instance. */
export function changeRoutes(app: FastifyInstance, service: ProvisioningService): void {
  app.patch<ByProject>('/api/provision/:projectId/scale', async (request, reply) => {
    const tier = choiceField('tier', bodyOf(request, ['tier']).tier, tierNames)
    return await begin(service, request, reply, { type: 'SCALE', request: { tier } })
  })
  app.post<ByProject>('/api/provision/:projectId/resize', async (request, reply) => {
    const bytes = newSize(existing(service, request.params.projectId), bodyOf(request, ['newSize']).newSize)
    return await begin(service, request, reply, { type: 'RESIZE', request: { storageBytes: bytes } })
  })
  app.post<ByProject>('/api/provision/:projectId/upgrade', async (request, reply) => {
    const version = versionField('version', bodyOf(request, ['version']).version)
    await askOf(service, request.params.projectId, 'check-operation', { type: 'UPGRADE' })
    await requireNewer(service, existing(service, request.params.projectId), version)
    return await begin(service, request, reply, { type: 'UPGRADE', request: { version } })
  })
  app.patch<ByProject>('/api/provision/:projectId/parameters', async (request, reply) => {
    const { projectId } = request.params
    existing(service, projectId)
    const parameters = textsField('parameters', mapOf(request), parameterLimits)
    if (Object.keys(parameters).length === 0) throw invalid('body', 'names no parameter')
    await askOf(service, projectId, 'check-parameters', { parameters })
    return await begin(service, request, reply, { type: 'PARAMETERS', request: { parameters } })
  })
  app.patch<ByProject>('/api/provision/:projectId/deletion-protection', async (request) => {
    const { projectId } = request.params
    const enabled = flagField('enabled', bodyOf(request, ['enabled']).enabled)
    await changeSettings(service, request, projectId, { deletionProtection: enabled })
    return { projectId, deletionProtection: enabled }
  })
  app.post<ByProject>('/api/provision/:projectId/credentials/rotate', async (request, reply) => {
    const { projectId } = request.params
    bodyOf(request, [])
    const seconds = waitOf(queryOf(request, ['wait']), standardWaitSeconds)
    const settled = await operate(service, { request, reply }, projectId, { type: 'ROTATE' }, seconds)
    if (settled.state !== 'SUCCEEDED') return replyInstance(service, reply, projectId, settled)
    reply.header('Cache-Control', 'no-store')
    return shownCredentials(service, existing(service, projectId))
  })
  app.put<ByProject>('/api/provision/:projectId/maintenance-window', async (request) => {
    const { projectId } = request.params
    const { window, durationMinutes, autoMinorVersionUpgrade } = bodyOf(request, windowMembers)
    const maintenance = {
      window: cronField('window', window),
      durationMinutes: wholeNumber('durationMinutes', durationMinutes, { min: 1, max: maxWindowMinutes }),
      autoMinorVersionUpgrade:
        autoMinorVersionUpgrade === undefined ? false : flagField('autoMinorVersionUpgrade', autoMinorVersionUpgrade),
    }
    await changeSettings(service, request, projectId, { maintenance })
    return { status: 'updated', ...shownWindow(existing(service, projectId), service.now()) }
  })
  app.get<ByProject>('/api/provision/:projectId/maintenance-window', async (request) => {
    return shownWindow(existing(service, request.params.projectId), service.now())
  })
  app.get<ByProject>('/api/provision/:projectId/logs', async (request) => {
    const lines = linesOf(request)
    return await askOf<object>(service, request.params.projectId, 'logs', { lines })
  })
}

const windowMembers = ['window', 'durationMinutes', 'autoMinorVersionUpgrade']
const maxLines = 5_000

/** `?lines=`. @throws {Rejected} `http/bad-request` */
export function linesOf(request: FastifyRequest): number {
  const { lines } = queryOf(request, ['lines'])
  return lines === undefined ? 100 : writtenNumber('lines', lines, { min: 1, max: maxLines })
}

async function begin(
  service: ProvisioningService,
  request: FastifyRequest<ByProject>,
  reply: FastifyReply,
  wanted: Parameters<typeof operate>[3],
): Promise<FastifyReply> {
  const { projectId } = request.params
  const seconds = waitOf(queryOf(request, ['wait']))
  const settled = await operate(service, { request, reply }, projectId, wanted, seconds)
  return replyInstance(service, reply, projectId, settled)
}

/** @throws {Rejected} `http/bad-request` for an older one; `provisioning/engine-missing` */
async function requireNewer(service: ProvisioningService, found: Instance, version: string): Promise<void> {
  const running = found.members.find(({ name }) => name === found.primary)?.version ?? '0'
  const parts = version.split('.').length
  const same = running.split('.').slice(0, parts).join('.')
  if (version.localeCompare(same, 'en', { numeric: true }) < 0)
    throw invalid('version', `must not be older than ${running}`)
  await requireEngine(service, { databaseType: found.databaseType, version }, 'version')
}

/** Storage never shrinks: what is written would not fit. @throws {Rejected} `http/bad-request`, `provisioning/unsupported` */
function newSize({ storageBytes }: Instance, value: unknown): number {
  const text = textField('newSize', value, { max: 30 })
  const bytes = sizeBytes(text)
  if (bytes === null) throw invalid('newSize', 'must be a storage size such as 10Gi, at most 64Ti')
  if (bytes >= storageBytes) return bytes
  throw new Rejected('provisioning/unsupported', `Storage cannot shrink from ${sizeText(storageBytes)} to ${text}`, {
    details: { field: 'newSize', reason: 'is less than what the instance has', current: sizeText(storageBytes) },
  })
}

/** @throws {Rejected} `provisioning/not-found` when none is set */
function shownWindow({ maintenance, projectName, pendingRestart }: Instance, now: number): object {
  if (maintenance === null) {
    throw new Rejected('provisioning/not-found', `${projectName} has no maintenance window`)
  }
  const { window, durationMinutes } = maintenance
  const start = nextTick({ cron: window }, now)
  return {
    ...maintenance,
    timezone: 'UTC',
    nextWindow:
      start === null
        ? null
        : { start: new Date(start).toISOString(), end: new Date(start + durationMinutes * 60_000).toISOString() },
    pendingActions: pendingRestart.length > 0 ? [{ action: 'restart', parameters: pendingRestart }] : [],
  }
}
