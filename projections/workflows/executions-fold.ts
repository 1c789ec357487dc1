import type { JsMsg } from '@nats-io/jetstream'
import { readMessage } from '../../bus/load.ts'
import { unescapeToken } from '../../bus/subject.ts'
import { type ExecutionFact, executionEvents } from '../../schemas/workflows/execution-facts.ts'
import type { ProjectionTarget } from '../projector.ts'
import { storableJson, storableTime } from '../storable.ts'
import { briefOf, briefTrigger, briefValue } from './brief.ts'
import { addEnded, endLive, insertCreated, updateChanged, upsertTasks } from './executions-tables.ts'
import { plannedTasks } from './planned-tasks.ts'

/** Columns of \`executions\` that a message changes; absent: stays as it is. */
type ExecutionRow = Record<string, unknown> & { readonly id: string }
type TaskRow = Record<string, unknown> & { execution_id: string; run: string }

/** What the facts of many messages come to, so that each row is written once. */
export interface ExecutionRows {
  readonly created: Map<string, ExecutionRow>
  readonly changed: Map<string, ExecutionRow>
  readonly tasks: Map<string, TaskRow>
  /** When executions ended: their live tasks end with them. */
  readonly ended: Map<string, string>
  /** Executions that one more task of may have run to its end. */
  readonly counted: Set<string>
}

export async function applyExecutions({ client, bus }: ProjectionTarget, messages: readonly JsMsg[]): Promise<void> {
  const rows: ExecutionRows = {
    created: new Map(),
    changed: new Map(),
    tasks: new Map(),
    ended: new Map(),
    counted: new Set(),
  }
  for (const message of messages) {
    const id = unescapeToken(message.subject.split('.').at(-1)!)
    const { facts } = await readMessage(bus, executionEvents, message)
    for (const [index, fact] of facts.entries()) {
      if (fact.type === 'executions.execution.created') await create(rows, bus, fact.data, message.seq)
      else foldFact(rows, id, fact, placeOf(message.seq, index))
    }
    const row = changedRow(rows, id)
    row.last_sequence = message.seq
    row.last_at = storableTime(Math.floor(message.info.timestampNanos / 1e6))
  }
  await write(client, rows)
}

type Created = Extract<ExecutionFact, { type: 'executions.execution.created' }>['data']

async function create(rows: ExecutionRows, bus: ProjectionTarget['bus'], created: Created, sequence: number) {
  const { executionId: id, inputs, trigger, carried = {}, at } = created
  rows.created.set(id, {
    id,
    flow_id: created.flowId,
    flow_name: created.flowName,
    namespace: created.namespace,
    revision: created.revision,
    status: 'QUEUED',
    tasks_total: created.tasksTotal,
    inputs,
    trigger,
    brief_inputs: briefOf(inputs),
    brief_trigger: briefTrigger(trigger),
    labels: created.labels,
    actor: created.actor,
    parent: created.parent ?? null,
    origin: created.origin ?? null,
    created_at: storableTime(at),
    created_sequence: sequence,
  })
  for (const [index, { run, ...task }] of (await plannedTasks(bus, created)).entries()) {
    Object.assign(taskRow(rows, id, run, placeOf(sequence, index)), task, { planned: true })
  }
  carry(rows, id, carried, { sequence, at: storableTime(at) })
}

function carry(
  rows: ExecutionRows,
  id: string,
  carried: NonNullable<Created['carried']>,
  { sequence, at }: { readonly sequence: number; readonly at: string },
): void {
  for (const [index, [run, each]] of Object.entries(carried).entries()) {
    // A loop that goes on is told when it does.
    if (run.startsWith('$') || each.status === 'begun') continue
    const { status, outputs = null } = each
    const row = taskRow(rows, id, run, placeOf(sequence, index))
    row.task_name ??= run.slice(run.lastIndexOf('.') + 1)
    Object.assign(row, { status: status.toUpperCase(), outputs, finished_at: at })
    rows.counted.add(id)
  }
}

/** Of a fact, or of a task, among those of all messages: one message has fewer. */
function placeOf(sequence: number, index: number): number {
  return sequence * 4_096 + index
}

/** Adds one fact. Pure but for the rows it is given. */
function foldFact(
  rows: ExecutionRows,
  id: string,
  fact: Exclude<ExecutionFact, { type: 'executions.execution.created' }>,
  place: number,
): void {
  const row = changedRow(rows, id)
  switch (fact.type) {
    case 'executions.execution.started':
      Object.assign(row, { status: 'RUNNING', started_at: storableTime(fact.data.at) })
      return
    case 'executions.execution.paused':
      row.status = 'PAUSED'
      return
    case 'executions.execution.resumed':
      // To what it was: it may not have begun.
      row.status = 'RESUMED'
      return
    case 'executions.execution.end-requested':
      row.status = 'RUNNING'
      return
    case 'executions.execution.ended': {
      const { status, at, outputs = null, failure = null } = fact.data
      Object.assign(row, { status: publicStatus(status), finished_at: storableTime(at), outputs, failure })
      row.brief_outputs = briefValue(outputs)
      rows.ended.set(id, storableTime(at))
      endTasks(rows, id, storableTime(at))
      return
    }
    case 'executions.execution.slot-requested':
    case 'executions.execution.sla-missed':
    case 'executions.task.claimed':
    case 'executions.task.entered':
    case 'executions.task.iteration-started':
    case 'executions.task.iteration-ended':
    case 'executions.task.late-result':
      return
    default:
      foldTask(rows, id, fact, place)
  }
}

