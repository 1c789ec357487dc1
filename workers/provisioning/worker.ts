import { setTimeout as sleep } from 'node:timers/promises'
import type { Bus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { type FollowObservation, follow } from '../../bus/follow.ts'
import {
  decideHealth,
  decideOperation,
  type Instance,
  type InstanceState,
  instance,
  isUnderWay,
} from '../../schemas/provisioning/instance.ts'
import { type AnswerObservation, answerQuestions } from './answers.ts'
import type { Driver, Observed } from './driver.ts'
import { explain } from './explain.ts'
import { instancePlace, type RunnerObservation, runOperation } from './runner.ts'
import { scheduler } from './schedule.ts'
import { type Watch, type WatchObservation, watchInstance } from './watching.ts'

export type ProvisioningObservation =
  | RunnerObservation
  | FollowObservation
  | AnswerObservation
  | WatchObservation
  | {
      readonly type: 'instance-health'
      readonly projectId: string
      readonly health: string
      readonly reason: string | null
    }
  | { readonly type: 'instance-trouble'; readonly projectId: string; readonly error: unknown }

export interface ProvisioningWorkerOptions {
  readonly bus: Bus
  /** Makes the driver; it is told how to see what instances there are, and to say that one has to be looked at now. */
  readonly driver: (view: InstanceView) => Promise<Driver>
  /** Between two looks at the health of an instance, and between two measurements. Default 5,000. */
  readonly observeMs?: number
  readonly onObservation: (observation: ProvisioningObservation) => void
}

export interface InstanceView {
  /** Those this place looks after, and those that nobody does yet. */
  instances(): readonly Instance[]
  /** Something happened to the servers of an instance. */
  look(uid: string): void
  /** What looked after the servers has gone, and they with it: they are to be started again. */
  startAll(): void
}

const defaultObserveMs = 5_000
const retryMs = 2_000

/**
 * Makes what is recorded of instances true: runs their operations, starts their servers, watches their health.
 * @throws {BusUnavailable} when it cannot begin
 */
export async function startProvisioningWorker(options: ProvisioningWorkerOptions): Promise<{ stop(): Promise<void> }> {
  const { bus, onObservation, observeMs = defaultObserveMs } = options
  const stopping = new AbortController()
  const states = new Map<string, Keeper>()
  const known = new Map<string, InstanceState>()
  const view: InstanceView = {
    instances: () => [...known.values()].filter((state) => state.stage === 'wanted'),
    look: (uid) => {
      for (const keeper of states.values()) if (keeper.uid === uid) keeper.look(false)
    },
    startAll: () => {
      for (const keeper of states.values()) keeper.look(true)
    },
  }
  const driver = await options.driver(view)
  const context = { bus, driver, observeMs, onObservation, signal: stopping.signal }
  const onState = (projectName: string, state: InstanceState) => {
    known.set(projectName, state)
    const mine = state.stage === 'wanted' && (state.place === null || state.place === driver.place)
    const keeper = states.get(projectName)
    if (mine && keeper?.uid === state.uid) keeper.tell(state)
    else if (mine) {
      keeper?.end()
      states.set(projectName, startKeeper(context, state, keeper?.ended))
    }
    if (!mine) keeper?.end()
  }
  const follower = await follow(bus, {
    stream: 'EVT_PROVISIONING',
    subject: 'evt.provisioning.instance',
    aggregate: instance,
    onState,
    onObservation,
  })
  const answering = answerQuestions(
    bus,
    {
      driver,
      stateOf: (projectName) => known.get(projectName) ?? instance.initial,
      watchOf: (projectName) => states.get(projectName)?.watch() ?? null,
    },
    onObservation,
  )
  return {
    async stop() {
      stopping.abort()
      answering.stop()
      await follower.close()
      for (const keeper of states.values()) keeper.end()
      await Promise.all([...states.values()].map(({ ended }) => ended))
      await driver.close()
    },
  }
}

interface KeeperContext {
  readonly bus: Bus
  readonly driver: Driver
  readonly observeMs: number
  readonly onObservation: (observation: ProvisioningObservation) => void
  readonly signal: AbortSignal
}

/** Looks after one instance. */
interface Keeper {
  readonly uid: string
  tell(state: Instance): void
  /** @param down whether its servers may have to be started */
  look(down: boolean): void
  /** Null while there is nothing to measure. */
  watch(): Watch | null
  end(): void
  readonly ended: Promise<void>
}

function startKeeper(context: KeeperContext, first: Instance, before: Promise<void> = Promise.resolve()): Keeper {
  const { bus, driver, onObservation, observeMs } = context
  const { uid, projectName } = first
  const own = new AbortController()
  const signal = AbortSignal.any([context.signal, own.signal])
  let state = first
  let wake = Promise.withResolvers<void>()
  let up = false
  let watching: Watch | null = null
  const schedule = scheduler(context)
  const run = async () => {
    await before
    while (!signal.aborted) {
      wake = Promise.withResolvers()
      try {
        if (isUnderWay(state.operation)) {
          up = false
          if (state.operation.type === 'DELETE') {
            await watching?.[Symbol.asyncDispose]()
            watching = null
          }
          await runOperation({ bus, driver, onObservation, explain }, projectName, signal)
        } else if (state.created && state.place === driver.place) {
          if (!up) await driver.bringUp(state, signal)
          up = true
          watching ??= watchInstance({ bus, driver }, { state: () => state, everyMs: observeMs }, onObservation)
          await watch(context, state, await driver.observe(state, signal))
          await schedule(state, Date.now())
        }
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
      if (down) up = false
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

/** Records what has changed; what the driver wants done is begun. */
async function watch({ bus, onObservation }: KeeperContext, found: Instance, seen: Observed): Promise<void> {
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
