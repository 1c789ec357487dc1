import { randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Rejected } from '../../schemas/failure.ts'
import type { Requested } from '../../schemas/provisioning/instance-facts.ts'
import { backupIdOf, namespaceOf } from '../../schemas/provisioning/names.ts'
import { isUnderWay } from '../../schemas/provisioning/operation.ts'
import { bodyOf, invalid, mapOf, queryOf } from '../http/request.ts'
import { time } from './instance-view.ts'
import { askOf, changeSettings, existing, operate } from './operations.ts'
import { make } from './provision.ts'
import { backupMembers, nameField } from './provision-body.ts'
import { type ByProject, textField, waitOf } from './request.ts'
import type { ProvisioningService } from './service.ts'

interface Backups {
  readonly backups: readonly object[]
  readonly [more: string]: unknown
}

/** Backups, and new instances made of what another has or had. */
export function backupRoutes(app: FastifyInstance, service: ProvisioningService): void {
  app.post<ByProject>('/api/provision/:projectId/backup/trigger', async (request, reply) => {
    bodyOf(request, [])
    const { projectId } = request.params
    const seconds = waitOf(queryOf(request, ['wait']))
    const wanted = { type: 'BACKUP', request: { type: 'MANUAL' } } as const
    const settled = await operate(service, { request, reply }, projectId, wanted, seconds)
    const { id, type, state, startedAt } = settled
    if (!isUnderWay(settled)) return { ...settled.result, operation: { id, type, state } }
    const backupId = backupIdOf(projectId, startedAt)
    const begun = { id: backupId, backupId, projectId, timestamp: time(startedAt), startedAt: time(startedAt) }
    return reply.code(202).send({ ...begun, type: 'MANUAL', status: 'IN_PROGRESS', operation: { id, type, state } })
  })
  app.get<ByProject>('/api/provision/:projectId/backup/list', async (request) => {
    const { projectId } = request.params
    const { backup, operation } = existing(service, projectId)
    const { backups, ...window } = await askOf<Backups>(service, projectId, 'backups')
    const making = operation.type === 'BACKUP' && (isUnderWay(operation) || operation.state === 'FAILED')
    const backupId = operation.data.backupId ?? backupIdOf(projectId, operation.startedAt)
    const unfinished = {
      id: backupId,
      backupId,
      projectId,
      timestamp: time(operation.startedAt),
      startedAt: time(operation.startedAt),
      type: operation.request.type,
      status: isUnderWay(operation) ? 'IN_PROGRESS' : 'FAILED',
      error: operation.error?.message ?? null,
    }
    return {
      backups: making ? [...backups, unfinished] : backups,
      backupEnabled: backup.enabled,
      schedule: backup.schedule,
      retentionDays: backup.retention,
      ...window,
    }
  })
  app.post<ByProject>('/api/provision/:projectId/backup/configure', async (request) => {
    const { projectId } = request.params
    const backup = backupMembers(mapOf(request), existing(service, projectId).backup)
    await changeSettings(service, request, projectId, { backup })
    return { projectId, backupEnabled: backup.enabled, schedule: backup.schedule, retentionDays: backup.retention }
  })
  app.post<ByProject>('/api/provision/:projectId/backup/restore', async (request, reply) =>
    restore(service, request, reply),
  )
  app.post<ByProject>('/api/provision/:projectId/clone', async (request, reply) => {
    const { newProjectName } = bodyOf(request, ['newProjectName'])
    const wanted = copyOf(service, request, nameField('newProjectName', newProjectName), {
      type: 'CLONE',
      targetTime: null,
      backupId: null,
    })
    const seconds = waitOf(queryOf(request, ['wait']))
    return await make(service, { request, reply }, wanted, { type: 'CLONE', field: 'newProjectName', seconds })
  })
}

async function restore(service: ProvisioningService, request: FastifyRequest<ByProject>, reply: FastifyReply) {
  const { projectId } = request.params
  const body = bodyOf(request, ['newProjectId', 'newProjectName', 'targetTime', 'backupId'])
  const { newProjectId, newProjectName, targetTime, backupId } = body
  if (newProjectId !== undefined && newProjectName !== undefined && newProjectId !== newProjectName) {
    throw invalid('newProjectName', 'says the same as newProjectId, and they differ')
  }
  const field = newProjectId === undefined && newProjectName !== undefined ? 'newProjectName' : 'newProjectId'
  const name = nameField(field, newProjectId ?? newProjectName)
  const target = {
    targetTime: targetTime === undefined ? null : textField('targetTime', targetTime, { max: 50 }),
    backupId: backupId === undefined ? null : textField('backupId', backupId, { max: 100 }),
  }
  const wanted = copyOf(service, request, name, { type: 'RESTORE', ...target })
  // What was made of this request before was possible then.
  const known = service.instances.get(name).stage === 'wanted'
  if (!known) await askOf(service, projectId, 'check-restore', target)
  const seconds = waitOf(queryOf(request, ['wait']))
  return await make(service, { request, reply }, wanted, { type: 'RESTORE', field, seconds })
}

type Source = NonNullable<Requested['source']>

/** @throws {Rejected} `provisioning/not-found`; `http/bad-request` for a name that makes too long a namespace */
function copyOf(
  service: ProvisioningService,
  request: FastifyRequest<ByProject>,
  projectName: string,
  source: Omit<Source, 'projectId' | 'uid'>,
): Requested {
  const { projectId } = request.params
  const found = existing(service, projectId)
  if (!found.created) {
    throw new Rejected('provisioning/invalid-state', `${projectId} was never ready: there is nothing to copy`)
  }
  const namespace = namespaceOf(found.orgId, projectName)
  if (namespace === null) throw invalid('newProjectName', 'makes a namespace of more than 63 characters')
  const version = found.members.find(({ name }) => name === found.primary)?.version ?? found.version
  const { orgId, databaseType, tier, databaseName, masterUsername, parameters, parameterGroup, tags, backup } = found
  return {
    uid: randomUUID(),
    projectName,
    orgId,
    namespace,
    databaseType,
    tier,
    version,
    databaseName,
    masterUsername,
    parameters,
    parameterGroup,
    ...(found.followed !== undefined && { followed: found.followed }),
    tags,
    backup,
    storageBytes: found.storageBytes,
    source: { ...source, projectId, uid: found.uid },
    by: service.actorOf(request),
    at: service.now(),
  }
}
