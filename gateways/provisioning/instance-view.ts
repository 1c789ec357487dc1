import { nextTick } from '../../schemas/cron.ts'
import type { Instance } from '../../schemas/provisioning/instance.ts'
import { isUnderWay, type Operation } from '../../schemas/provisioning/operation.ts'
import { statusOf } from '../../schemas/provisioning/status.ts'
import { sizeText, tiers } from '../../schemas/provisioning/tiers.ts'

const engines = { POSTGRESQL: 'postgresql', MYSQL: 'mariadb', MONGODB: 'mongodb' } as const
const host = '127.0.0.1'

/** The record of an instance: no secret is in it. */
export function shownInstance(found: Instance, now: number): Readonly<Record<string, unknown>> {
  const { operation, uid, projectName, orgId, tier, members, primary, backup, maintenance } = found
  const first = members.find(({ name }) => name === primary)
  const replica = members.find(({ name }) => name !== primary)
  const running = first?.version ?? null
  const status = statusOf(found)
  const failure = found.created ? null : operation.error
  const next = backup.enabled ? nextTick({ cron: backup.schedule }, now) : null
  return {
    id: uid,
    projectId: projectName,
    projectName,
    orgId,
    namespace: found.namespace,
    databaseType: found.databaseType,
    engine: engines[found.databaseType],
    driver: 'local',
    tier,
    status,
    currentStage: stageOf(found),
    statusReason: status === 'ACTIVE' ? null : (failure?.message ?? found.healthReason),
    failureReason: failure?.message ?? null,
    health: found.health,
    phase: phaseOf(found),
    conditions: conditionsOf(found),
    version: { requested: found.version, running, major: running?.split('.')[0] ?? null },
    postgresVersion: found.databaseType === 'POSTGRESQL' ? running : null,
    instances: { desired: tiers[tier].localInstances, current: members.length, ready: readyOf(found) },
    primary,
    members: members.map(({ name, port, version }) => {
      return { name, role: name === primary ? 'primary' : 'replica', host, port, version }
    }),
    host,
    port: first?.port ?? null,
    readOnlyHost: replica === undefined ? null : host,
    readOnlyPort: replica?.port ?? null,
    sslMode: 'disable',
    endpoint: {
      host,
      port: first?.port ?? null,
      readOnlyHost: replica === undefined ? null : host,
      readOnlyPort: replica?.port ?? null,
      sslMode: 'disable',
    },
    databaseName: found.databaseName,
    masterUsername: found.masterUsername,
    username: found.masterUsername,
    storage: { size: sizeText(found.storageBytes), sizeBytes: found.storageBytes },
    resources: { cpu: tiers[tier].cpu, memory: sizeText(tiers[tier].memoryBytes) },
    parameters: found.parameters,
    parameterGroup: found.parameterGroup,
    pendingRestart: found.pendingRestart.length > 0,
    pendingParameters: found.pendingRestart,
    tags: found.tags,
    deletionProtection: found.deletionProtection,
    maintenanceWindow: maintenance?.window ?? null,
    maintenanceWindowDurationMinutes: maintenance?.durationMinutes ?? null,
    autoMinorVersionUpgrade: maintenance?.autoMinorVersionUpgrade ?? false,
    backup: { ...backup, next: time(next) },
    backupEnabled: backup.enabled,
    backupSchedule: backup.schedule,
    backupRetentionDays: backup.retention,
    features: { queryStats: found.queryStats, audit: found.audit },
    source: found.source === null ? null : { ...found.source, uid: undefined },
    operation: shownOperation(operation),
    generation: found.generation,
    observedGeneration: isUnderWay(operation) ? found.generation - 1 : found.generation,
    createdAt: time(found.createdAt),
    updatedAt: time(found.updatedAt),
  }
}

/** How many of the servers are known to do their work; null: nobody knows. */
function readyOf({ health, members }: Instance): number | null {
  if (health === 'HEALTHY') return members.length
  return health === 'DOWN' ? 0 : null
}

/** For people: what is being done, or how it is. */
function phaseOf({ operation, health, healthReason }: Instance): string {
  if (!isUnderWay(operation)) return healthReason ?? (health === 'HEALTHY' ? 'In healthy state' : 'Not looked at yet')
  const step = operation.done.at(-1)
  const how = operation.state === 'UNDOING' ? 'is taken back' : 'is under way'
  return `${operation.type} ${how}${step === undefined ? '' : `: ${step} is done`}`
}

function conditionsOf(found: Instance): readonly object[] {
  const { operation, health, healthReason, updatedAt } = found
  const busy = isUnderWay(operation)
  const ready = found.created && health !== 'DOWN'
  return [
    {
      type: 'Ready',
      status: ready ? 'True' : 'False',
      reason: found.created ? health : 'NEVER_READY',
      message: healthReason,
      lastTransitionTime: time(updatedAt),
    },
    {
      type: 'Progressing',
      status: busy ? 'True' : 'False',
      reason: operation.type,
      message: operation.error?.message ?? null,
      lastTransitionTime: time(operation.endedAt ?? operation.startedAt),
    },
  ]
}

function stageOf({ operation, created }: Instance): string {
  if (created && !isUnderWay(operation)) return 'COMPLETED'
  if (operation.state === 'UNDOING' || operation.state === 'FAILED') return 'FAILED'
  return operation.done.at(-1) ?? 'VALIDATING'
}

/** What is told of an operation; `step` is the last one that is done. */
function shownOperation(
  operation: Pick<Operation, 'id' | 'type' | 'state' | 'error' | 'startedAt' | 'endedAt'> & {
    readonly done?: readonly string[]
  },
) {
  const { id, type, state, error, startedAt, endedAt, done = [] } = operation
  return { id, type, state, step: done.at(-1) ?? null, error, startedAt: time(startedAt), finishedAt: time(endedAt) }
}

export function time(at: number | null): string | null {
  return at === null ? null : new Date(at).toISOString()
}
