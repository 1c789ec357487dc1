import type { Bus } from '../../bus/connect.ts'
import { type FollowObservation, follow } from '../../bus/follow.ts'
import { type Instance, type InstanceState, instance } from '../../schemas/provisioning/instance.ts'
import { type GroupState, parameterGroup } from '../../schemas/provisioning/parameter-group.ts'
import { type AnswerObservation, answerQuestions } from './answers.ts'
import type { Driver } from './driver.ts'
import { type Keeper, type KeeperObservation, startKeeper } from './keeper.ts'

export type ProvisioningObservation = KeeperObservation | FollowObservation | AnswerObservation

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
  const groups = new Map<string, GroupState>()
  const groupOf = (name: string) => {
    const group = groups.get(name)
    return group?.stage === 'saved' ? group : undefined
  }
  const context = { bus, driver, groupOf, observeMs, onObservation, signal: stopping.signal }
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
  const groupFollower = await follow(bus, {
    stream: 'EVT_PROVISIONING',
    subject: 'evt.provisioning.parameter-group',
    aggregate: parameterGroup,
    onState(name, state) {
      groups.set(name, state)
      for (const [projectName, keeper] of states) {
        const found = known.get(projectName)
        if (found?.stage === 'wanted' && found.parameterGroup === name) keeper.look(false)
      }
    },
    onObservation,
  })
  const follower = await follow(bus, {
    stream: 'EVT_PROVISIONING',
    subject: 'evt.provisioning.instance',
    aggregate: instance,
    onState,
    onObservation,
  })
  const answering = await answerQuestions(
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
      await groupFollower.close()
      for (const keeper of states.values()) keeper.end()
      await Promise.all([...states.values()].map(({ ended }) => ended))
      await driver.close()
    },
  }
}
