import { setTimeout as sleep } from 'node:timers/promises'
import type { Bus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { load } from '../../bus/load.ts'
import { decideHealth, decideOperation, type Instance, instance } from '../../schemas/provisioning/instance.ts'
import { isUnderWay } from '../../schemas/provisioning/operation.ts'
import type { SavedGroup } from '../../schemas/provisioning/parameter-group.ts'
import type { Driver, Observed } from './driver.ts'
import { explain } from './explain.ts'
import { instancePlace, type RunnerObservation, runOperation } from './runner.ts'
import { scheduler } from './schedule.ts'
import { endAlerts, type Watch, type WatchObservation, watchInstance } from './watching.ts'

export type KeeperObservation =
  | RunnerObservation
  | WatchObservation
  | {
      readonly type: 'instance-health'
      readonly projectId: string
      readonly health: string
      readonly reason: string | null
    }
  | { readonly type: 'instance-trouble'; readonly projectId: string; readonly error: unknown }

export interface KeeperContext {
  readonly bus: Bus
  readonly driver: Driver
  readonly groupOf: (name: string) => SavedGroup | undefined
  /** Between two looks. */
  readonly observeMs: number
  readonly onObservation: (observation: KeeperObservation) => void
  readonly signal: AbortSignal
}

/** Looks after one instance. */
export interface Keeper {
  readonly uid: string
  tell(state: Instance): void
  /** @param down whether its servers may have to be started */
  look(down: boolean): void
  /** Null while there is nothing to measure. */
  watch(): Watch | null
  end(): void
  readonly ended: Promise<void>
}

const retryMs = 2_000

/** Runs an instance's operations; between them its servers are kept running, looked at and measured. Begins once `before` has ended. */
export function startKeeper(
  context: KeeperContext,
  first: Instance,
  before: Promise<void> = Promise.resolve(),
): Keeper {
  const { bus, driver, onObservation, observeMs } = context
  const { uid, projectName } = first
  const own = new AbortController()
  const signal = AbortSignal.any([context.signal, own.signal])
  let state = first
  let wake = Promise.withResolvers<void>()
  let up = false
  /** How often all servers went. */
  let ends = 0
  let watching: Watch | null = null
  const schedule = scheduler(context)
  const operate = async () => {
    up = false
    if (state.operation.type === 'DELETE') {
      await watching?.[Symbol.asyncDispose]()
      watching = null
    }
    const done = new AbortController()
    const guarding = guard(AbortSignal.any([signal, done.signal]))
    try {
      await runOperation({ bus, driver, onObservation, explain }, projectName, signal)
    } finally {
      done.abort()
      await guarding
      // Once the instance is gone, so is the signal.
      if (state.operation.type === 'DELETE') {
        const onError = (error: unknown) => onObservation({ type: 'instance-trouble', projectId: projectName, error })
        await endAlertsOfGone(bus, projectName).catch(onError)
      }
    }
  }
  const guard = async (until: AbortSignal) => {
    while (!until.aborted) {
      await sleep(observeMs, undefined, { signal: until }).catch(() => undefined)
      if (!until.aborted) await driver.guard(state).catch(() => undefined)
    }
  }
  const keep = async () => {
    const endsBefore = ends
    const failure = up ? null : await startFailure(driver, state, signal)
    watching ??= watchInstance({ bus, driver }, { state: () => state, everyMs: observeMs }, onObservation)
    const { seen, trouble } = await observed(driver, state, failure, signal)
    // They may have gone while they were started.
    up = failure === null && seen.ended !== true && ends === endsBefore
    await record(context, state, seen)
    if (trouble !== null) throw trouble
    await schedule(state, Date.now())
  }
  const run = async () => {
    await before
    while (!signal.aborted) {
      wake = Promise.withResolvers()
      try {
        if (isUnderWay(state.operation)) await operate()
        else if (state.created && state.place === driver.place) await keep()
      } catch (error) {
        if (signal.aborted) break
        up = false
        onObservation({ type: 'instance-trouble', projectId: projectName, error })
        await sleep(retryMs, undefined, { signal }).catch(() => undefined)
        continue
      }
      await Promise.race([wake.promise, sleep(observeMs, undefined, { signal }).catch(() => undefined)])
    }
    await watching?.[Symbol.asyncDispose]()
  }
  return {
    uid,
    tell(next) {
      const fresh = next.operation.id !== state.operation.id || next.operation.state !== state.operation.state
      state = next
      if (fresh) wake.resolve()
    },
    look(down) {
      if (down) {
        ends++
        up = false
      }
      wake.resolve()
    },
    watch: () => watching,
    end() {
      own.abort()
      wake.resolve()
    },
    ended: run(),
  }
}

async function endAlertsOfGone(bus: Bus, projectName: string): Promise<void> {
  const { state } = await load(bus, instance, instancePlace(projectName))
  if (state.stage === 'deleted') await endAlerts(bus, projectName)
}

/** Why the servers cannot be started; null: they run. @throws what the signal was aborted with */
async function startFailure(driver: Driver, state: Instance, signal: AbortSignal): Promise<Error | null> {
  try {
    await driver.bringUp(state, signal)
    return null
  } catch (error) {
    signal.throwIfAborted()
    return error as Error
  }
}

interface Seen {
  readonly seen: Observed
  /** Why it cannot be looked after as it should. */
  readonly trouble: Error | null
}

/** How an instance is; one that cannot be started, or looked at, says why. */
async function observed(driver: Driver, state: Instance, failure: Error | null, signal: AbortSignal): Promise<Seen> {
  try {
    const seen = await driver.observe(state, signal)
    const why = failure !== null && seen.health === 'DOWN' ? { reason: explain(failure).message } : {}
    return { seen: { ...seen, ...why }, trouble: failure }
  } catch (error) {
    signal.throwIfAborted()
    const trouble = failure ?? (error as Error)
    return { seen: { health: 'DOWN', reason: explain(trouble).message }, trouble }
  }
}

/** Records what has changed; what the driver wants done is begun. */
async function record({ bus, onObservation }: KeeperContext, found: Instance, seen: Observed): Promise<void> {
  const { projectName, uid } = found
  const place = { ...instancePlace(projectName), aggregate: instance, actor: 'busbar' }
  const decided = await decide(bus, { ...place, decide: (state) => decideHealth(state, uid, seen, Date.now()) })
  if (decided.facts.length > 0) {
    onObservation({ type: 'instance-health', projectId: projectName, health: seen.health, reason: seen.reason })
  }
  const { wants } = seen
  if (wants === undefined) return
  const at = Date.now()
  const id = `${wants.type.toLowerCase()}-${at}`
  await decide(bus, {
    ...place,
    decide: (state) =>
      state.stage === 'wanted' && state.uid === uid && !isUnderWay(state.operation)
        ? decideOperation(state, projectName, { id, ...wants, by: 'busbar', at })
        : [],
  })
}
