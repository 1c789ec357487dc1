import type { Bus } from '../../bus/connect.ts'
import type { Decided } from '../../bus/decide.ts'
import type { KeyRing } from '../../bus/sealed.ts'
import { eventSubject } from '../../bus/subject.ts'
import { also, decideTogether } from '../../bus/together.ts'
import { Rejected } from '../../schemas/failure.ts'
import type { Role } from '../../schemas/workflows/role.ts'
import {
  decideRegister,
  type SealedPassword,
  type User,
  type UserFact,
  type UserState,
  userAggregate,
  userKey,
} from '../../schemas/workflows/user.ts'
import { decideCount, userRoll } from '../../schemas/workflows/user-roll.ts'

const stream = 'EVT_WORKFLOWS'

export function userPlace(key: string) {
  return { stream, subject: eventSubject('workflows', 'user', key) }
}

/** The digest of a password as it is stored. */
export function sealedPassword(ring: KeyRing, userId: string, digest: string): SealedPassword {
  return ring.seal(digest, `user/${userId}/password`)
}

/** @throws {SealBroken} */
export function openedPassword(ring: KeyRing, { userId, password }: User): string {
  return ring.open(password, `user/${userId}/`)
}

/** @throws {Rejected} `workflows/user-exists`, `workflows/user-limit`; {BusUnavailable} */
export async function registerUser(
  bus: Bus,
  user: { readonly userId: string; readonly username: string; readonly role: Role; readonly password: SealedPassword },
  by: string,
  at: number,
): Promise<Decided<UserState, UserFact>> {
  return await changeUser(bus, user.username, by, (state) => decideRegister(state, user, { by, at }))
}

/**
 * Decides on a user; how many there are, and that one of them is an admin, goes with it.
 * @throws {Rejected} of the decision, `workflows/user-not-found`, `workflows/last-admin`; {AppendConflict} after too many; {BusUnavailable}
 */
export async function changeUser(
  bus: Bus,
  username: string,
  actor: string,
  decide: (before: UserState) => readonly UserFact[],
): Promise<Decided<UserState, UserFact>> {
  const key = userKey(username)
  if (key === null) throw new Rejected('workflows/user-not-found', 'There is no such user')
  const decision = { ...userPlace(key), aggregate: userAggregate, actor, decide }
  return await decideTogether(bus, decision, (before, after) => [
    also(eventSubject('workflows', 'user-roll', 'all'), userRoll, (roll) => decideCount(roll, { key, before, after })),
  ])
}
