import { Value } from 'typebox/value'
import type { Bus } from '../../bus/connect.ts'
import { type ConsumeObservation, consume } from '../../bus/consume.ts'
import { factsHeader } from '../../bus/envelope.ts'
import type { Delivery } from '../../bus/handle.ts'
import { load } from '../../bus/load.ts'
import { dueSubjects, eventSubject, unescapeToken } from '../../bus/subject.ts'
import { setTimer } from '../../bus/timers.ts'
import { nextTick } from '../../schemas/cron.ts'
import { type DeployedState, functionAggregate, placed } from '../../schemas/functions/function.ts'
import { callTarget } from '../../schemas/functions/target.ts'
import { type CronTrigger, isCron, Tick, tickPurpose } from '../../schemas/functions/trigger.ts'
import { triggerInvocation } from './invocations.ts'
import { functionKv } from './kv.ts'

const stream = 'EVT_FUNCTIONS'

/**
 * Calls functions at the times of their cron triggers, each tick once: the tick's timer carries its time, the call's id is made of it. A
 * tick that was missed is made up for once, when the bus is back; those behind it are skipped. What a deleted function kept is forgotten.
 */
export async function serveCron(
  bus: Bus,
  onObservation: (observation: ConsumeObservation) => void,
  signal: AbortSignal,
): Promise<void> {
  const schedule = consume(
    bus,
    {
      stream,
      consumer: 'workers-functions-cron',
      subjects: ['evt.functions.function.*'],
      handle: (delivery) => follow(bus, delivery),
      onObservation,
    },
    signal,
  )
  const ticks = consume(
    bus,
    {
      stream: 'TIMERS',
      consumer: 'workers-functions-ticks',
      subjects: [dueSubjects(tickPurpose)],
      handle: ({ data }) => tick(bus, JSON.parse(Buffer.from(data).toString('utf8'))),
      onObservation,
    },
    signal,
  )
  await Promise.all([schedule, ticks])
}

async function current(bus: Bus, functionId: string): Promise<DeployedState | null> {
  const { state, sequence } = await load(bus, functionAggregate, {
    stream,
    subject: eventSubject('functions', 'function', functionId),
  })
  const known = placed(state, sequence)
  return known.stage === 'deployed' ? known : null
}

async function follow(bus: Bus, { subject, headers, at }: Delivery): Promise<void> {
  const functionId = unescapeToken(subject.slice(subject.lastIndexOf('.') + 1))
  // Another one may have its id already, and have kept something since.
  if (headers.get(factsHeader).startsWith('functions.function.deleted@')) await functionKv(bus).clear(functionId, at)
  await scheduleAll(bus, functionId)
}

/** By the newest state, whatever message is being handled; a timer that is there already is set to the same time again. */
async function scheduleAll(bus: Bus, functionId: string): Promise<void> {
  const state = await current(bus, functionId)
  if (state === null) return
  for (const trigger of state.triggers) {
    if (isCron(trigger)) await scheduleNext(bus, functionId, trigger, state.triggersVersion, Date.now())
  }
}

/** Timers of older triggers go off and are void: their version is in their name. */
async function scheduleNext(bus: Bus, functionId: string, trigger: CronTrigger, version: number, after: number) {
  const at = nextTick(trigger, after)
  if (at === null) return
  const body: Tick = { functionId, name: trigger.name, version, at }
  await setTimer(bus, { purpose: tickPurpose, id: `${functionId}/${trigger.name}/${version}`, at, body })
}

async function tick(bus: Bus, body: unknown): Promise<void> {
  const { functionId, name, version, at } = Value.Parse(Tick, body)
  const state = await current(bus, functionId)
  if (state === null || state.triggersVersion !== version) return
  const trigger = state.triggers.find((each) => each.name === name)
  if (trigger === undefined || !isCron(trigger)) return
  await triggerInvocation(bus, callTarget(functionId, state), {
    id: ['cron', name, String(version), String(at)],
    path: `/invoke/${functionId}`,
    body: JSON.stringify({ type: 'cron', trigger: name, at: new Date(at).toISOString() }),
  })
  await scheduleNext(bus, functionId, trigger, version, Math.max(at, Date.now()))
}