type TaskFact = Exclude<
  Extract<ExecutionFact, { type: `executions.task.${string}` }>,
  {
    type:
      | 'executions.task.claimed'
      | 'executions.task.entered'
      | 'executions.task.iteration-started'
      | 'executions.task.iteration-ended'
      | 'executions.task.late-result'
  }
>

/** Whatever an attempt before it has left is gone. */
const beginning = {
  outputs: null,
  failure: null,
  question: null,
  answer: null,
  asked: null,
  until: null,
  started_at: null,
  finished_at: null,
  worker: null,
}

function foldTask(rows: ExecutionRows, id: string, fact: TaskFact, position: number): void {
  const { run } = fact.data
  if (run.startsWith('$')) return
  const row = taskRow(rows, id, run, position)
  switch (fact.type) {
    case 'executions.task.scheduled': {
      const { task, type, attempt, at, lease } = fact.data
      const status = lease === null ? 'PENDING' : 'RUNNING'
      Object.assign(row, beginning)
      Object.assign(row, { task_name: task, task_type: type, status, attempt, scheduled_at: storableTime(at) })
      return
    }
    case 'executions.task.opened': {
      const { opening, startedAt } = fact.data
      const waits = opening.kind === 'pause' || (opening.kind === 'child' && opening.wait)
      Object.assign(row, { status: waits ? 'WAITING' : 'RUNNING', started_at: storableTime(startedAt) })
      if (opening.kind === 'pause') {
        const { question, until } = opening
        Object.assign(row, { question, until: until === null ? null : storableTime(until) })
        if (question !== null) row.asked = position
      }
      return
    }
    case 'executions.task.succeeded': {
      const { outputs, startedAt, at, worker = null } = fact.data
      Object.assign(row, {
        status: 'SUCCESS',
        outputs,
        started_at: storableTime(startedAt),
        finished_at: storableTime(at),
        worker,
      })
      rows.counted.add(id)
      return
    }
    case 'executions.task.failed': {
      const { failure, startedAt, at, retryAt, worker = null } = fact.data
      const status = retryAt === null ? 'FAILED' : 'WAITING'
      Object.assign(row, { status, failure, started_at: storableTime(startedAt), worker })
      if (retryAt === null) row.finished_at = storableTime(at)
      rows.counted.add(id)
      return
    }
    case 'executions.task.skipped': {
      const { task, type, at } = fact.data
      Object.assign(row, { task_name: task, task_type: type, status: 'SKIPPED', finished_at: storableTime(at) })
      return
    }
    case 'executions.task.cancelled':
      Object.assign(row, { status: 'CANCELLED', finished_at: storableTime(fact.data.at) })
      return
    case 'executions.task.question-answered': {
      const { answer, by, comment, at } = fact.data
      row.answer = { answer, by, comment, at: storableTime(at) }
      // Until it is decided what follows.
      row.status ??= 'WAITING'
      return
    }
    default:
      fact satisfies never
  }
}

const live = new Set(['PENDING', 'RUNNING', 'WAITING'])

function endTasks(rows: ExecutionRows, id: string, at: string): void {
  for (const row of rows.tasks.values()) {
    if (row.execution_id === id && live.has(String(row.status))) {
      const isBegun = row.planned !== true || row.scheduled_at !== undefined
      Object.assign(row, { status: isBegun ? 'CANCELLED' : 'SKIPPED', finished_at: at })
    }
  }
}

function changedRow({ changed }: ExecutionRows, id: string): ExecutionRow & Record<string, unknown> {
  const known = changed.get(id)
  if (known !== undefined) return known
  const row = { id }
  changed.set(id, row)
  return row
}

function taskRow({ tasks }: ExecutionRows, id: string, run: string, position: number): TaskRow {
  const key = `${id}/${run}`
  const known = tasks.get(key)
  if (known !== undefined) return known
  const row: TaskRow = { execution_id: id, run, position }
  tasks.set(key, row)
  return row
}

/** As the specification writes it. */
function publicStatus(status: 'success' | 'failed' | 'cancelled' | 'timed-out'): string {
  return status === 'timed-out' ? 'TIMED_OUT' : status.toUpperCase()
}

async function write(client: ProjectionTarget['client'], rows: ExecutionRows): Promise<void> {
  const json = (values: Iterable<unknown>) => storableJson([...values])
  if (rows.created.size > 0) await client.query(insertCreated, [json(rows.created.values())])
  if (rows.tasks.size > 0) await client.query(upsertTasks, [json(rows.tasks.values())])
  if (rows.ended.size > 0) {
    await client.query(endLive, [[...rows.ended.keys()], [...rows.ended.values()]])
  }
  await client.query(updateChanged, [json(rows.changed.values()), [...rows.counted]])
  if (rows.ended.size > 0) await client.query(addEnded, [[...rows.ended.keys()]])
}
