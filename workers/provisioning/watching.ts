import type { Bus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { load } from '../../bus/load.ts'
import { eventSubject, metricSubject } from '../../bus/subject.ts'
import { alerts, decideAlerts } from '../../schemas/provisioning/alerts.ts'
import type { Instance } from '../../schemas/provisioning/instance.ts'
import type { Driver } from './driver.ts'
import { type AlertState, evaluateAlerts } from './local/metrics/alerts.ts'
import type { Metrics } from './local/metrics/metrics.ts'
import { InstanceSampler } from './local/metrics/sampler.ts'

export type WatchObservation =
  | { readonly type: 'instance-alert'; readonly projectId: string; readonly rule: string; readonly resolved: boolean }
  | { readonly type: 'instance-not-measured'; readonly projectId: string; readonly error: unknown }

export interface Watch extends AsyncDisposable {
  current(): Promise<Metrics | undefined>
  /** The newest last. */
  history(limit: number): readonly Metrics[]
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
  const subject = metricSubject('instance', projectName)
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
    if (bus.connected) bus.connection.publish(subject, JSON.stringify(metrics))
    judging = judging.then(() => judge(metrics)).catch(onError)
  })
  return {
    current: () => sampler.current(),
    history: (limit) => sampler.history(limit),
    async [Symbol.asyncDispose]() {
      await sampler[Symbol.asyncDispose]()
      await judging
      driver.forget(uid)
    },
  }
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
