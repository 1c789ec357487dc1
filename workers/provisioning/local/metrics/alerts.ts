import type { Metrics } from './metrics.ts'

export type AlertSeverity = 'WARNING' | 'CRITICAL'

/** An alert of an instance; one from its beginning to its end, under one id. */
export interface Alert {
  /** `<rule>-<project>-<epoch seconds of its beginning>`. */
  readonly id: string
  readonly projectId: string
  readonly rule: string
  readonly severity: AlertSeverity
  readonly message: string
  /** The metrics' field. */
  readonly metric: string
  readonly value: number | null
  readonly threshold: number
  /** RFC 3339: when it began, and when it ended. */
  readonly timestamp: string
  readonly resolved: boolean
  readonly resolvedAt: string | null
}

export interface AlertRule {
  readonly rule: string
  readonly metric: string
  readonly severity: AlertSeverity
  /** Fires above it. */
  readonly threshold: number
  /** Once firing, ends only below it: a value that hovers about the threshold is one alert. */
  readonly clearBelow: number
  /** How long the value must be above the threshold, and below `clearBelow`, without a break. */
  readonly forMs: number
  /** Null: not known, neither begins nor ends anything. */
  readonly valueOf: (metrics: Metrics) => number | null
  readonly message: (value: number, metrics: Metrics) => string
}

/** What one rule remembers of one instance. `since`: epoch ms at which the value crossed, null when it has not. */
interface RuleState {
  readonly crossedSince: number | null
  readonly alert: Alert | null
}

export type AlertState = Readonly<Record<string, RuleState>>

const percent = (value: number) => `${value.toFixed(1)}%`

function share(
  rule: string,
  metric: 'cpuUsagePercent' | 'memoryUsagePercent' | 'diskUsagePercent',
  limits: {
    readonly name: string
    readonly threshold: number
    readonly severity: AlertSeverity
    readonly forMs: number
  },
): AlertRule {
  const { name, threshold, severity, forMs } = limits
  return {
    rule,
    metric,
    severity,
    threshold,
    clearBelow: threshold * 0.9,
    forMs,
    valueOf: (metrics) => metrics[metric],
    message: (value) => `${name} usage at ${percent(value)}`,
  }
}

function connections(rule: string, threshold: number, severity: AlertSeverity): AlertRule {
  return {
    rule,
    metric: 'activeConnections',
    severity,
    threshold,
    clearBelow: threshold * 0.9,
    forMs: 15_000,
    valueOf: ({ activeConnections: active, idleConnections: idle, maxConnections: max }) =>
      active === null || idle === null || !max ? null : ((active + idle) / max) * 100,
    message: (value, { maxConnections }) => `Connections at ${percent(value)} of ${maxConnections}`,
  }
}

/** A yes or no as a rule: above 0.5 is yes. */
function flag(
  rule: string,
  metric: string,
  severity: AlertSeverity,
  forMs: number,
  on: (metrics: Metrics) => boolean | null,
  message: (metrics: Metrics) => string,
): AlertRule {
  return {
    rule,
    metric,
    severity,
    threshold: 0.5,
    clearBelow: 0.5,
    forMs,
    valueOf: (metrics) => {
      const answer = on(metrics)
      return answer === null ? null : Number(answer)
    },
    message: (_, metrics) => message(metrics),
  }
}

function runningServers({ pods }: Metrics): number {
  return pods.filter(({ memoryMB }) => memoryMB !== null).length
}

/** Null where the system tells nothing of processes: then none seems to run. */
function missingServer(metrics: Metrics): boolean | null {
  const running = runningServers(metrics)
  return metrics.metricsAvailable && running > 0 ? running < metrics.instanceCount : null
}

