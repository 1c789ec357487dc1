import type { Bus } from '../../bus/connect.ts'
import { lastMessage } from '../../bus/load.ts'
import { publish } from '../../bus/publish.ts'
import { backlogSubject, taskBacklogSubject } from '../../bus/subject.ts'
import { turnId, turnOf } from '../../schemas/workflows/turn.ts'
import type { QueuedTask } from './follow-ups.ts'

/**
 * The side lane. Executions and tasks are taken in the order in which they came; what is of a flow or namespace that has its share of a worker
 * already goes here, so that whoever comes behind has not to wait for it.
 */
export const backlogStream = 'BACKLOG'

/** Of the message that an execution begins with from here. */
export function backlogId(executionId: string): string {
  return `${executionId}/backlog`
}

/** @throws {BusUnavailable} */
export async function deferExecution(bus: Bus, executionId: string): Promise<void> {
  await publish(bus, { subject: backlogSubject(executionId), headers: { 'Nats-Msg-Id': backlogId(executionId) } })
}

/** Whether it waits here, or is in hand from here. @throws {BusUnavailable} */
export async function inBacklog(bus: Bus, executionId: string): Promise<boolean> {
  return (await lastMessage(bus, backlogStream, backlogSubject(executionId))) !== null
}

/** @throws {BusUnavailable} */
export async function deferTask(bus: Bus, group: string, task: QueuedTask): Promise<void> {
  const id = turnId(task.executionId, task.run, turnOf(task))
  const headers = { 'Nats-Msg-Id': `${id}/backlog` }
  await publish(bus, { subject: taskBacklogSubject(group, id), body: JSON.stringify(task), headers })
}
