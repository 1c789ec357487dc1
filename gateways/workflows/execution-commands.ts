import type { Bus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { load, readMessage } from '../../bus/load.ts'
import { newId } from '../../bus/message.ts'
import { readPage } from '../../bus/page.ts'
import { asking, publish } from '../../bus/publish.ts'
import { abortSubject, eventSubject, executionSubject } from '../../bus/subject.ts'
import { Rejected } from '../../schemas/failure.ts'
import { execution } from '../../schemas/workflows/execution.ts'
import { type ExecutionFact, executionEvents } from '../../schemas/workflows/execution-facts.ts'
import type { ExecutionState } from '../../schemas/workflows/execution-state.ts'

const stream = 'EVT_EXECUTIONS'
const historyPage = 256

/** Where an execution's events lie. */
export function executionPlace(executionId: string) {
  return { stream, subject: eventSubject('executions', 'execution', executionId) }
}

/** @throws {Rejected} `workflows/execution-not-found`; {BusUnavailable} */
export async function loadExecution(bus: Bus, executionId: string): Promise<ExecutionState> {
  const { state } = await load(bus, execution, executionPlace(executionId))
  if (state.stage !== 'absent') return state
  throw new Rejected('workflows/execution-not-found', 'There is no such execution')
}

/** What an execution has come through, message by message. @throws {BusUnavailable} */
export async function* executionHistory(bus: Bus, executionId: string, after = 0) {
  const { stream, subject } = executionPlace(executionId)
  for (let sequence = after; ; ) {
    const query = { seq: sequence + 1, next_by_subj: subject, batch: historyPage }
    const page = await asking(bus, () => readPage(bus, stream, query))
    if (page.length === 0) return
    for (const stored of page) {
      sequence = stored.seq
      yield { sequence, time: stored.time, message: await readMessage(bus, executionEvents, stored) }
    }
  }
}

export interface ExecutionDecision {
  readonly executionId: string
  readonly actor: string
  readonly decide: (state: ExecutionState) => readonly ExecutionFact[]
}

/**
 * Decides on an execution from outside, and has the engine see to what follows.
 * @returns the state from now on, and its sequence
 * @throws what the decision throws; {BusUnavailable}
 */
export async function decideExecution(bus: Bus, { executionId, actor, decide: ask }: ExecutionDecision) {
  const decided = await decide(bus, { ...executionPlace(executionId), aggregate: execution, actor, decide: ask })
  if (decided.facts.length > 0) {
    // What runs is stopped now; the command sees to the rest, and to workers that did not hear it.
    bus.connection.publish(abortSubject(executionId))
    await nudge(bus, executionId)
  }
  return decided
}

/** Has the engine look at an execution. @throws {BusUnavailable} */
async function nudge(bus: Bus, executionId: string, id: string = newId()): Promise<void> {
  const body = JSON.stringify({ type: 'nudge' })
  await publish(bus, { subject: executionSubject(executionId), body, headers: { 'Nats-Msg-Id': id } })
}
