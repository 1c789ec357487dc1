import { setTimeout as delay } from 'node:timers/promises'
import { LRUCache } from 'lru-cache'
import { AppendConflict, append } from '../../bus/append.ts'
import { appendBatch } from '../../bus/batch.ts'
import type { Bus } from '../../bus/connect.ts'
import { carrying, decide } from '../../bus/decide.ts'
import { type Loaded, lastMessage, load, readMessage } from '../../bus/load.ts'
import { type Aggregate, type Fact, newId } from '../../bus/message.ts'
import { readPage } from '../../bus/page.ts'
import { asking } from '../../bus/publish.ts'
import { eventSubject } from '../../bus/subject.ts'
import { Rejected } from '../../schemas/failure.ts'
import {
  decideDelete,
  decideEnable,
  decideRevise,
  type FlowRevised,
  type FlowState,
  flow,
  flowEvents,
  requireFlow,
} from '../../schemas/workflows/flow.ts'
import { decideClaim, decideRelease, flowName } from '../../schemas/workflows/flow-name.ts'
import type { FlowPlan } from '../../schemas/workflows/flow-plan.ts'

export type SavedFlow = Extract<FlowState, { stage: 'saved' }>
type Revision = ReturnType<typeof FlowRevised.of>['data']

/** What a flow shall be from now on. */
export interface FlowDraft {
  readonly name: string
  readonly namespace: string
  readonly yamlContent: string
  readonly plan: FlowPlan
  readonly restoredFrom?: number
}

export interface Change {
  readonly flowId: string
  readonly by: string
  readonly at: number
}

interface Stored {
  readonly flow: SavedFlow
  /** In `EVT_WORKFLOWS`. */
  readonly sequence: number
}

const stream = 'EVT_WORKFLOWS'
const conflictRetries = 10
const revisionsPage = 256

export function flowPlace(flowId: string) {
  return { stream, subject: eventSubject('workflows', 'flow', flowId) }
}

/** No namespace holds a slash. */
function namePlace({ namespace, name }: Pick<FlowDraft, 'namespace' | 'name'>) {
  return { stream, subject: eventSubject('workflows', 'flow-name', `${namespace}/${name}`) }
}

const known = new WeakMap<Bus, LRUCache<string, Loaded<FlowState>>>()

/** A flow as it is now; one that has not changed since it was last asked for is not folded again. @throws {BusUnavailable} */
export async function loadFlow(bus: Bus, flowId: string): Promise<Loaded<FlowState>> {
  const cache = known.get(bus) ?? new LRUCache<string, Loaded<FlowState>>({ max: 1_000 })
  known.set(bus, cache)
  const { subject } = flowPlace(flowId)
  const seen = cache.get(flowId)
  if (seen !== undefined && (await lastMessage(bus, stream, subject))?.seq === seen.sequence) return seen
  const loaded = await load(bus, flow, flowPlace(flowId))
  if (loaded.sequence > 0) cache.set(flowId, loaded)
  return loaded
}

/** @throws {Rejected} `workflows/flow-not-found`; {BusUnavailable} */
export async function requireSaved(bus: Bus, flowId: string): Promise<Stored> {
  const { state, sequence } = await loadFlow(bus, flowId)
  return { flow: requireFlow(state), sequence }
}

/** The id of the flow that has a name; null when none has. @throws {BusUnavailable} */
export async function flowOfName(bus: Bus, place: Pick<FlowDraft, 'namespace' | 'name'>): Promise<string | null> {
  return (await load(bus, flowName, namePlace(place))).state.flowId
}

/**
 * A flow of its own, or another revision of one: the name and the text are decided together, or not at all.
 *
 * @param draft made of the flow as it is; it may refuse
 * @throws {Rejected} `workflows/flow-exists`, and what the draft throws; {AppendConflict} after too many; {BusUnavailable}
 */
export async function saveFlow(
  bus: Bus,
  { flowId, by, at }: Change,
  draft: (before: FlowState) => FlowDraft,
): Promise<Stored> {
  return await retrying(async () => {
    const before = await load(bus, flow, flowPlace(flowId))
    const wanted = draft(before.state)
    const { name, namespace } = wanted
    const facts = decideRevise(before.state, { ...wanted, flowId, by, at })
    const claimed = await load(bus, flowName, namePlace(wanted))
    const parts = [
      part(flow, flowPlace(flowId), before, facts, by),
      part(flowName, namePlace(wanted), claimed, decideClaim(claimed.state, { namespace, name, flowId }), by),
      ...(await releasedName(bus, before.state, { namespace, name }, by)),
    ]
    return await stored(bus, flowId, parts)
  })
}

