import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import { type Bus, BusUnavailable } from '../../bus/connect.ts'
import { load, loadMessage, readMessage } from '../../bus/load.ts'
import { readPage } from '../../bus/page.ts'
import { eventSubject } from '../../bus/subject.ts'
import { openPositions } from '../../projections/positions.ts'
import { schemaOf, startProjector } from '../../projections/projector.ts'
import { workflowProjection } from '../../projections/workflows/projection.ts'
import { execution } from '../../schemas/workflows/execution.ts'
import { type ExecutionState, isEnded } from '../../schemas/workflows/execution-state.ts'
import { slots } from '../../schemas/workflows/slots.ts'
import type { Firing } from './lateness.ts'

/** What the history says of one execution, and what no history may say. */
export interface Told {
  state: ExecutionState
  /** Facts that came after the end, but for results that nobody waited for any more. */
  readonly afterEnd: string[]
  /** How many results of each task run were accepted. */
  readonly accepted: Map<string, number>
  /** How many answers each gate was given. */
  readonly answered: Map<string, number>
  /** Waits and retries that are through. */
  readonly firings: Firing[]
  /** When each run was last stored as one that waits for its time. */
  readonly parkedAt: Map<string, number>
  /** When it was stored, epoch ms. */
  createdAt: number
  /** When something was stored last, epoch ms, and between which facts the longest time was. */
  lastAt: number
  silence: { readonly ms: number; readonly between: string }
}

const count = (counts: Map<string, number>, key: string) => counts.set(key, (counts.get(key) ?? 0) + 1)

/** Reads the history of all executions to its end, again and again, until every one has ended that there is or should be. */
export async function historyOf(bus: Bus, accepted: readonly string[]): Promise<ReadonlyMap<string, Told>> {
  const told = new Map<string, Told>()
  const deadline = performance.now() + 120_000
  for (let sequence = 0; ; ) {
    sequence = await readOn(bus, told, sequence)
    const stuck = [...told.values()].filter(({ state }) => !isEnded(state.stage))
    const lost = accepted.filter((id) => !told.has(id))
    if (stuck.length === 0 && lost.length === 0) return told
    if (performance.now() > deadline) {
      const shown = stuck.slice(0, 5).map(({ state }) => state)
      const about = {
        lost: lost.slice(0, 5),
        queues: await queuesOf(bus),
        shown,
        ids: stuck.map(({ state }) => state.created?.executionId),
      }
      throw new Error(`${stuck.length} are stuck, ${lost.length} are lost: ${JSON.stringify(about)}`)
    }
    await delay(250)
  }
}

/** What lies on the queues, and how much of it is in somebody's hands. */
async function queuesOf(bus: Bus): Promise<readonly unknown[]> {
  const queues = ['COMMANDS', 'TASKS', 'EVT_EXECUTIONS', 'TIMERS']
  const found = queues.map(async (name) => {
    const { state } = await bus.manager.streams.info(name)
    const consumers = await bus.manager.consumers.list(name).next()
    const told = consumers.map((each) => {
      const { num_ack_pending, num_pending, num_waiting, num_redelivered, delivered, ack_floor } = each
      return { name: each.name, num_ack_pending, num_pending, num_waiting, num_redelivered, delivered, ack_floor }
    })
    return { name, messages: state.messages, first: state.first_seq, last: state.last_seq, consumers: told }
  })
  return await Promise.all(found)
}

async function readOn(bus: Bus, told: Map<string, Told>, from: number): Promise<number> {
  let sequence = from
  for (;;) {
    const page = await readPage(bus, 'EVT_EXECUTIONS', { seq: sequence + 1, batch: 512 })
    if (page.length === 0) return sequence
    for (const stored of page) {
      sequence = stored.seq
      const id = stored.subject.slice(stored.subject.lastIndexOf('.') + 1)
      const one = told.get(id) ?? fresh()
      told.set(id, one)
      const { facts } = await readMessage(bus, execution.events, stored)
      listen(one, stored.time.getTime(), facts)
      for (const fact of facts) take(one, fact, stored.time.getTime())
    }
  }
}

function fresh(): Told {
  const silence = { ms: 0, between: '' }
  const counts = { accepted: new Map(), answered: new Map() }
  return {
    state: execution.initial,
    afterEnd: [],
    ...counts,
    firings: [],
    parkedAt: new Map(),
    createdAt: 0,
    lastAt: 0,
    silence,
  }
}

type Fact = Parameters<typeof execution.evolve>[1]

function listen(one: Told, at: number, facts: readonly Fact[]): void {
  const ms = one.lastAt === 0 ? 0 : at - one.lastAt
  if (ms > one.silence.ms) {
    const runs = Object.entries(one.state.runs).map(([key, { status, lease }]) => `${key} ${status} ${lease}`)
    one.silence = { ms, between: `${runs.join(', ')} and ${facts.map(({ type }) => type).join(', ')}` }
  }
  if (one.createdAt === 0) one.createdAt = at
  one.lastAt = at
}

