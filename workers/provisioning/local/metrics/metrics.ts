/** Raw numbers of one look at an instance's server. Counters only ever grow, until the server forgets them. */
export interface ServerSample {
  /** Epoch ms. */
  readonly at: number
  readonly activeConnections: number
  readonly idleConnections: number
  readonly maxConnections: number
  readonly databaseBytes: number
  /** Null without query statistics. */
  readonly queries: { readonly calls: number; readonly totalMs: number; readonly slow: number } | null
  /** Set when the write-ahead log is not being archived though it should. */
  readonly archiveProblem: string | null
  readonly longestTransactionSeconds: number | null
}

export interface MemberUsage {
  readonly name: string
  readonly role: 'primary' | 'replica'
  /** Null when the server is not running or the system does not tell. */
  readonly cpuSeconds: number | null
  readonly memoryBytes: number | null
}

/** One look at an instance: what its server says, what its processes use. */
export interface Look {
  readonly at: number
  /** Null with the reason when the server could not be asked. */
  readonly sample: ServerSample | null
  readonly unavailableReason: string | null
  readonly members: readonly MemberUsage[]
  readonly diskBytes: number | null
}

/** What an instance may use, and what else the metrics tell of it. */
export interface MetricsContext {
  readonly projectId: string
  /** The instance's status, as in its record. */
  readonly status: string
  /** Servers the instance should have. */
  readonly instanceCount: number
  readonly cpuLimitCores: number
  readonly memoryLimitBytes: number
  readonly storageLimitBytes: number
  /** RFC 3339. */
  readonly lastBackupTime: string | null
  readonly nextBackupTime: string | null
}

export interface PodMetrics {
  readonly name: string
  readonly role: 'primary' | 'replica'
  readonly cpuCores: number | null
  readonly cpuLimitCores: number
  readonly memoryMB: number | null
  readonly memoryLimitMB: number
}

/** The metrics of an instance; a number nobody knows is null, never 0. */
export interface Metrics {
  readonly projectId: string
  readonly timestamp: string
  readonly status: string
  readonly healthStatus: 'HEALTHY' | 'DEGRADED' | 'DOWN'
  readonly metricsAvailable: boolean
  readonly unavailableReason: string | null
  readonly cpuUsagePercent: number | null
  readonly memoryUsagePercent: number | null
  readonly diskUsagePercent: number | null
  readonly cpuUsageCores: number | null
  readonly memoryUsageMB: number | null
  readonly diskUsageGB: number | null
  readonly activeConnections: number | null
  readonly idleConnections: number | null
  readonly maxConnections: number | null
  readonly queriesPerSecond: number | null
  readonly averageQueryLatencyMs: number | null
  readonly slowQueryCount: number | null
  readonly databaseSizeGB: number | null
  readonly longestTransactionSeconds: number | null
  readonly archiveProblem: string | null
  readonly lastBackupTime: string | null
  readonly nextBackupTime: string | null
  readonly cpuLimitCores: number
  readonly memoryLimitMB: number
  readonly storageLimit: string
  readonly instanceCount: number
  readonly pods: readonly PodMetrics[]
}

const mib = 1024 ** 2
const gib = 1024 ** 3

/** The metrics of a look, with rates against the one before it. CPU and memory limits are those of one server. */
export function metricsOf(look: Look, before: Look | undefined, context: MetricsContext): Metrics {
  const { sample } = look
  const pods = look.members.map((member) => podOf(member, look, before, context))
  const primary = pods.find(({ role }) => role === 'primary')
  const cores = primary?.cpuCores ?? null
  const memory = look.members.find(({ role }) => role === 'primary')?.memoryBytes ?? null
  return {
    projectId: context.projectId,
    timestamp: new Date(look.at).toISOString(),
    status: context.status,
    healthStatus: healthOf(look, context),
    metricsAvailable: sample !== null,
    unavailableReason: look.unavailableReason,
    cpuUsagePercent: part(cores, context.cpuLimitCores),
    memoryUsagePercent: part(memory, context.memoryLimitBytes),
    diskUsagePercent: part(look.diskBytes, context.storageLimitBytes),
    cpuUsageCores: cores,
    memoryUsageMB: scaled(memory, mib),
    diskUsageGB: scaled(look.diskBytes, gib),
    activeConnections: sample?.activeConnections ?? null,
    idleConnections: sample?.idleConnections ?? null,
    maxConnections: sample?.maxConnections ?? null,
    ...queryRates(sample, before?.sample ?? null),
    databaseSizeGB: scaled(sample?.databaseBytes ?? null, gib),
    longestTransactionSeconds: sample?.longestTransactionSeconds ?? null,
    archiveProblem: sample?.archiveProblem ?? null,
    lastBackupTime: context.lastBackupTime,
    nextBackupTime: context.nextBackupTime,
    cpuLimitCores: context.cpuLimitCores,
    memoryLimitMB: Math.round(context.memoryLimitBytes / mib),
    storageLimit: `${round(context.storageLimitBytes / gib)}Gi`,
    instanceCount: context.instanceCount,
    pods,
  }
}

function healthOf({ sample, members }: Look, { instanceCount }: MetricsContext): Metrics['healthStatus'] {
  if (sample === null) return 'DOWN'
  const up = members.filter(({ cpuSeconds }) => cpuSeconds !== null).length
  const missing = members.some(({ cpuSeconds }) => cpuSeconds !== null) && up < instanceCount
  return missing || sample.archiveProblem !== null ? 'DEGRADED' : 'HEALTHY'
}

function podOf(member: MemberUsage, look: Look, before: Look | undefined, context: MetricsContext): PodMetrics {
  const earlier = before?.members.find(({ name }) => name === member.name)?.cpuSeconds ?? null
  const seconds = before === undefined ? 0 : (look.at - before.at) / 1000
  return {
    name: member.name,
    role: member.role,
    cpuCores: rate(member.cpuSeconds, earlier, seconds),
    cpuLimitCores: context.cpuLimitCores,
    memoryMB: scaled(member.memoryBytes, mib),
    memoryLimitMB: Math.round(context.memoryLimitBytes / mib),
  }
}

function queryRates(sample: ServerSample | null, before: ServerSample | null) {
  const now = sample?.queries ?? null
  const then = before?.queries ?? null
  const calls = now !== null && then !== null && now.calls >= then.calls ? now.calls - then.calls : null
  const spent = now !== null && then !== null && now.totalMs >= then.totalMs ? now.totalMs - then.totalMs : null
  const seconds = sample !== null && before !== null ? (sample.at - before.at) / 1000 : 0
  return {
    queriesPerSecond: calls === null || seconds <= 0 ? null : round(calls / seconds),
    averageQueryLatencyMs: calls === null || spent === null || calls === 0 ? null : round(spent / calls),
    slowQueryCount: now?.slow ?? null,
  }
}

/** Null for a counter that began anew in between. */
function rate(now: number | null, then: number | null, seconds: number): number | null {
  return now === null || then === null || seconds <= 0 || now < then ? null : round((now - then) / seconds)
}

function part(used: number | null, limit: number): number | null {
  return used === null || limit <= 0 ? null : round((used / limit) * 100)
}

function scaled(bytes: number | null, unit: number): number | null {
  return bytes === null ? null : round(bytes / unit)
}

function round(value: number): number {
  return Math.round(value * 1000) / 1000
}
