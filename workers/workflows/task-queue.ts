import type { Bus } from '../../bus/connect.ts'
import { readJson } from '../../bus/envelope.ts'
import type { Delivery } from '../../bus/handle.ts'
import { lastMessage } from '../../bus/load.ts'
import { publish } from '../../bus/publish.ts'
import { taskSubject } from '../../bus/subject.ts'
import { type ExecutionCommand, findTask } from '../../schemas/workflows/execution-decide.ts'
import type { TaskResult } from '../../schemas/workflows/task-result.ts'
import { awaits, turnId, turnOf } from '../../schemas/workflows/turn.ts'
import { deferTask, isTaskDeferred } from './backlog.ts'
import { claim, claimedByAnother } from './claim.ts'
import type { ActorContext } from './execution-actor.ts'
import { sendCommand } from './follow-ups.ts'
import { Lane } from './lane.ts'
import type { Lanes } from './lanes.ts'
import { outwait } from './patience.ts'

/** Several who find out at the same time that a task was lost bring it once. */
const anewMs = 60_000

/** An attempt at a task, on the queue. */
interface QueuedTask {
  readonly executionId: string
  readonly run: string
  readonly attempt: number
  readonly round: number
  /** Absent: 0. */
  readonly generation?: number
}

/** How a task is brought to the queue. */
interface Queueing {
  readonly flowId: string
  readonly group: string
  /** Whether it may lie there; `anew`: where it does not, it was lost, though the queue may still know its id. */
  readonly again: boolean | 'anew'
}

/** Stored once, however often it is sent within the time in which it can be unanswered. @throws {BusUnavailable} */
export async function queueTask(bus: Bus, task: QueuedTask, { flowId, group, again }: Queueing): Promise<void> {
  const id = turnId(task.executionId, task.run, turnOf(task))
  const subject = taskSubject(group, id)
  // The queue knows ids for two minutes; a task can lie there, or run, for longer.
  if (
    again !== false &&
    ((await lastMessage(bus, 'TASKS', subject)) !== null || (await isTaskDeferred(bus, group, flowId, id)))
  )
    return
  const own = again === 'anew' ? `${id}/anew/${Math.floor(Date.now() / anewMs)}` : id
  await publish(bus, { subject, body: JSON.stringify(task), headers: { 'Nats-Msg-Id': own } })
}

/** What is needed to run a task from the queue. */
export interface Taker
  extends Pick<ActorContext, 'bus' | 'executions' | 'plans' | 'running' | 'isOnce' | 'run' | 'now' | 'worker'> {
  readonly lanes: Lanes
}

/**
 * Runs a task from the queue of a group, or, with null, from the side lane. Its result is a command, so that results that come together
 * are decided together.
 * @param ended whoever brought it does not wait any more
 * @throws {BusUnavailable}
 */
export async function takeTask(
  taker: Taker,
  { data }: Delivery,
  ended: AbortSignal,
  group: string | null,
): Promise<void> {
  const { bus, executions, plans, running, lanes, worker } = taker
  const queued = readJson(data) as QueuedTask
  const { executionId, run: key } = queued
  const turn = turnOf(queued)
  const { state } = await executions.load(executionId)
  const run = state.runs[key]
  if (!awaits(run, turn)) return
  using place = group === null ? Lane.uncounted : lanes.tasks.take(state.created!)
  if (place === null) return await deferTask(bus, group!, state.created!.flowId, { ...queued, ...turn })
  const plan = await plans.get(state.created!)
  // It was not heard of for a time. Were it done with already, the task would die with this process.
  const ending = running.ending(executionId, key, turn)
  if (ending !== undefined) return await ending
  const task = findTask(plan, run)
  const startedAt = taker.now()
  const { signal, end } = running.begin(executionId, key, turn)
  let result: TaskResult
  try {
    const once = taker.isOnce(task)
    result =
      once && !(await claim(taker, { executionId, run: key, turn, signal: ended }))
        ? claimedByAnother
        : await taker.run({ plan, task, state, run: key, signal: AbortSignal.any([signal, ended]) })
  } finally {
    end()
  }
  // Handed back, not failed.
  if (ended.aborted) return
  const command: ExecutionCommand = { type: 'result', run: key, ...turn, startedAt, worker, result }
  // Were it handed back, the task would run once more.
  const id = `${turnId(executionId, key, turn)}/result`
  await outwait(() => sendCommand(bus, executionId, command, id), ended)
}
