import { nextTick } from '../../../schemas/cron.ts'
import type { Instance } from '../../../schemas/provisioning/instance.ts'
import type { Member } from '../../../schemas/provisioning/instance-facts.ts'
import { statusOf } from '../../../schemas/provisioning/status.ts'
import { tiers } from '../../../schemas/provisioning/tiers.ts'
import { listBackups } from './backup/backup-record.ts'
import type { InstanceFolders } from './folders.ts'
import { folderBytes } from './metrics/folder-size.ts'
import {
  type Look,
  type MemberUsage,
  type Metrics,
  type MetricsContext,
  metricsOf,
  type ServerSample,
} from './metrics/metrics.ts'
import { readPostgresSample } from './metrics/postgres-sample.ts'
import { readProcessUsage } from './metrics/process-usage.ts'
import { readMysqlSample } from './mysql/mysql-performance.ts'
import { openMysqlInstance } from './mysql-instance.ts'
import type { LocalPlace } from './place.ts'
import { openPostgres } from './postgres-instance.ts'

/** What is remembered between two measurements. */
export interface Measured {
  before: Look | undefined
  diskBytes: number | null
}

/** What there is to ask of an instance, whatever its kind. */
interface Measurable {
  readonly folders: InstanceFolders
  sample(): Promise<ServerSample>
  pid(member: Member): Promise<number | undefined>
}

async function measurable(place: LocalPlace, instance: Instance): Promise<Measurable> {
  if (instance.databaseType === 'MYSQL') {
    const { folders, control, nodeOf, primary } = await openMysqlInstance(place, instance)
    return { folders, sample: () => readMysqlSample(primary()), pid: (member) => control.pid(nodeOf(member)) }
  }
  const { folders, control, nodeOf, primary } = await openPostgres(place, instance)
  // What a lost part of the log was needed for is over with the next backup.
  const sample = () => readPostgresSample(primary(), listBackups(folders.backups).at(-1)?.beginWal)
  return { folders, sample, pid: (member) => control.pid(nodeOf(member)) }
}

/** Asks the primary, and the system what the servers use. A server that is down is a number nobody knows. */
export async function measure(place: LocalPlace, instance: Instance, measured: Measured): Promise<Metrics> {
  const opened = await measurable(place, instance)
  const look = await lookAt(opened, instance)
  const { before } = measured
  measured.before = look
  measured.diskBytes = look.diskBytes
  return metricsOf(look, before, contextOf(opened, instance))
}

async function lookAt(opened: Measurable, instance: Instance): Promise<Look> {
  const at = Date.now()
  const [asked, members, diskBytes] = await Promise.all([
    opened.sample().then(
      (sample) => ({ sample, unavailableReason: null }),
      (error: Error) => ({ sample: null, unavailableReason: error.message }),
    ),
    usageOf(opened, instance),
    folderBytes(opened.folders.members),
  ])
  return { at, ...asked, members, diskBytes }
}

async function usageOf(opened: Measurable, { members, primary }: Instance): Promise<readonly MemberUsage[]> {
  return await Promise.all(
    members.map(async (member) => {
      const pid = await opened.pid(member)
      const usage = pid === undefined ? null : await readProcessUsage(pid)
      const { cpuSeconds = null, memoryBytes = null } = usage ?? {}
      const role = member.name === primary ? ('primary' as const) : ('replica' as const)
      return { name: member.name, role, cpuSeconds, memoryBytes }
    }),
  )
}

function contextOf({ folders }: Measurable, instance: Instance): MetricsContext {
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
