import { JetStreamApiError } from '@nats-io/jetstream'
import type { Bus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { lastMessage, load } from '../../bus/load.ts'
import { asking, publish } from '../../bus/publish.ts'
import { eventSubject, unescapeToken, waitingSubject, waitingSubjects } from '../../bus/subject.ts'
import { execution } from '../../schemas/workflows/execution.ts'
import { isEnded } from '../../schemas/workflows/execution-state.ts'
import type { ConcurrencyPlan } from '../../schemas/workflows/flow-plan.ts'
import { decideGrant, decideRelease, slots } from '../../schemas/workflows/slots.ts'
import { sendCommand } from './follow-ups.ts'

const waitingStream = 'WAITING'

export interface SlotRequest {
  readonly flowId: string
  readonly executionId: string
  readonly concurrency: ConcurrencyPlan
  /** It has asked before and has heard nothing for long: those that have a place are looked at. */
  readonly again: boolean
}

/** Asks for a place of the flow; the answer comes to the execution as a command. @throws {BusUnavailable} */
export async function requestSlot(bus: Bus, request: SlotRequest): Promise<void> {
  const { flowId, executionId, concurrency, again } = request
  const { limit, behavior } = concurrency
  // Whoever comes later does not get ahead of those that wait.
  const first = (await firstWaiting(bus, flowId)) === null
  let answer = await grant(bus, flowId, executionId, first ? limit : 0)
  if (answer.granted) return await tell(bus, executionId, answer)
  const freed = (again || behavior !== 'queue') && (await freeEnded(bus, flowId, answer.holders))
  if (behavior === 'queue') {
    const headers = { 'Nats-Msg-Id': `${executionId}/waiting` }
    await publish(bus, { subject: waitingSubject(flowId, executionId), headers })
    // A place may have become free before anybody could see that this one waits.
    return await fill(bus, flowId, limit)
  }
  if (freed) answer = await grant(bus, flowId, executionId, limit)
  await tell(bus, executionId, answer)
}

/** Gives a place back, and on to whoever waits for one. @throws {BusUnavailable} */
export async function releaseSlot(bus: Bus, flowId: string, executionId: string, limit: number): Promise<void> {
  await release(bus, flowId, [executionId])
  const own = await lastMessage(bus, waitingStream, waitingSubject(flowId, executionId))
  if (own !== null) await leave(bus, own.seq)
  await fill(bus, flowId, limit)
}

/** By flow, what is being filled in this process: one after the other, for each would look at the same first one. */
const fillings = new WeakMap<Bus, Map<string, { work: Promise<void>; next: Promise<void> | null }>>()

/** Gives places to those that wait, in their order, as long as there are some. Who asks while that is done has it done once more. */
function fill(bus: Bus, flowId: string, limit: number): Promise<void> {
  const ours = fillings.get(bus) ?? new Map<string, { work: Promise<void>; next: Promise<void> | null }>()
  fillings.set(bus, ours)
  const filling = ours.get(flowId)
  if (filling !== undefined) {
    filling.next ??= filling.work.catch(() => undefined).then(() => fill(bus, flowId, limit))
    return filling.next
  }
  const work = fillNow(bus, flowId, limit).finally(() => ours.delete(flowId))
  ours.set(flowId, { work, next: null })
  return work
}

/** Any number of processes may do so at a time: who is given a place twice gives it back when it hears of it. */
async function fillNow(bus: Bus, flowId: string, limit: number): Promise<void> {
  for (;;) {
    const next = await firstWaiting(bus, flowId)
    if (next === null) return
    if (!(await hasEnded(bus, next.executionId))) {
      const answer = await grant(bus, flowId, next.executionId, limit)
      if (!answer.granted) return
      // Told before it leaves the queue: who dies in between leaves it there, and it is told again.
      await tell(bus, next.executionId, answer)
    }
    await leave(bus, next.sequence)
  }
}

interface Answer {
  readonly granted: boolean
  readonly holders: readonly string[]
  /** Of the decision that it rests on. */
  readonly sequence: number
}

async function grant(bus: Bus, flowId: string, executionId: string, limit: number): Promise<Answer> {
  const ask = { ...place(flowId), aggregate: slots, retries: conflictRetries }
  const { state, sequence } = await decide(bus, { ...ask, decide: (before) => decideGrant(before, executionId, limit) })
  return { granted: state.holders.includes(executionId), holders: state.holders, sequence }
}

async function release(bus: Bus, flowId: string, executionIds: readonly string[]): Promise<void> {
  const ask = { ...place(flowId), aggregate: slots, retries: conflictRetries }
  await decide(bus, { ...ask, decide: (before) => decideRelease(before, executionIds) })
}

/** Takes places from executions that have ended and did not give them back. @returns whether there were such */
async function freeEnded(bus: Bus, flowId: string, holders: readonly string[]): Promise<boolean> {
  const ended: string[] = []
  for (const holder of holders) if (await hasEnded(bus, holder)) ended.push(holder)
  if (ended.length > 0) await release(bus, flowId, ended)
  return ended.length > 0
}

async function hasEnded(bus: Bus, executionId: string): Promise<boolean> {
  const subject = eventSubject('executions', 'execution', executionId)
  const { state } = await load(bus, execution, { stream: 'EVT_EXECUTIONS', subject })
  return state.stage === 'absent' || isEnded(state.stage)
}

async function tell(bus: Bus, executionId: string, { granted, sequence }: Answer): Promise<void> {
  await sendCommand(bus, executionId, { type: 'slot', granted }, `${executionId}/slot/${granted}/${sequence}`)
}

async function firstWaiting(bus: Bus, flowId: string) {
  const query = { seq: 1, next_by_subj: waitingSubjects(flowId) }
  const first = await asking(bus, () => bus.manager.direct.getMessage(waitingStream, query))
  if (first === null) return null
  return { executionId: unescapeToken(first.subject.split('.').at(-1)!), sequence: first.seq }
}

/** Also when somebody else was faster. */
async function leave(bus: Bus, sequence: number): Promise<void> {
  try {
    await asking(bus, () => bus.manager.streams.deleteMessage(waitingStream, sequence))
  } catch (error) {
    if (!(error instanceof JetStreamApiError)) throw error
  }
}

/** Workers that end executions of one flow at the same time. */
const conflictRetries = 50

function place(flowId: string) {
  return { stream: 'EVT_WORKFLOWS', subject: eventSubject('workflows', 'slots', flowId) }
}
