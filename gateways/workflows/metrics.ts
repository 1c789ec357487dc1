import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { FastifyInstance } from 'fastify'
import { asking } from '../../bus/publish.ts'
import { projectionLag } from '../../projections/positions.ts'
import { durationBounds } from '../../projections/workflows/executions-tables.ts'
import { type Durations, type EndedTotals, endedTotals, liveCounts } from '../../projections/workflows/metrics-read.ts'
import { workflowProjection } from '../../projections/workflows/projection.ts'
import { histogramSamples, type Metric, metricText, samplesBy } from './metrics-text.ts'
import type { WorkflowService } from './service.ts'

/** Streams whose consumers do the engine's work. */
const workStreams = ['EVT_EXECUTIONS', 'BACKLOG', 'COMMANDS', 'TASKS', 'TIMERS'] as const
/** Counting is not repeated for every scraper. */
const keptMs = 15_000
const statuses = ['QUEUED', 'RUNNING', 'PAUSED', 'SUCCESS', 'FAILED', 'CANCELLED', 'TIMED_OUT'] as const

/** `GET /metrics`, also below `/api/v1`: how much there is to do and what was done. Source: Prometheus text format 0.0.4. */
export function metricsRoutes(app: FastifyInstance, service: WorkflowService): void {
  const delays = monitorEventLoopDelay({ resolution: 20 })
  delays.enable()
  app.addHook('onClose', async () => void delays.disable())
  let counted: { readonly at: number; readonly metrics: Promise<readonly Metric[]> } | null = null
  const counts = () => {
    if (counted === null || service.now() - counted.at > keptMs) {
      const metrics = count(service)
      counted = { at: service.now(), metrics }
      metrics.catch(() => {
        counted = null
      })
    }
    return counted.metrics
  }
  for (const prefix of ['', '/api/v1']) {
    app.get(`${prefix}/metrics`, { config: { role: 'public' } }, async (_request, reply) => {
      const metrics = [...(await counts()), ...processMetrics(delays.percentile(99) / 1e9)]
      return reply.type('text/plain; version=0.0.4; charset=utf-8').send(metrics.map(metricText).join(''))
    })
  }
}

async function count(service: WorkflowService): Promise<readonly Metric[]> {
  const { bus, database, plugins } = service
  const [live, ended, lag, dead] = await Promise.all([
    liveCounts(database),
    endedTotals(database),
    consumerLag(bus),
    asking(bus, () => bus.manager.streams.info('DEAD')),
  ])
  const none = Object.fromEntries(statuses.map((status) => [status, 0]))
  const executions = ended.filter(({ type }) => type === '')
  const tasks = ended.filter(({ type }) => type !== '')
  return [
    gauge('busbar_workflows_executions', 'Executions by status', byStatus(none, live.executions, executions)),
    gauge('busbar_workflows_tasks', 'Task runs by status', byStatus({}, live.tasks, tasks)),
    ...endedMetrics(executions, tasks),
    gauge('busbar_workflows_consumer_lag', 'Messages that wait for a consumer', lag),
    ...(await projectionMetrics(service)),
    gauge('busbar_dead_letters', 'Messages of the whole platform that were given up on', one(dead.state.messages)),
    gauge('busbar_workflows_plugins', 'Plugins that workers offer', one(plugins.all().length)),
  ]
}

/** Those that have not ended, and those that have. */
function byStatus(
  none: Readonly<Record<string, number>>,
  live: Readonly<Record<string, number>>,
  ended: readonly EndedTotals[],
): Metric['samples'] {
  const counts: Record<string, number> = { ...none, ...live }
  for (const { status, total } of ended) counts[status] = (counts[status] ?? 0) + total
  return samplesBy('status', counts)
}

/** How many have ended so far, and how long they took. */
function endedMetrics(executions: readonly EndedTotals[], tasks: readonly EndedTotals[]): readonly Metric[] {
  const histogram = (name: string, help: string, of: readonly EndedTotals[], label: 'status' | 'type'): Metric => {
    const samples = [...Map.groupBy(of, (each) => each[label])].flatMap(([value, totals]) =>
      histogramSamples({ [label]: value }, durationBounds, sumOf(totals)),
    )
    return { name, help, type: 'histogram', samples }
  }
  const ran = tasks.filter(({ status }) => status === 'SUCCESS' || status === 'FAILED')
  return [
    {
      name: 'busbar_workflows_executions_total',
      help: 'Executions that have ended',
      type: 'counter',
      samples: executions.map(({ status, total }) => ({ labels: { status }, value: total })),
    },
    {
      name: 'busbar_workflows_tasks_total',
      help: 'Task runs of executions that have ended',
      type: 'counter',
      samples: tasks.map(({ type, status, total }) => ({ labels: { type, status }, value: total })),
    },
    histogram('busbar_workflows_execution_duration_seconds', 'From the start to the end', executions, 'status'),
    histogram(
      'busbar_workflows_task_duration_seconds',
      'From the start to the end, by plugin, of executions that have ended',
      ran,
      'type',
    ),
  ]
}

function sumOf(totals: readonly Durations[]): Durations {
  const sum = (of: (each: Durations) => number) => totals.reduce((total, each) => total + of(each), 0)
  return {
    counts: durationBounds.map((_, index) => sum(({ counts }) => counts[index] ?? 0)),
    count: sum(({ count }) => count),
    sumSeconds: sum(({ sumSeconds }) => sumSeconds),
  }
}

async function projectionMetrics(service: WorkflowService): Promise<readonly Metric[]> {
  const lags = await projectionLag(service, workflowProjection)
  const by = (of: 'messages' | 'seconds') => lags.map(({ stream, [of]: value }) => ({ labels: { stream }, value }))
  return [
    gauge('busbar_workflows_projection_lag_messages', 'Messages that the read models do not hold', by('messages')),
    gauge('busbar_workflows_projection_lag_seconds', 'Age of the first of them', by('seconds')),
  ]
}

function gauge(name: string, help: string, samples: Metric['samples']): Metric {
  return { name, help, type: 'gauge', samples }
}

function one(value: number): Metric['samples'] {
  return [{ labels: {}, value }]
}

async function consumerLag(bus: WorkflowService['bus']): Promise<Metric['samples']> {
  const lag: Metric['samples'][number][] = []
  for (const stream of workStreams) {
    await asking(bus, async () => {
      for await (const { name, num_pending, config } of bus.manager.consumers.list(stream)) {
        if (config.durable_name !== undefined) lag.push({ labels: { stream, consumer: name }, value: num_pending })
      }
    })
  }
  return lag
}

function processMetrics(eventLoopP99: number): readonly Metric[] {
  const { user, system } = process.cpuUsage()
  return [
    {
      name: 'process_cpu_seconds_total',
      help: 'User and system processor time',
      type: 'counter',
      samples: one((user + system) / 1e6),
    },
    gauge('process_resident_memory_bytes', 'Resident memory', one(process.memoryUsage.rss())),
    gauge('process_start_time_seconds', 'Start, seconds since 1970', one(Date.now() / 1000 - process.uptime())),
    gauge('nodejs_eventloop_lag_p99_seconds', '99th percentile of the event loop lag', one(eventLoopP99)),
  ]
}
