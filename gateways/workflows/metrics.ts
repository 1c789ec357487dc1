import { monitorEventLoopDelay } from 'node:perf_hooks'
import type { FastifyInstance } from 'fastify'
import { asking } from '../../bus/publish.ts'
import { countByStatus, countTasksByStatus } from '../../projections/workflows/executions-read.ts'
import type { WorkflowService } from './service.ts'

interface Sample {
  readonly labels: Readonly<Record<string, string>>
  readonly value: number
}

interface Metric {
  readonly name: string
  readonly help: string
  readonly type: 'gauge' | 'counter'
  readonly samples: readonly Sample[]
}

/** Streams whose consumers do the engine's work. */
const workStreams = ['EVT_EXECUTIONS', 'COMMANDS', 'TASKS', 'TIMERS'] as const
/** Counting is not repeated for every scraper. */
const keptMs = 5_000
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
      return reply.type('text/plain; version=0.0.4; charset=utf-8').send(metrics.map(written).join(''))
    })
  }
}

async function count({ bus, database, plugins }: WorkflowService): Promise<readonly Metric[]> {
  const [executions, tasks, lag] = await Promise.all([
    countByStatus(database),
    countTasksByStatus(database),
    consumerLag(bus),
  ])
  const byStatus = Object.fromEntries(statuses.map((status) => [status, 0]))
  return [
    {
      name: 'busbar_workflows_executions',
      help: 'Executions by status',
      type: 'gauge',
      samples: samples('status', { ...byStatus, ...executions }),
    },
    { name: 'busbar_workflows_tasks', help: 'Task runs by status', type: 'gauge', samples: samples('status', tasks) },
    { name: 'busbar_workflows_consumer_lag', help: 'Messages that wait for a consumer', type: 'gauge', samples: lag },
    {
      name: 'busbar_workflows_plugins',
      help: 'Plugins that workers offer',
      type: 'gauge',
      samples: [{ labels: {}, value: plugins.all().length }],
    },
  ]
}

async function consumerLag(bus: WorkflowService['bus']): Promise<readonly Sample[]> {
  const lag: Sample[] = []
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
  const gauge = (name: string, help: string, value: number): Metric => {
    return { name, help, type: 'gauge', samples: [{ labels: {}, value }] }
  }
  const { user, system } = process.cpuUsage()
  const cpu = 'User and system processor time'
  return [
    {
      name: 'process_cpu_seconds_total',
      help: cpu,
      type: 'counter',
      samples: [{ labels: {}, value: (user + system) / 1e6 }],
    },
    gauge('process_resident_memory_bytes', 'Resident memory', process.memoryUsage.rss()),
    gauge('process_start_time_seconds', 'Start, seconds since 1970', Date.now() / 1000 - process.uptime()),
    gauge('nodejs_eventloop_lag_p99_seconds', '99th percentile of the event loop lag', eventLoopP99),
  ]
}

function samples(label: string, counts: Readonly<Record<string, number>>): readonly Sample[] {
  return Object.entries(counts).map(([name, value]) => ({ labels: { [label]: name }, value }))
}

function written({ name, help, type, samples }: Metric): string {
  const lines = samples.map(({ labels, value }) => {
    const pairs = Object.entries(labels).map(([key, text]) => `${key}="${text.replace(/[\\"\n]/g, escaped)}"`)
    return `${name}${pairs.length === 0 ? '' : `{${pairs.join(',')}}`} ${value}\n`
  })
  return `# HELP ${name} ${help}\n# TYPE ${name} ${type}\n${lines.join('')}`
}

function escaped(character: string): string {
  return character === '\n' ? '\\n' : `\\${character}`
}