/** @throws {Rejected} `workflows/flow-not-found`; {AppendConflict}; {BusUnavailable} */
export async function deleteFlow(bus: Bus, { flowId, by, at }: Change): Promise<number> {
  return await retrying(async () => {
    const before = await load(bus, flow, flowPlace(flowId))
    const facts = decideDelete(before.state, by, at)
    const parts = [
      part(flow, flowPlace(flowId), before, facts, by),
      ...(await releasedName(bus, before.state, null, by)),
    ]
    await store(bus, parts)
    return (await load(bus, flow, flowPlace(flowId))).sequence
  })
}

/** @throws {Rejected} `workflows/flow-not-found`; {AppendConflict}; {BusUnavailable} */
export async function enableFlow(bus: Bus, { flowId, by, at }: Change, enabled: boolean): Promise<Stored> {
  const { state, sequence } = await decide(bus, {
    ...flowPlace(flowId),
    aggregate: flow,
    actor: by,
    decide: (before) => decideEnable(before, enabled, by, at),
  })
  return { flow: requireFlow(state), sequence }
}

/** One revision of a flow that is not deleted. @throws {Rejected} `workflows/flow-not-found`; {BusUnavailable} */
export async function flowRevision(bus: Bus, flowId: string, revision: number): Promise<Revision> {
  const { flow: saved } = await requireSaved(bus, flowId)
  if (saved.latest.revision === revision) return saved.latest
  const { subject } = flowPlace(flowId)
  for (let sequence = 0; ; ) {
    const query = { seq: sequence + 1, next_by_subj: subject, batch: revisionsPage }
    const page = await asking(bus, () => readPage(bus, stream, query))
    if (page.length === 0) throw new Rejected('workflows/flow-not-found', `The flow has no revision ${revision}`)
    for (const message of page) {
      sequence = message.seq
      for (const { type, data } of (await readMessage(bus, flowEvents, message)).facts) {
        if (type === 'workflows.flow.revised' && data.revision === revision) return data
      }
    }
  }
}

type Part = Parameters<typeof appendBatch>[1][number]

function part<State, F extends Fact>(
  aggregate: Aggregate<State, F>,
  place: { readonly stream: string; readonly subject: string },
  before: Loaded<State>,
  facts: readonly F[],
  actor: string,
): Part {
  const state = facts.reduce(aggregate.evolve, before.state)
  const message = { id: newId(), actor, facts, ...carrying(aggregate, state) }
  return { ...place, expectedSequence: before.sequence, events: aggregate.events, message } as unknown as Part
}

/** The name a flow had, when it is to have another or none. */
async function releasedName(
  bus: Bus,
  before: FlowState,
  wanted: Pick<FlowDraft, 'namespace' | 'name'> | null,
  by: string,
): Promise<readonly Part[]> {
  if (before.stage !== 'saved') return []
  const { namespace, name, flowId } = before.latest
  if (wanted !== null && wanted.name === name && wanted.namespace === namespace) return []
  const place = namePlace({ namespace, name })
  const held = await load(bus, flowName, place)
  return [part(flowName, place, held, decideRelease(held.state, { namespace, name, flowId }), by)]
}

async function stored(bus: Bus, flowId: string, parts: readonly Part[]): Promise<Stored> {
  await store(bus, parts)
  const { state, sequence } = await loadFlow(bus, flowId)
  return { flow: requireFlow(state), sequence }
}

async function store(bus: Bus, parts: readonly Part[]): Promise<void> {
  const changed = parts.filter(({ message }) => message.facts.length > 0)
  const [first] = changed
  if (first === undefined) return
  if (changed.length === 1) await append(bus, first)
  else await appendBatch(bus, changed)
}

async function retrying<T>(attempt: () => Promise<T>): Promise<T> {
  for (let retry = 0; ; retry++) {
    try {
      return await attempt()
    } catch (error) {
      if (!(error instanceof AppendConflict) || retry === conflictRetries) throw error
      await delay(Math.random() * Math.min(200, 5 * 2 ** retry))
    }
  }
}
