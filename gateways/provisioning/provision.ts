import { randomUUID } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { eventSubject } from '../../bus/subject.ts'
import { also, decideTogether } from '../../bus/together.ts'
import { Rejected } from '../../schemas/failure.ts'
import { decideProvision, type Instance, instance } from '../../schemas/provisioning/instance.ts'
import type { Requested } from '../../schemas/provisioning/instance-facts.ts'
import { decideClaim, namespace } from '../../schemas/provisioning/namespace.ts'
import { isUnderWay } from '../../schemas/provisioning/operation.ts'
import { statuses, statusOf } from '../../schemas/provisioning/status.ts'
import { databaseTypes, estimate, tierNames } from '../../schemas/provisioning/tiers.ts'
import { bodyOf, invalid, queryOf } from '../http/request.ts'
import { requireParameters } from './ask.ts'
import { recordRead, shownCredentials } from './credentials-view.ts'
import { withFreshParts } from './fresh-view.ts'
import { shownInstance } from './instance-view.ts'
import { existing, instancePlace, operate, replyInstance, settle } from './operations.ts'
import { group } from './parameter-groups.ts'
import { provisionBody } from './provision-body.ts'
import { type ByProject, choiceField, operationIdOf, waitOf } from './request.ts'
import type { ProvisioningService } from './service.ts'

/** What a provisioning worker says of itself. */
export interface Engines {
  readonly driver: string
  readonly place: string
  readonly engines: readonly {
    readonly databaseType: string
    readonly installed: boolean
    readonly versions: readonly string[]
    readonly advice: string | null
  }[]
}

/** Instances: made, listed, read, deleted; what a tier costs. */
export function provisionRoutes(app: FastifyInstance, service: ProvisioningService): void {
  app.get('/api/provision', async (request) => list(service, request))
  app.post('/api/provision', async (request, reply) => provision(service, request, reply))
  app.post('/api/provision/estimate', async (request) => {
    return estimate(choiceField('tier', bodyOf(request, ['tier']).tier, tierNames))
  })
  app.get<ByProject>('/api/provision/:projectId', async (request) => {
    const { fresh } = queryOf(request, ['fresh'])
    const found = existing(service, request.params.projectId)
    const record = shownInstance(found, service.now())
    if (fresh === undefined || choiceField('fresh', fresh, ['true', 'false']) === 'false') return record
    return await withFreshParts(service, found, record)
  })
  app.get<ByProject>('/api/provision/:projectId/credentials', async (request, reply) => {
    const found = existing(service, request.params.projectId)
    const credentials = shownCredentials(service, found)
    await recordRead(service, found, service.actorOf(request))
    reply.header('Cache-Control', 'no-store')
    return credentials
  })
  app.delete<ByProject>('/api/provision/:projectId', async (request, reply) => {
    const { projectId } = request.params
    const seconds = waitOf(queryOf(request, ['wait']))
    const settled = await operate(service, { request, reply }, projectId, { type: 'DELETE' }, seconds)
    if (isUnderWay(settled)) return replyInstance(service, reply, projectId, settled)
    return { projectId, status: 'DELETED', message: 'Database instance deleted successfully' }
  })
}

function list(service: ProvisioningService, request: FastifyRequest): readonly object[] {
  const { orgId, status, databaseType, tier } = queryOf(request, ['orgId', 'status', 'databaseType', 'tier'])
  if (status !== undefined) choiceField('status', status, statuses)
  if (databaseType !== undefined) choiceField('databaseType', databaseType, databaseTypes)
  if (tier !== undefined) choiceField('tier', tier, tierNames)
  return service.instances
    .all()
    .map(([, state]) => state)
    .filter((state) => state.stage === 'wanted')
    .filter((found) => orgId === undefined || found.orgId === orgId)
    .filter((found) => status === undefined || statusOf(found) === status)
    .filter((found) => databaseType === undefined || found.databaseType === databaseType)
    .filter((found) => tier === undefined || found.tier === tier)
    .sort((left, right) => left.createdAt - right.createdAt)
    .map((found) => shownInstance(found, service.now()))
}

async function provision(service: ProvisioningService, request: FastifyRequest, reply: FastifyReply) {
  const seconds = waitOf(queryOf(request, ['wait']))
  const own = { uid: randomUUID(), by: service.actorOf(request), at: service.now() }
  const wanted = await withGroup(service, provisionBody(request, own))
  await requireEngine(service, wanted)
  await requireParameters(service, wanted)
  return await make(service, { request, reply }, wanted, { type: 'CREATE', seconds })
}

