import type { Subscription } from '@nats-io/nats-core'
import type { FastifyInstance } from 'fastify'
import { readPage } from '../../bus/page.ts'
import { asking } from '../../bus/publish.ts'
import { metricSubject } from '../../bus/subject.ts'
import { keptSamples } from '../../bus/topology.ts'
import { Rejected } from '../../schemas/failure.ts'
import type { Instance } from '../../schemas/provisioning/instance.ts'
import { measuredHeader, metricStream } from '../../schemas/provisioning/metric-point.ts'
import { bodyOf, queryOf } from '../http/request.ts'
import { eventText, openEventStream } from '../http/sse.ts'
import { linesOf } from './changes.ts'
import { answerable, askOf, existing, operate, replyInstance } from './operations.ts'
import { type ByProject, waitOf, writtenNumber } from './request.ts'
import type { ProvisioningService } from './service.ts'

const retryMs = 5_000
const beatMs = 15_000
const maxStreams = 1_000
/** What one client may leave untaken. */
const maxUnsentBytes = 256 * 1024
/** Until statements are counted or written down the server is started anew. */
const enableSeconds = 60

/** Numbers of an instance: now, lately, as they come; its statements and what they wait for; its audit log. */
export function metricsRoutes(app: FastifyInstance, service: ProvisioningService): void {
  app.get<ByProject>('/api/provision/:projectId/metrics/current', async (request) => {
    return await current(service, request.params.projectId)
  })
  app.get<ByProject>('/api/provision/:projectId/metrics/history', async (request) => {
    const { projectId } = request.params
    const limit = limitOf(queryOf(request, ['limit']), { standard: 50, max: keptSamples })
    const metrics = await lately(service, answerable(service, projectId), limit)
    return { projectId, metrics, totalPoints: metrics.length }
  })
  streamRoute(app, service)
  app.get<ByProject>('/api/provision/:projectId/performance/summary', async (request) => {
    return await askOf<object>(service, request.params.projectId, 'performance-summary')
  })
  app.get<ByProject>('/api/provision/:projectId/performance/top-queries', async (request) => {
    const limit = limitOf(queryOf(request, ['limit']), { standard: 10, max: 100 })
    return await askOf<readonly object[]>(service, request.params.projectId, 'top-queries', { limit })
  })
  app.get<ByProject>('/api/provision/:projectId/performance/wait-events', async (request) => {
    return await askOf<readonly object[]>(service, request.params.projectId, 'wait-events')
  })
  for (const [path, type] of [
    ['performance/enable', 'ENABLE_QUERY_STATS'],
    ['audit/enable', 'ENABLE_AUDIT'],
  ] as const) {
    app.post<ByProject>(`/api/provision/:projectId/${path}`, async (request, reply) => {
      const { projectId } = request.params
      bodyOf(request, [])
      const seconds = waitOf(queryOf(request, ['wait']), enableSeconds)
      await askOf(service, projectId, 'check-operation', { type })
      const settled = await operate(service, { request, reply }, projectId, { type }, seconds)
      if (settled.state !== 'SUCCEEDED') return replyInstance(service, reply, projectId, settled)
      const { audit } = existing(service, projectId)
      return { status: 'enabled', ...(type === 'ENABLE_AUDIT' && { mode: audit }) }
    })
  }
  app.get<ByProject>('/api/provision/:projectId/audit/logs', async (request) => {
    return await askOf<object>(service, request.params.projectId, 'audit-logs', { lines: linesOf(request) })
  })
  app.get<ByProject>('/api/provision/:projectId/audit/config', async (request) => {
    return await askOf<object>(service, request.params.projectId, 'audit-config')
  })
}

/** `?limit=`; more than there is to have is as much as there is. @throws {Rejected} `http/bad-request` */
export function limitOf(
  { limit }: { readonly limit?: string },
  { standard, max }: { readonly standard: number; readonly max: number },
): number {
  return limit === undefined ? standard : Math.min(max, writtenNumber('limit', limit, { min: 1, max: 1_000_000 }))
}

async function current(service: ProvisioningService, projectId: string): Promise<object> {
  const metrics = await askOf<object | null>(service, projectId, 'metrics')
  if (metrics !== null) return metrics
  throw new Rejected('provisioning/invalid-state', `${projectId} has no metrics yet`, {
    hint: 'Wait until its status is ACTIVE.',
  })
}

/** The newest points of an instance, the newest last, whoever measured them. @throws {BusUnavailable} */
async function lately(
  { bus }: ProvisioningService,
  { projectName, uid }: Instance,
  limit: number,
): Promise<readonly unknown[]> {
  const query = { seq: 1, next_by_subj: metricSubject('instance', projectName), batch: keptSamples }
  const points = await asking(bus, () => readPage(bus, metricStream, query))
  const own = points.filter(({ header }) => header.get(measuredHeader) === uid)
  return own.slice(-limit).map((point) => point.json())
}

function streamRoute(app: FastifyInstance, service: ProvisioningService): void {
  let streams = 0
  const open = new Set<() => void>()
  app.addHook('preClose', async () => {
    for (const end of open) end()
  })
  app.get<ByProject>('/api/provision/:projectId/metrics/stream', async (request, reply) => {
    const { projectId } = request.params
    if (streams >= maxStreams) throw new Rejected('http/too-many-requests', 'Too many metrics streams are open')
    streams++
    // An instance that is not measured refuses before the stream begins.
    const first = await current(service, projectId).catch((error: unknown) => {
      streams--
      throw error
    })
    const stream = openEventStream(reply, { retryMs })
    let id = 0
    const send = (data: string) => {
      if (stream.unsentBytes > maxUnsentBytes) end()
      else stream.write(eventText('metrics', data, ++id))
    }
    const subscription: Subscription = service.bus.connection.subscribe(metricSubject('instance', projectId), {
      callback: (error, message) => {
        if (error === null) send(message.string())
      },
    })
    const beat = setInterval(() => stream.beat(), beatMs)
    const unwatch = service.instances.onChange((name, state) => {
      if (name === projectId && state.stage !== 'wanted') end()
    })
    const end = () => stream.end('')
    open.add(end)
    stream.onClose(() => {
      streams--
      open.delete(end)
      clearInterval(beat)
      unwatch()
      subscription.unsubscribe()
    })
    send(JSON.stringify(first))
  })
}
