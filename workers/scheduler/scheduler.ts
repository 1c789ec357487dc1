import type { Bus } from '../../bus/connect.ts'
import type { ConsumeObservation } from '../../bus/consume.ts'
import type { FollowObservation } from '../../bus/follow.ts'
import { serveBatches } from './batches.ts'
import { openChangeTriggers, type WatchedChanges } from './change-triggers.ts'
import { serveDeclared } from './declared.ts'
import type { RefusedObservation } from './fire.ts'
import { serveFlowTriggers } from './flow-triggers.ts'
import { SubjectTriggers } from './subject-triggers.ts'
import { type FindIdle, type SweeperOptions, sweep } from './sweeper.ts'
import { serveTicks } from './ticks.ts'
import { openTriggerView, type TriggerView } from './trigger-view.ts'

export type SchedulerObservation =
  | ConsumeObservation
  | FollowObservation
  | RefusedObservation
  | Parameters<SweeperOptions['onObservation']>[0]

export interface SchedulerOptions extends WatchedChanges {
  readonly bus: Bus
  /** Absent: nothing is swept. */
  readonly findIdle?: FindIdle
  /** How often idle executions are looked for, and after what time they are idle. Defaults 5,000 and 60,000. */
  readonly sweepEveryMs?: number
  readonly idleMs?: number
  /** How late a tick is before it counts as missed. Default 10,000. */
  readonly graceMs?: number
  readonly onObservation: (observation: SchedulerObservation) => void
}

export interface Scheduler {
  /** Finishes or hands back what is in flight. */
  stop(): Promise<void>
}

/**
 * Starts executions for the triggers of flows, and has the engine look at those of which nothing is heard. Any number of schedulers share
 * the work: an execution's id is made of what it is started for.
 *
 * @throws {BusUnavailable} when it cannot begin.
 */
export async function startScheduler(options: SchedulerOptions): Promise<Scheduler> {
  const { bus, findIdle, sweepEveryMs, idleMs, graceMs, onObservation } = options
  const stopping = new AbortController()
  const { signal } = stopping
  let view: TriggerView | null = null
  const opened = () => view!
  const changes = openChangeTriggers(bus, opened, options, onObservation, signal)
  const subjects = new SubjectTriggers(bus, opened, onObservation)
  const update = () => {
    if (view === null) return
    changes.update()
    subjects.update()
  }
  view = await openTriggerView(bus, update, onObservation)
  update()
  const work = [
    serveTicks(bus, { ...(graceMs !== undefined && { graceMs }), onObservation }, signal),
    serveDeclared(bus, view, onObservation, signal),
    serveFlowTriggers(bus, view, onObservation, signal),
    serveBatches(bus, onObservation, signal),
  ]
  if (findIdle !== undefined) {
    const times = {
      ...(sweepEveryMs !== undefined && { everyMs: sweepEveryMs }),
      ...(idleMs !== undefined && { idleMs }),
    }
    work.push(sweep(bus, { findIdle, ...times, onObservation }, signal))
  }
  return {
    async stop() {
      stopping.abort()
      await Promise.all([...work, changes.ended(), subjects.close()])
      await opened().close()
    },
  }
}
