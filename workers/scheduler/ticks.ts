import type { Bus } from '../../bus/connect.ts'
import { type ConsumeObservation, consume } from '../../bus/consume.ts'
import { decide } from '../../bus/decide.ts'
import { factsHeader, readJson } from '../../bus/envelope.ts'
import { load } from '../../bus/load.ts'
import { dueSubjects, eventSubject, unescapeToken } from '../../bus/subject.ts'
import { setTimer, timerDelivery } from '../../bus/timers.ts'
import { flow } from '../../schemas/workflows/flow.ts'
import {
  decideFired,
  type SavedTrigger,
  TriggerEnabled,
  TriggerSaved,
  trigger,
} from '../../schemas/workflows/trigger.ts'
import {
  dueTicks,
  isTimed,
  nextTriggerTick,
  type TriggerTick,
  tickPurpose,
} from '../../schemas/workflows/trigger-ticks.ts'
import { fireTrigger, type RefusedObservation } from './fire.ts'
import { liveTrigger, triggerPlace, triggerStream } from './trigger-view.ts'

export interface TicksOptions {
  /** How late a tick is before it counts as missed. Default 10,000. */
  readonly graceMs?: number
  readonly onObservation: (observation: ConsumeObservation | RefusedObservation) => void
}

/**
 * Starts executions at the ticks of cron and interval triggers: a timer for the next tick of each, carried by the bus, and an execution
 * whose id is made of trigger and tick. What was missed follows the trigger's `onMissed`.
 */
export async function serveTicks(bus: Bus, options: TicksOptions, signal: AbortSignal): Promise<void> {
  const { onObservation } = options
  const schedule = consume(
    bus,
    {
      stream: triggerStream,
      consumer: 'workers-scheduler-triggers',
      subjects: ['evt.workflows.trigger.*'],
      // The first tick after a change is not to be late either.
      ...timerDelivery,
      handle: async ({ subject, headers }) => {
        const facts = headers.get(factsHeader)
        if (!facts.includes(TriggerSaved.type) && !facts.includes(TriggerEnabled.type)) return
        // By the newest state, whatever message is being handled: a timer that is there is set to the same time again.
        const state = await liveTrigger(bus, unescapeToken(subject.slice(subject.lastIndexOf('.') + 1)))
        if (state !== null) await setNext(bus, state)
      },
      onObservation,
    },
    signal,
  )
  const ticks = consume(
    bus,
    {
      stream: 'TIMERS',
      consumer: 'workers-scheduler-ticks',
      subjects: [dueSubjects(tickPurpose)],
      concurrency: 64,
      ...timerDelivery,
      handle: ({ data }) => takeTick(bus, readJson(data) as TriggerTick, options),
      onObservation,
    },
    signal,
  )
  await Promise.all([schedule, ticks])
}

async function takeTick(bus: Bus, tick: TriggerTick, { graceMs, onObservation }: TicksOptions): Promise<void> {
  const { triggerId, version, at } = tick
  const state = await liveTrigger(bus, triggerId)
  // Another timer was set for what it has become.
  if (state === null || state.version !== version || !(await hasFlow(bus, state))) return
  // The bus's clock may be ahead of ours.
  const now = Math.max(Date.now(), at)
  const { run, last } = dueTicks(state, now, graceMs)
  let executionId: string | null = null
  for (const [index, time] of run.entries()) {
    const next = nextTriggerTick(state, time)
    const brings = {
      date: iso(time),
      next: next === null ? null : iso(next),
      previous: index === 0 ? state.lastTick && iso(state.lastTick) : iso(run[index - 1]!),
    }
    executionId = await fireTrigger(bus, state, { cause: String(time), brings, at: Date.now() }, onObservation)
  }
  if (last === null) return await setNext(bus, state)
  const fired = await decide(bus, {
    ...triggerPlace(triggerId),
    aggregate: trigger,
    actor: 'busbar',
    decide: (before) => decideFired(before, { version, tick: last, executionId, at: Date.now() }),
  })
  if (fired.state.stage === 'saved' && fired.state.version === version) await setNext(bus, fired.state)
}

/** Timers of what the trigger was before go off and are void: its version is in their name. */
async function setNext(bus: Bus, state: SavedTrigger): Promise<void> {
  if (!isTimed(state.saved)) return
  const { triggerId } = state.saved
  const at = nextTriggerTick(state, Math.max(state.since, state.lastTick ?? 0))
  if (at === null) return
  const body: TriggerTick = { triggerId, version: state.version, at }
  await setTimer(bus, { purpose: tickPurpose, id: `${triggerId}/${state.version}`, at, body })
}

/** A flow that is deleted does not come back; one that is disabled may. */
async function hasFlow(bus: Bus, { saved }: SavedTrigger): Promise<boolean> {
  const place = { stream: triggerStream, subject: eventSubject('workflows', 'flow', saved.flowId) }
  return (await load(bus, flow, place)).state.stage === 'saved'
}

function iso(at: number): string {
  return new Date(at).toISOString()
}