/** The rules every instance is watched by. */
const alertRules: readonly AlertRule[] = [
  share('cpu', 'cpuUsagePercent', { name: 'CPU', threshold: 90, severity: 'WARNING', forMs: 30_000 }),
  share('memory', 'memoryUsagePercent', { name: 'Memory', threshold: 90, severity: 'WARNING', forMs: 30_000 }),
  share('disk', 'diskUsagePercent', { name: 'Disk', threshold: 80, severity: 'WARNING', forMs: 0 }),
  share('disk-full', 'diskUsagePercent', { name: 'Disk', threshold: 95, severity: 'CRITICAL', forMs: 0 }),
  connections('connections', 80, 'WARNING'),
  connections('connections-full', 95, 'CRITICAL'),
  flag('down', 'metricsAvailable', 'CRITICAL', 15_000, (metrics) => !metrics.metricsAvailable, ({ unavailableReason }) => `The database server does not answer: ${unavailableReason ?? 'no reason known'}`),
  flag('archive', 'archiveProblem', 'CRITICAL', 30_000, ({ metricsAvailable, archiveProblem }) => (metricsAvailable ? archiveProblem !== null : null), ({ archiveProblem }) => archiveProblem ?? 'The write-ahead log is archived again.'),
  flag('degraded', 'healthStatus', 'WARNING', 60_000, missingServer, (metrics) => `${runningServers(metrics)} of ${metrics.instanceCount} servers run`),
  {
    rule: 'transaction',
    metric: 'longestTransactionSeconds',
    severity: 'WARNING',
    threshold: 300,
    clearBelow: 270,
    forMs: 0,
    valueOf: ({ metricsAvailable, longestTransactionSeconds }) => (metricsAvailable ? (longestTransactionSeconds ?? 0) : null),
    message: (value) => `A transaction has been open for ${Math.round(value)} s`,
  },
] // biome-ignore format: a table

/**
 * Holds a point against the rules: answers the new state and the alerts that began or ended by it, one entry for each change.
 * Pure: the same points give the same alerts.
 */
export function evaluateAlerts(
  state: AlertState,
  metrics: Metrics,
  rules: readonly AlertRule[] = alertRules,
): { readonly state: AlertState; readonly changes: readonly Alert[] } {
  const at = Date.parse(metrics.timestamp)
  const results = rules.map((rule) => [rule.rule, step(rule, state[rule.rule], metrics, at)] as const)
  return {
    state: Object.fromEntries(results.map(([name, { next }]) => [name, next])),
    changes: results.flatMap(([, { change }]) => (change === null ? [] : [change])),
  }
}

interface Step {
  readonly next: RuleState
  readonly change: Alert | null
}

function step(
  rule: AlertRule,
  before: RuleState = { crossedSince: null, alert: null },
  metrics: Metrics,
  at: number,
): Step {
  const value = rule.valueOf(metrics)
  if (value === null) return { next: before, change: null }
  const firing = before.alert !== null
  const crossed = firing ? value < rule.clearBelow : value > rule.threshold
  if (!crossed) return { next: { ...before, crossedSince: null }, change: null }
  const crossedSince = before.crossedSince ?? at
  if (at - crossedSince < rule.forMs) return { next: { ...before, crossedSince }, change: null }
  if (before.alert === null) {
    const alert = begin(rule, value, metrics, at)
    return { next: { crossedSince: null, alert }, change: alert }
  }
  const ended: Alert = { ...before.alert, resolved: true, resolvedAt: metrics.timestamp }
  return { next: { crossedSince: null, alert: null }, change: ended }
}

function begin(rule: AlertRule, value: number, metrics: Metrics, at: number): Alert {
  return {
    id: `${rule.rule}-${metrics.projectId}-${Math.floor(at / 1000)}`,
    projectId: metrics.projectId,
    rule: rule.rule,
    severity: rule.severity,
    message: rule.message(value, metrics),
    metric: rule.metric,
    value: Math.round(value * 10) / 10,
    threshold: rule.threshold,
    timestamp: metrics.timestamp,
    resolved: false,
    resolvedAt: null,
  }
}
