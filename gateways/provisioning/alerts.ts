import type { FastifyInstance } from 'fastify'
import type { Bus } from '../../bus/connect.ts'
import { type FollowObservation, follow } from '../../bus/follow.ts'
import { type Alert, type AlertsState, alerts } from '../../schemas/provisioning/alerts.ts'
import { queryOf } from '../http/request.ts'
import { limitOf } from './metrics.ts'
import { existing } from './operations.ts'
import type { ByProject } from './request.ts'
import type { ProvisioningService } from './service.ts'

const history = { standard: 100, max: 1_000 }

/** What is wrong with instances, and was. */
export function alertRoutes(app: FastifyInstance, service: ProvisioningService): void {
  app.get('/api/alerts', async () => {
    const there = [...service.alerts].filter(([projectId]) => service.instances.get(projectId).stage === 'wanted')
    return newestFirst(there.flatMap(([, { active }]) => active))
  })
  app.get('/api/alerts/history', async (request) => {
    const limit = limitOf(queryOf(request, ['limit']), history)
    const all = [...service.alerts.values()].flatMap((each) => [...each.active, ...each.history])
    return newestFirst(all).slice(0, limit)
  })
  app.get<ByProject>('/api/alerts/project/:projectId', async (request) => {
    const { projectId } = request.params
    existing(service, projectId)
    const found = service.alerts.get(projectId) ?? alerts.initial
    return newestFirst([...found.active, ...found.history])
  })
}

function newestFirst(all: readonly Alert[]): readonly Alert[] {
  return all.toSorted((left, right) => right.timestamp.localeCompare(left.timestamp))
}

/** The alerts of every instance, kept up to date. @throws {BusUnavailable} when it cannot begin */
export async function openAlerts(bus: Bus, onObservation: (observation: FollowObservation) => void) {
  const known = new Map<string, AlertsState>()
  const follower = await follow(bus, {
    stream: 'EVT_PROVISIONING',
    subject: 'evt.provisioning.alerts',
    aggregate: alerts,
    onState: (projectName, state) => void known.set(projectName, state),
    onObservation,
  })
  return { alerts: known as ReadonlyMap<string, AlertsState>, close: () => follower.close() }
}
