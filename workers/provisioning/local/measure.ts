import { nextTick } from '../../../schemas/cron.ts'
import type { Instance } from '../../../schemas/provisioning/instance.ts'
import { statusOf } from '../../../schemas/provisioning/status.ts'
import { tiers } from '../../../schemas/provisioning/tiers.ts'
import { listBackups } from './backup/backup-record.ts'
import { folderBytes } from './metrics/folder-size.ts'
import { type Look, type MemberUsage, type Metrics, type MetricsContext, metricsOf } from './metrics/metrics.ts'
import { readPostgresSample } from './metrics/postgres-sample.ts'
import { readProcessUsage } from './metrics/process-usage.ts'
import type { LocalPlace } from './place.ts'
import { openPostgres, type PostgresInstance } from './postgres-instance.ts'

/** What is remembered between two measurements. */
export interface Measured {
  before: Look | undefined
  diskBytes: number | null
}

/** Asks the primary, and the system what the servers use. A server that is down is a number nobody knows. */
export async function measure(place: LocalPlace, instance: Instance, measured: Measured): Promise<Metrics> {
  const opened = await openPostgres(place, instance)
  const look = await lookAt(opened, instance)
  const { before } = measured
  measured.before = look
  measured.diskBytes = look.diskBytes
  return metricsOf(look, before, contextOf(opened, instance))
}

async function lookAt(opened: PostgresInstance, instance: Instance): Promise<Look> {
  const at = Date.now()
  const [asked, members, diskBytes] = await Promise.all([
    readPostgresSample(opened.primary()).then(
      (sample) => ({ sample, unavailableReason: null }),
      (error: Error) => ({ sample: null, unavailableReason: error.message }),
    ),
    usageOf(opened, instance),
    folderBytes(opened.folders.members),
  ])
  return { at, ...asked, members, diskBytes }
}

async function usageOf(opened: PostgresInstance, { members, primary }: Instance): Promise<readonly MemberUsage[]> {
  return await Promise.all(
    members.map(async (member) => {
      const pid = await opened.control.pid(opened.nodeOf(member))
      const usage = pid === undefined ? null : await readProcessUsage(pid)
      const { cpuSeconds = null, memoryBytes = null } = usage ?? {}
      const role = member.name === primary ? ('primary' as const) : ('replica' as const)
      return { name: member.name, role, cpuSeconds, memoryBytes }
    }),
  )
}

function contextOf({ folders }: PostgresInstance, instance: Instance): MetricsContext {
  const { projectName: projectId, tier, backup, members, storageBytes } = instance
  const next = backup.enabled ? nextTick({ cron: backup.schedule }, Date.now()) : null
  return {
    projectId,
    status: statusOf(instance),
    instanceCount: members.length,
    cpuLimitCores: tiers[tier].cpu,
    memoryLimitBytes: tiers[tier].memoryBytes,
    storageLimitBytes: storageBytes,
    lastBackupTime: listBackups(folders.backups).at(-1)?.timestamp ?? null,
    nextBackupTime: next === null ? null : new Date(next).toISOString(),
  }
}
