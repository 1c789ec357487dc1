import { setTimeout as sleep } from 'node:timers/promises'
import { AppendConflict } from '../../bus/append.ts'
import { appendBatch } from '../../bus/batch.ts'
import type { Bus } from '../../bus/connect.ts'
import { carrying, decide } from '../../bus/decide.ts'
import { load, type Place } from '../../bus/load.ts'
import { type Aggregate, causedId, type Fact, newId } from '../../bus/message.ts'
import { eventSubject } from '../../bus/subject.ts'
import {
  type CapacityFact,
  type CapacityState,
  capacity,
  decideFree,
  decideTake,
} from '../../schemas/functions/capacity.ts'
import {
  type Deploy,
  decideDelete,
  decideDeploy,
  type FunctionFact,
  type FunctionState,
  functionAggregate,
  type Moment,
} from '../../schemas/functions/function.ts'
import type { FunctionView } from './view.ts'

export interface StoreOptions {
  readonly maxFunctions: number
  readonly view: FunctionView
}

/** The decisions on functions. Each resolves when this gateway's own view has it; every call can throw {BusUnavailable}. */
export interface FunctionStore {
  /** @throws {Rejected} `functions/limit-reached` for a new id; replacing one at the limit works. */
  deploy(command: Deploy): Promise<void>
  /** @throws {Rejected} `functions/not-found` */
  remove(functionId: string): Promise<void>
  /** Any decision that changes how many functions there are in no way. The state is the newest; the decision may be asked again. */
  change(
    functionId: string,
    ask: (state: FunctionState, moment: Moment) => FunctionFact[],
    actor?: string,
  ): Promise<void>
}

const stream = 'EVT_FUNCTIONS'
const capacityPlace: Place = { stream, subject: eventSubject('functions', 'capacity', 'all') }
/** Deploys of new ids meet on one subject. */
const retries = 40
const viewMs = 2_000

export function functionStore(bus: Bus, { maxFunctions, view }: StoreOptions): FunctionStore {
  let last: Promise<unknown> = Promise.resolve()
  /** One at a time in this gateway: others of ours would only meet. */
  const counted = (work: () => Promise<void>): Promise<void> => {
    const next = last.then(work)
    last = next.catch(() => undefined)
    return next
  }
  const seen = (id: string) => view.passed(id, viewMs)
  const change: FunctionStore['change'] = async (functionId, ask) => {
    const id = newId()
    const { facts } = await decide(bus, {
      ...placeOf(functionId),
      id,
      aggregate: functionAggregate,
      decide: (state, sequence) => ask(state, { now: Date.now(), sequence }),
    })
    if (facts.length > 0) await seen(id)
  }
  const together = (functionId: string, ask: Ask) =>
    counted(async () => {
      const id = newId()
      if (await appendBoth(bus, functionId, id, ask)) await seen(id)
    })
  return {
    change,
    async deploy(command) {
      const { functionId } = command
      // The view may be behind; what counts is decided on the newest state.
      if (view.has(functionId) && (await replaced(change, command))) return
      await together(functionId, (found, slots, moment) => ({
        facts: decideDeploy(found, command, moment),
        slots: found.stage === 'deployed' ? [] : decideTake(slots, functionId, maxFunctions),
      }))
    },
    remove: (functionId) =>
      together(functionId, (state, _slots, moment) => ({
        facts: decideDelete(state, functionId, moment),
        slots: decideFree(functionId),
      })),
  }
}

/** False when it was deleted meanwhile. */
async function replaced(change: FunctionStore['change'], command: Deploy): Promise<boolean> {
  let there = false
  await change(command.functionId, (state, moment) => {
    there = state.stage === 'deployed'
    return there ? decideDeploy(state, command, moment) : []
  })
  return there
}

type Ask = (
  state: FunctionState,
  slots: CapacityState,
  moment: Moment,
) => { readonly facts: readonly FunctionFact[]; readonly slots: readonly CapacityFact[] }

/** The function and the count of functions change together or not at all. False when nothing was decided. */
async function appendBoth(bus: Bus, functionId: string, id: string, ask: Ask): Promise<boolean> {
  const place = placeOf(functionId)
  for (let retry = 0; ; retry++) {
    const [found, slots] = await Promise.all([load(bus, functionAggregate, place), load(bus, capacity, capacityPlace)])
    const decided = ask(found.state, slots.state, { now: Date.now(), sequence: found.sequence })
    const appends = [
      pending(functionAggregate, { ...place, ...found }, id, decided.facts),
      pending(capacity, { ...capacityPlace, ...slots }, causedId(id, 'capacity'), decided.slots),
    ].flat()
    if (appends.length === 0) return false
    try {
      await appendBatch(bus, appends)
      return true
    } catch (error) {
      if (!(error instanceof AppendConflict) || retry === retries) throw error
      await sleep(Math.random() * Math.min(100, 5 * 2 ** retry))
    }
  }
}

function pending<State, F extends Fact>(
  aggregate: Aggregate<State, F>,
  { stream, subject, state, sequence }: Place & { readonly state: State; readonly sequence: number },
  id: string,
  facts: readonly F[],
) {
  if (facts.length === 0) return []
  const after = facts.reduce((folded, fact) => aggregate.evolve(folded, fact), state)
  const message = { id, facts, ...carrying(aggregate, after) }
  return [{ stream, subject, expectedSequence: sequence, events: aggregate.events, message }]
}

function placeOf(functionId: string): Place {
  return { stream, subject: eventSubject('functions', 'function', functionId) }
}
