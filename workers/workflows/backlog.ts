import type { Bus } from '../../bus/connect.ts'
import { lastMessage } from '../../bus/load.ts'
import { publish } from '../../bus/publish.ts'
import { backlogSubject, taskBacklogSubject } from '../../bus/subject.ts'
import { type Turn, turnId } from '../../schemas/workflows/turn.ts'

/**
 * The side lanes. Executions and tasks are taken in the order in which they came; what is of a flow or namespace that has its share of a worker
 * already goes here, so that whoever comes behind has not to wait for it. All of a flow is in one lane, and most others are in another.
 */
export const backlogStream = 'BACKLOG'
const count = 4
export const backlogLanes: readonly number[] = Array.from({ length: count }, (_, lane) => lane)

function laneOf(flowId: string): number {
  let hash = 0
  for (const letter of flowId) hash = (Math.imul(hash, 31) + letter.charCodeAt(0)) >>> 0
  return hash % count
}

interface Of {
  readonly flowId: string
  readonly executionId: string
}

/** Of the message that an execution begins with from here. */
export function backlogId(executionId: string): string {
  return `${executionId}/backlog`
}

/** @throws {BusUnavailable} */
export async function deferExecution(bus: Bus, { flowId, executionId }: Of): Promise<void> {
  const subject = backlogSubject(laneOf(flowId), executionId)
  await publish(bus, { subject, headers: { 'Nats-Msg-Id': backlogId(executionId) } })
}

/** Whether it waits here, or is in hand from here. @throws {BusUnavailable} */
export async function isDeferred(bus: Bus, { flowId, executionId }: Of): Promise<boolean> {
  return (await lastMessage(bus, backlogStream, backlogSubject(laneOf(flowId), executionId))) !== null
}

/** @throws {BusUnavailable} */
export async function deferTask(
  bus: Bus,
  group: string,
  flowId: string,
  task: Turn & { readonly executionId: string; readonly run: string },
): Promise<void> {
  const id = turnId(task.executionId, task.run, task)
  const subject = taskBacklogSubject(group, laneOf(flowId), id)
  await publish(bus, { subject, body: JSON.stringify(task), headers: { 'Nats-Msg-Id': `${id}/backlog` } })
}

/** @param id of its turn @throws {BusUnavailable} */
export async function isTaskDeferred(bus: Bus, group: string, flowId: string, id: string): Promise<boolean> {
  return (await lastMessage(bus, backlogStream, taskBacklogSubject(group, laneOf(flowId), id))) !== null
}