/** What an instance names itself goes before what its group says. @throws {Rejected} `provisioning/parameter-group-not-found` */
async function withGroup(service: ProvisioningService, wanted: Requested): Promise<Requested> {
  if (wanted.parameterGroup === null) return wanted
  const { saved, version } = await group(service, wanted.parameterGroup)
  if (saved.databaseType !== wanted.databaseType) {
    throw invalid('parameterGroupName', `is a group for ${saved.databaseType}`)
  }
  const followed = { version, parameters: saved.parameters }
  return { ...wanted, followed, parameters: { ...saved.parameters, ...wanted.parameters } }
}

/** @throws {Rejected} `provisioning/engine-missing`; {Unavailable} when no worker answers */
export async function requireEngine(
  service: ProvisioningService,
  { databaseType, version }: Pick<Requested, 'databaseType' | 'version'>,
  field = 'postgresVersion',
): Promise<void> {
  const { engines } = await service.ask<Engines>('engines', {})
  const engine = engines.find((each) => each.databaseType === databaseType)
  if (engine?.installed !== true) {
    throw new Rejected('provisioning/engine-missing', `No server of the type ${databaseType} is there`, {
      details: { databaseType },
      hint: engine?.advice ?? `POST /api/setup/install/${databaseType}`,
    })
  }
  const { versions } = engine
  if (version === null || versions.some((each) => each === version || each.startsWith(`${version}.`))) return
  throw new Rejected('provisioning/engine-missing', `There is no server of the version ${version}`, {
    details: { field, reason: `must be one of ${versions.join(', ')}`, versions },
  })
}

interface Making {
  readonly type: 'CREATE' | 'CLONE' | 'RESTORE'
  /** Of the request, with the name. Default projectName. */
  readonly field?: string
  readonly seconds: number
}

/**
 * Records an instance that somebody wants, and its namespace with it, or neither.
 * @throws {Rejected} `provisioning/exists`, `provisioning/namespace-taken`, `provisioning/quota`
 */
export async function make(
  service: ProvisioningService,
  { request, reply }: { readonly request: FastifyRequest; readonly reply: FastifyReply },
  wanted: Requested,
  { type, field = 'projectName', seconds }: Making,
): Promise<FastifyReply> {
  const { projectName, uid } = wanted
  const operationId = operationIdOf(request, projectName)
  requireRoom(service, wanted)
  const record = () => recordWanted(service, wanted, { operationId, type })
  // Somebody was faster in this very moment: perhaps this request itself, sent twice.
  const again = (error: unknown) => {
    if (error instanceof Rejected && error.code === 'provisioning/exists') return record()
    throw error
  }
  const { sequence, state } = await record().catch(again).catch(blaming(field))
  await service.instances.passed(projectName, sequence)
  if ((state as Instance).uid !== uid) reply.header('Idempotency-Replayed', 'true')
  const settled = await settle(service, reply, projectName, operationId, seconds)
  return replyInstance(service, reply, projectName, settled, 201)
}

/** Rethrows; where the name is to blame, the request's own field for it is. */
function blaming(field: string) {
  return (error: unknown): never => {
    const { details } = error as { readonly details?: { readonly field?: unknown } }
    if (!(error instanceof Rejected) || details?.field !== 'projectName') throw error
    throw new Rejected(error.code, error.message, { details: { ...details, field }, cause: error })
  }
}

function recordWanted(
  service: ProvisioningService,
  wanted: Requested,
  operation: Parameters<typeof decideProvision>[2],
) {
  const { projectName, uid } = wanted
  return decideTogether(
    service.bus,
    {
      ...instancePlace(projectName),
      aggregate: instance,
      actor: wanted.by,
      decide: (before) => decideProvision(before, wanted, operation),
    },
    (_before, after) => {
      const owner = (after as Instance).uid
      if (owner !== uid) return []
      const subject = eventSubject('provisioning', 'namespace', wanted.namespace)
      return [also(subject, namespace, (claimed) => decideClaim(claimed, wanted))]
    },
  )
}

/** Of all organizations together: anybody can think of more of them. */
const maxOfAll = 5_000

/** A limit for the careless; two requests in the same moment may pass it by one. @throws {Rejected} `provisioning/quota` */
function requireRoom({ instances, maxInstances }: ProvisioningService, { orgId, projectName }: Requested): void {
  const others = instances
    .all()
    .map(([, state]) => state)
    .filter((state) => state.stage === 'wanted' && state.projectName !== projectName)
  if (others.length >= maxOfAll) {
    throw new Rejected('provisioning/quota', `There are ${others.length} instances, and there may be ${maxOfAll}`)
  }
  const own = others.filter((other) => other.stage === 'wanted' && other.orgId === orgId)
  if (own.length < maxInstances) return
  throw new Rejected('provisioning/quota', `${orgId} has ${own.length} instances, and may have ${maxInstances}`)
}
