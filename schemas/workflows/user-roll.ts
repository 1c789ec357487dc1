import { Type } from 'typebox'
import { type Aggregate, defineEvent, defineEvents, type EventSet } from '../../bus/message.ts'
import { Rejected } from '../failure.ts'
import type { UserState } from './user.ts'

const Counted = defineEvent(
  'workflows.user-roll.counted',
  Type.Object(
    {
      users: Type.Integer({ minimum: 0 }),
      admins: Type.Array(Type.String(), { description: 'who can manage users: those that are enabled' }),
    },
    { additionalProperties: false },
  ),
)
const rollEvents = defineEvents(Counted)
type RollFact = typeof rollEvents extends EventSet<infer F> ? F : never

interface UserRoll {
  readonly users: number
  readonly admins: readonly string[]
}

/** What no user alone can tell. Subject `evt.workflows.user-roll.all`, stream `EVT_WORKFLOWS`, written with the user in one batch. */
export const userRoll: Aggregate<UserRoll, RollFact> = {
  events: rollEvents,
  initial: { users: 0, admins: [] },
  evolve: (_state, { data }) => data,
}

const maxUsers = 10_000

/** Nothing when it stays the same. @throws {Rejected} `workflows/user-limit`, `workflows/last-admin` */
export function decideCount(
  { users, admins }: UserRoll,
  { key, before, after }: { readonly key: string; readonly before: UserState; readonly after: UserState },
): readonly RollFact[] {
  const added = Number(after.stage === 'registered') - Number(before.stage === 'registered')
  const [was, is] = [isAdmin(before), isAdmin(after)]
  if (added === 0 && was === is) return []
  if (users + added > maxUsers)
    throw new Rejected('workflows/user-limit', `There are ${maxUsers} users, and may be no more`)
  const others = admins.filter((admin) => admin !== key)
  if (was && !is && others.length === 0) {
    throw new Rejected('workflows/last-admin', `${key} is the last admin`, {
      hint: 'Make another user an admin before.',
    })
  }
  return [Counted.of({ users: users + added, admins: is ? [...others, key] : others })]
}

function isAdmin(state: UserState): boolean {
  return state.stage === 'registered' && state.user.enabled && state.user.role === 'admin'
}
