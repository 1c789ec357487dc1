import { setTimeout as sleep } from 'node:timers/promises'
import { type Append, AppendConflict, append } from './append.ts'
import { appendBatch } from './batch.ts'
import type { Bus } from './connect.ts'
import { carrying, type Decided, type Decision } from './decide.ts'
import { type Loaded, load } from './load.ts'
import { type Aggregate, type Fact, newId } from './message.ts'

/** A decision on another aggregate of the same stream. */
export interface AlsoDecided {
  readonly subject: string
  /** Appends nothing to it when it decides nothing. @throws what decides against it */
  readonly add: (bus: Bus, stream: string, actor: string | undefined) => Promise<Append<Fact> | null>
}

export function also<State, F extends Fact>(
  subject: string,
  aggregate: Aggregate<State, F>,
  decide: (state: State) => readonly F[],
): AlsoDecided {
  return {
    subject,
    async add(bus, stream, actor) {
      const place = { stream, subject }
      const before = await load(bus, aggregate, place)
      return part(aggregate, place, before, decide(before.state), actor)
    },
  }
}

const conflictRetries = 10

/**
 * Decides on an aggregate and on what must agree with it: all is stored together, or nothing.
 *
 * @param others what else is to be decided, of what the first was and is to be
 * @throws {AppendConflict} after too many; {BusUnavailable}; what a decision throws.
 */
export async function decideTogether<State, F extends Fact>(
  bus: Bus,
  { stream, subject, aggregate, decide, actor }: Omit<Decision<State, F>, 'id' | 'retries'>,
  others: (before: State, after: State) => readonly AlsoDecided[],
): Promise<Decided<State, F>> {
  for (let retry = 0; ; retry++) {
    const before = await load(bus, aggregate, { stream, subject })
    const facts = decide(before.state, before.sequence)
    const state = facts.reduce(aggregate.evolve, before.state)
    const own = part(aggregate, { stream, subject }, before, facts, actor)
    if (own === null) return { state, sequence: before.sequence, facts }
    const more = await Promise.all(others(before.state, state).map((other) => other.add(bus, stream, actor)))
    const parts = [own, ...more.filter((each) => each !== null)]
    try {
      if (parts.length === 1) return { state, facts, sequence: (await append(bus, own)).sequence }
      await appendBatch(bus, parts)
      return { state, facts, sequence: (await load(bus, aggregate, { stream, subject })).sequence }
    } catch (error) {
      if (!(error instanceof AppendConflict) || retry === conflictRetries) throw error
      await sleep(Math.random() * Math.min(200, 5 * 2 ** retry))
    }
  }
}

function part<State, F extends Fact>(
  aggregate: Aggregate<State, F>,
  place: { readonly stream: string; readonly subject: string },
  before: Loaded<State>,
  facts: readonly F[],
  actor: string | undefined,
): Append<Fact> | null {
  if (facts.length === 0) return null
  const state = facts.reduce(aggregate.evolve, before.state)
  const message = { id: newId(), facts, ...(actor !== undefined && { actor }), ...carrying(aggregate, state) }
  // Whoever stores it asks only what any set of events can be asked.
  const events = aggregate.events as unknown as Append<Fact>['events']
  return { ...place, expectedSequence: before.sequence, events, message }
}
