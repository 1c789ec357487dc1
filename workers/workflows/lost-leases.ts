import { type ConsumerInfo, JetStreamApiError, type StoredMsg } from '@nats-io/jetstream'
import type { Bus } from '../../bus/connect.ts'
import { messageIdHeader } from '../../bus/envelope.ts'
import { readPage } from '../../bus/page.ts'
import { asking } from '../../bus/publish.ts'
import { eventSubject, executionSubject } from '../../bus/subject.ts'
import type { ExecutionCommand } from '../../schemas/workflows/execution-decide.ts'
import type { ExecutionState } from '../../schemas/workflows/execution-state.ts'
import { backlogId, isDeferred } from './backlog.ts'

const timerLease = /^timer\/(\d+)$/
const maxWaiting = 256

/** Durable consumers whose messages a task can hang on. */
export const leaseConsumers = {
  executions: 'workers-workflows-executions',
  timers: 'workers-workflows-timers',
} as const

/**
 * Of the messages that tasks of an execution hang on, those that nobody has in hand or will get: a message that is given up lets its
 * tasks down. What is not certain is not told; a task that somebody runs nonetheless is not harmed, for its queue entry is looked at with
 * the state of that moment.
 *
 * @param held messages in our own hands
 * @throws {BusUnavailable}
 */
export async function lostLeases(
  bus: Bus,
  executionId: string,
  { runs, created }: ExecutionState,
  held: ReadonlySet<string>,
): Promise<ReadonlySet<string>> {
  const leases = new Set<string>()
  for (const { status, lease } of Object.values(runs)) {
    if (status === 'scheduled' && lease !== null && !held.has(lease)) leases.add(lease)
  }
  if (leases.size === 0) return leases
  const waiting = await commandsOf(bus, executionId)
  // Whoever gets them decides; then it is asked again.
  if (holdsResults(waiting)) return new Set()
  const commands = new Set(waiting.map(({ header }) => header.get(messageIdHeader)))
  const lost = new Set<string>()
  for (const lease of leases) {
    if (!commands.has(lease) && (await isGone(bus, created!, lease))) lost.add(lease)
  }
  return lost
}

/** Whether something that was found out about an execution has not been decided on yet. @throws {BusUnavailable} */
export async function hasResults(bus: Bus, executionId: string): Promise<boolean> {
  return holdsResults(await commandsOf(bus, executionId))
}

function commandsOf(bus: Bus, executionId: string): Promise<readonly StoredMsg[]> {
  const query = { seq: 1, next_by_subj: executionSubject(executionId), batch: maxWaiting }
  return asking(bus, () => readPage(bus, 'COMMANDS', query))
}

function holdsResults(waiting: readonly StoredMsg[]): boolean {
  return waiting.length === maxWaiting || waiting.some(({ data }) => !isNudge(data))
}

function isNudge(data: Uint8Array): boolean {
  return (JSON.parse(Buffer.from(data).toString('utf8')) as ExecutionCommand).type === 'nudge'
}

async function isGone(bus: Bus, one: NonNullable<ExecutionState['created']>, lease: string): Promise<boolean> {
  const { executionId } = one
  const due = timerLease.exec(lease)?.[1]
  if (due !== undefined) return await isDone(bus, 'TIMERS', leaseConsumers.timers, Number(due))
  if (lease === backlogId(executionId)) return !(await isDeferred(bus, one))
  const query = { seq: 1, next_by_subj: eventSubject('executions', 'execution', executionId) }
  const created = await asking(bus, () => bus.manager.direct.getMessage('EVT_EXECUTIONS', query))
  // A command that is not on its queue any more.
  if (created?.header.get(messageIdHeader) !== lease) return true
  return await isDone(bus, 'EVT_EXECUTIONS', leaseConsumers.executions, created.seq)
}

/** Acknowledged or given up; false also for one that may be, behind others that are not. */
async function isDone(bus: Bus, stream: string, consumer: string, sequence: number): Promise<boolean> {
  const info = await asking(bus, () => bus.manager.consumers.info(stream, consumer)).catch(
    (error): ConsumerInfo | null => {
      if (error instanceof JetStreamApiError && error.status === 404) return null
      throw error
    },
  )
  return info !== null && info.ack_floor.stream_seq >= sequence
}
