import { Type } from 'typebox'
import { type Aggregate, defineEvent, defineEvents, type EventSet } from '../../bus/message.ts'

const Time = Type.Integer({ description: 'epoch ms' })
const Tried = defineEvent('workflows.attempts.tried', Type.Object({ at: Time }, { additionalProperties: false }))
const Forgiven = defineEvent('workflows.attempts.forgiven', Type.Object({}, { additionalProperties: false }))
const attemptEvents = defineEvents(Tried, Forgiven)
type AttemptFact = typeof attemptEvents extends EventSet<infer F> ? F : never

/** When it was tried lately, epoch ms, the oldest first. */
type Attempts = readonly number[]

export interface AttemptLimit {
  readonly max: number
  readonly withinMs: number
}

const longestMs = 3_600_000
const maxKept = 200

/** How often something was tried lately. Subject `attempt.<kind>.<key>`, stream `ATTEMPTS`, which forgets after an hour. */
export const attempts: Aggregate<Attempts, AttemptFact> = {
  events: attemptEvents,
  initial: [],
  evolve(state, fact) {
    if (fact.type === 'workflows.attempts.forgiven') return []
    const { at } = fact.data
    return [...state.filter((before) => before > at - longestMs), at].slice(-maxKept)
  },
}

/** How long until it may be tried again, ms; 0: now. */
export function waitMs(state: Attempts, { max, withinMs }: AttemptLimit, now: number): number {
  const lately = state.filter((at) => at > now - withinMs)
  if (lately.length < max) return 0
  return Math.max(1, lately[lately.length - max]! + withinMs - now)
}

/** Nothing when it was tried too often already: who waits is let in again. */
export function decideTry(state: Attempts, limit: AttemptLimit, now: number): readonly AttemptFact[] {
  return waitMs(state, limit, now) > 0 ? [] : [Tried.of({ at: now })]
}

export function decideForgive(state: Attempts): readonly AttemptFact[] {
  return state.length === 0 ? [] : [Forgiven.of({})]
}
