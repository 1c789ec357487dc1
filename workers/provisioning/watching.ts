import type { Bus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { load } from '../../bus/load.ts'
import { asking, natsHeaders } from '../../bus/publish.ts'
import { eventSubject, metricSubject } from '../../bus/subject.ts'
import { keptSamples } from '../../bus/topology.ts'
import { alerts, decideAlerts } from '../../schemas/provisioning/alerts.ts'
import type { Instance } from '../../schemas/provisioning/instance.ts'
import { measuredHeader, metricStream } from '../../schemas/provisioning/metric-point.ts'
import type { Driver } from './driver.ts'
import { type AlertState, evaluateAlerts } from './local/metrics/alerts.ts'
import type { Metrics } from './local/metrics/metrics.ts'
import { InstanceSampler } from './local/metrics/sampler.ts'

export type WatchObservation =
  | { readonly type: 'instance-alert'; readonly projectId: string; readonly rule: string; readonly resolved: boolean }
  | { readonly type: 'instance-not-measured'; readonly projectId: string; readonly error: unknown }

export interface Watch extends AsyncDisposable {
  current(): Promise<Metrics | undefined>
}

function alertsPlace(projectName: string) {
  return { stream: 'EVT_PROVISIONING', subject: eventSubject('provisioning', 'alerts', projectName) }
}

/** Measures an instance again and again: each point goes to `metric.instance.<projectName>`, what is wrong becomes an alert. */
export function watchInstance(
  { bus, driver }: { readonly bus: Bus; readonly driver: Driver },
  { state, everyMs }: { readonly state: () => Instance; readonly everyMs: number },
  onObservation: (observation: WatchObservation) => void,
): Watch {
  const { projectName, uid, createdAt } = state()
  const tell = teller(bus, { projectName, uid })
  let known: AlertState | null = null
  let judging = Promise.resolve()
  const onError = (error: unknown) => onObservation({ type: 'instance-not-measured', projectId: projectName, error })
  const sampler = new InstanceSampler({ look: () => driver.measure(state()), everyMs, onError })
  const judge = async (metrics: Metrics) => {
    known ??= await activeAlerts(bus, projectName, createdAt)
    const { state: next, changes } = evaluateAlerts(known, metrics)
    if (changes.length > 0) {
      const place = { ...alertsPlace(projectName), aggregate: alerts, actor: 'busbar' }
      await decide(bus, { ...place, decide: (before) => decideAlerts(before, changes) })
      for (const { rule, resolved } of changes) {
        onObservation({ type: 'instance-alert', projectId: projectName, rule, resolved })
      }
    }
    known = next
  }
  sampler.listen((metrics) => {
    tell(metrics)
    judging = judging.then(() => judge(metrics)).catch(onError)
  })
  return {
    current: () => sampler.current(),
    async [Symbol.asyncDispose]() {
      await sampler[Symbol.asyncDispose]()
      await judging
      driver.forget(uid)
    },
  }
}

/** Publishes points: those who listen hear them, and the stream keeps them. While the bus is away they wait, the newest of them. */
function teller(bus: Bus, { projectName, uid }: Pick<Instance, 'projectName' | 'uid'>): (metrics: Metrics) => void {
  const subject = metricSubject('instance', projectName)
  const headers = natsHeaders({ [measuredHeader]: uid })
  const waiting: string[] = []
  return (metrics) => {
    waiting.push(JSON.stringify(metrics))
    if (waiting.length > keptSamples) waiting.shift()
    if (!bus.connected) return
    for (const point of waiting.splice(0)) bus.connection.publish(subject, point, { headers })
  }
}

/** Of an instance that is no more no points are left. @throws {BusUnavailable} */
export async function forgetPoints(bus: Bus, projectName: string): Promise<void> {
  const filter = metricSubject('instance', projectName)
  await asking(bus, () => bus.manager.streams.purge(metricStream, { filter }))
}

/** What an earlier worker has told is not told again; what was told of an earlier instance of the name is over. */
async function activeAlerts(bus: Bus, projectName: string, createdAt: number): Promise<AlertState> {
  await endAlerts(bus, projectName, createdAt)
  const { state } = await load(bus, alerts, alertsPlace(projectName))
  return Object.fromEntries(state.active.map((alert) => [alert.rule, { crossedSince: null, alert }]))
}

/** Of an instance that is no more nothing is wrong. @param before only what began before, epoch ms */
export async function endAlerts(bus: Bus, projectName: string, before = Number.POSITIVE_INFINITY): Promise<void> {
  const resolvedAt = new Date().toISOString()
  await decide(bus, {
    ...alertsPlace(projectName),
    aggregate: alerts,
    actor: 'busbar',
    decide: (state) => {
      const over = state.active.filter(({ timestamp }) => Date.parse(timestamp) < before)
      return decideAlerts(state, over.map((alert) => ({ ...alert, resolved: true, resolvedAt }))) // biome-ignore format: one call
    },
  })
}
