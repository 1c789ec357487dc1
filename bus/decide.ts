import { setTimeout as sleep } from 'node:timers/promises'
import { AppendConflict, append } from './append.ts'
import type { Bus } from './connect.ts'
import { load, type Place, trailFrom } from './load.ts'
import { type Aggregate, evolved, type Fact, type Message, newId, type Trail } from './message.ts'

export interface Decision<State, F extends Fact>
  extends Place,
    Partial<Pick<Message, 'id' | 'actor' | 'causation' | 'correlation' | 'traceparent'>> {
  readonly aggregate: Aggregate<State, F>
  /** Pure; no facts means nothing is appended. What it throws goes to the caller. `sequence`: the stream's, of the last message. */
  readonly decide: (state: State, sequence: number) => readonly F[]
  /** How often to decide again after a conflict. Default 10. */
  readonly retries?: number
  /** Most likely there is nothing yet: that is not asked first, but found out by the append. */
  readonly likelyNew?: boolean
}

export interface Decided<State, F extends Fact> {
  readonly state: State
  /** The stream sequence of the subject's last message, for waiting until a projection has passed it. */
  readonly sequence: number
  /** What was appended now: none when nothing was decided, or when this id had been decided before. */
  readonly facts: readonly F[]
}

/** A larger state is carried only now and then. */
const maxStateBytes = 16 * 1024
/** One that is larger than this never is: the facts are folded at loading instead. */
const maxCarriedBytes = 32 * 1024 * 1024

/**
 * Loads, decides, appends; decides again when someone else was faster. With an `id` that is the last message's, or within
 * the duplicate window any earlier one's, nothing is decided twice.
 *
 * @throws {AppendConflict} after the last retry; {BusUnavailable}; {MessageInvalid}; what `decide` throws.
 */
export async function decide<State, F extends Fact>(
  bus: Bus,
  decision: Decision<State, F>,
): Promise<Decided<State, F>> {
  const { stream, subject, aggregate, retries = 10, likelyNew = false, decide: ask, ...told } = decision
  const id = told.id ?? newId()
  for (let retry = 0; ; retry++) {
    const guessed = likelyNew && retry === 0
    const {
      id: lastId,
      trail,
      ...before
    } = guessed
      ? { state: aggregate.initial, sequence: 0, id: null, trail: trailFrom(0) }
      : await load(bus, aggregate, { stream, subject })
    if (lastId === id) return { ...before, facts: [] }
    const facts = ask(before.state, before.sequence)
    if (facts.length === 0) return { ...before, facts }
    const state = evolved(aggregate, before.state, facts)
    const message = { ...told, id, facts, ...carrying(aggregate, state, { trail, facts }) }
    try {
      const { events } = aggregate
      const appended = await append(bus, { stream, subject, expectedSequence: before.sequence, events, message })
      // What is there may have been decided with other data.
      if (appended.found && guessed) continue
      if (appended.duplicate) return { state: before.state, sequence: appended.sequence, facts: [] }
      return { state, sequence: appended.sequence, facts }
    } catch (error) {
      if (!(error instanceof AppendConflict) || retry === retries) throw error
      await sleep(Math.random() * Math.min(200, 5 * 2 ** retry))
    }
  }
}

/**
 * The part of a message that carries the state: while it is small, and else each time as much has come to the facts as it is large. So
 * it costs no more than they do, and what is read at loading stays in proportion to it, however long its history is.
 *
 * @param since what was loaded with the state it was decided on, and the facts that are added now; absent: a large one is not carried
 */
export function carrying<State, F extends Fact>(
  aggregate: Aggregate<State, F>,
  state: State,
  since?: { readonly trail: Trail; readonly facts: readonly F[] },
): Pick<Message, 'state' | 'trail'> {
  const before = since?.trail.sizeBytes ?? 0
  const longer = since && before > maxStateBytes ? longerTrail(since.trail, since.facts) : null
  // To measure it costs as much as to carry it.
  if (longer !== null && longer.bytes < before) return { trail: longer }
  const sizeBytes = Buffer.byteLength(JSON.stringify(state) ?? '')
  const carried = { state: { version: aggregate.stateVersion ?? 1, data: state } }
  if (sizeBytes <= maxStateBytes) return carried
  if (since === undefined) return {}
  const trail = longer ?? longerTrail(since.trail, since.facts)
  return trail.bytes >= sizeBytes && sizeBytes <= maxCarriedBytes ? carried : { trail: { ...trail, sizeBytes } }
}

/** Of a message with more facts that does not carry the state. */
export function longerTrail(trail: Trail, facts: readonly Fact[]): Trail {
  return { ...trail, bytes: trail.bytes + Buffer.byteLength(JSON.stringify(facts)) }
}

/** Of what is stored under a sequence, for the message after it. */
export function trailAfter({ trail }: Pick<Message, 'trail'>, sequence: number): Trail {
  return trail ?? trailFrom(sequence)
}
