import { setTimeout as sleep } from 'node:timers/promises'
import { AppendConflict, append } from './append.ts'
import type { Bus } from './connect.ts'
import { load, type Place } from './load.ts'
import { type Aggregate, type Fact, type Message, newId } from './message.ts'

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

/** A larger state is not carried: the facts are folded at loading instead. */
const maxStateBytes = 16 * 1024

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
    const { id: lastId, ...before } = guessed
      ? { state: aggregate.initial, sequence: 0, id: null }
      : await load(bus, aggregate, { stream, subject })
    if (lastId === id) return { ...before, facts: [] }
    const facts = ask(before.state, before.sequence)
    if (facts.length === 0) return { ...before, facts }
    const state = facts.reduce((folded, fact) => aggregate.evolve(folded, fact), before.state)
    const message = { ...told, id, facts, ...carrying(aggregate, state) }
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

/** The part of a message that carries the state, while it is small. */
export function carrying<State, F extends Fact>(aggregate: Aggregate<State, F>, state: State): Pick<Message, 'state'> {
  if (Buffer.byteLength(JSON.stringify(state) ?? '') > maxStateBytes) return {}
  return { state: { version: aggregate.stateVersion ?? 1, data: state } }
}