function take(one: Told, fact: Fact, at: number): void {
  if (isEnded(one.state.stage) && fact.type !== 'executions.task.late-result') one.afterEnd.push(fact.type)
  if (fact.type === 'executions.task.question-answered') count(one.answered, fact.data.run)
  if (fact.type === 'executions.task.succeeded') count(one.accepted, fact.data.run)
  if (fact.type === 'executions.task.succeeded' || fact.type === 'executions.task.scheduled')
    fire(one, fact.data.run, at)
  one.state = execution.evolve(one.state, fact)
  if (fact.type === 'executions.task.opened' || fact.type === 'executions.task.failed') {
    one.parkedAt.set(fact.data.run, at)
  }
}

/** A run goes on: where that was because of the time, it is noted when that was, by the bus's clock. */
function fire(one: Told, key: string, firedAt: number): void {
  const run = one.state.runs[key]
  const pause = run?.opening?.kind === 'pause' && run.opening.question === null ? run.opening.until : null
  const setTo = run?.status === 'retrying' ? run.at : pause
  if (setTo === null || setTo === undefined) return
  // It cannot come before it is known that there is one.
  const dueAt = Math.max(setTo, one.parkedAt.get(key)!)
  one.firings.push({ what: `${one.state.created!.executionId}/${key}`, dueAt, firedAt, setTo })
}

/** Who has had the places of a flow, how many at a time, and who has one or waits for one now. */
export async function placesOf(bus: Bus, flowId: string) {
  const [stream, subject] = ['EVT_WORKFLOWS', eventSubject('workflows', 'slots', flowId)]
  let { state, most, sequence } = { state: slots.initial, most: 0, sequence: 0 }
  const granted = new Set<string>()
  for (;;) {
    const page = await readPage(bus, stream, { seq: sequence + 1, next_by_subj: subject, batch: 512 })
    if (page.length === 0) break
    for (const stored of page) {
      sequence = stored.seq
      for (const fact of (await loadMessage(bus, slots.events, stream, stored.seq))!.facts) {
        state = slots.evolve(state, fact)
        if (fact.type === 'workflows.slots.granted') granted.add(fact.data.executionId)
      }
      most = Math.max(most, state.holders.length)
    }
  }
  const waiting = await bus.manager.streams.info('WAITING', { subjects_filter: 'waiting.>' })
  return { holders: state.holders, most, granted, waiting: Object.keys(waiting.state.subjects ?? {}) }
}

/** Resolves when a queue is empty and nobody has anything of it in hand. */
export async function drained(bus: Bus, stream: string): Promise<number> {
  let left = Number.POSITIVE_INFINITY
  for (let tries = 0; tries < 400 && left > 0; tries++) {
    left = (await bus.manager.streams.info(stream)).state.messages
    if (left > 0) await delay(100)
  }
  return left
}

const tables = ['executions', 'task_runs', 'flows', 'flow_revisions', 'triggers', 'audit']

/**
 * Folds the whole history once more, beside the read models that were kept while their processes died, and tells what differs.
 * @returns rows by table, those that are on one side only
 */
export async function differencesOfReadModels(bus: Bus, connectionString: string): Promise<Record<string, unknown[]>> {
  const again = { ...workflowProjection, name: 'replayed' }
  const database = new pg.Pool({ connectionString, max: 2 })
  const projector = startProjector({
    bus,
    connection: { connectionString },
    projection: again,
    onObservation: () => undefined,
  })
  const positions = [workflowProjection, again].map((each) => openPositions(bus, database, each))
  try {
    for (const stream of workflowProjection.streams) {
      const { state } = await bus.manager.streams.info(stream)
      for (const each of positions) await each.passed(stream, state.last_seq, 60_000)
    }
    const found: Record<string, unknown[]> = {}
    const [kept, replayed] = [schemaOf(workflowProjection), schemaOf(again)]
    for (const table of tables) {
      const { rows } = await database.query(
        `(select 'kept' as side, to_jsonb(k)::text as r from ${kept}.${table} k except select 'kept', to_jsonb(r)::text from ${replayed}.${table} r)
         union all
         (select 'replayed', to_jsonb(r)::text from ${replayed}.${table} r except select 'replayed', to_jsonb(k)::text from ${kept}.${table} k)
         limit 4`,
      )
      if (rows.length > 0) found[table] = rows
    }
    return found
  } finally {
    for (const each of positions) each.close()
    await projector.stop()
    await database.end()
  }
}

/** Whether the bus answers, after whatever was done to it. */
export async function untilThere(bus: Bus): Promise<void> {
  for (;;) {
    try {
      bus.requireConnected()
      await load(bus, execution, { stream: 'EVT_EXECUTIONS', subject: eventSubject('executions', 'execution', 'none') })
      return
    } catch (error) {
      if (!(error instanceof BusUnavailable)) throw error
      await delay(50)
    }
  }
}
