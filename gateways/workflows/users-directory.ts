import type { Bus } from '../../bus/connect.ts'
import { type FollowObservation, follow } from '../../bus/follow.ts'
import { load } from '../../bus/load.ts'
import { type User, type UserState, userAggregate, userKey } from '../../schemas/workflows/user.ts'
import { userPlace } from './users-store.ts'

/** All users, as they are now. */
export interface UserDirectory {
  find(username: string): User | null
  /** As the bus has it now. @throws {BusUnavailable} */
  refresh(username: string): Promise<User | null>
  /** The newest first. */
  all(): readonly User[]
  /** What somebody has just decided here: the bus tells it a moment later. */
  learn(username: string, state: UserState, sequence: number): void
  close(): Promise<void>
}

/** @throws {BusUnavailable} */
export async function openUserDirectory(
  bus: Bus,
  onObservation: (observation: FollowObservation) => void,
): Promise<UserDirectory> {
  const known = new Map<string, { readonly state: UserState; readonly sequence: number }>()
  const learn = (key: string, state: UserState, sequence: number) => {
    if ((known.get(key)?.sequence ?? 0) < sequence) known.set(key, { state, sequence })
  }
  const subject = 'evt.workflows.user'
  const follower = await follow(bus, {
    stream: 'EVT_WORKFLOWS',
    subject,
    aggregate: userAggregate,
    onState: learn,
    onObservation,
  })
  const find = (username: string) => {
    const state = known.get(userKey(username) ?? '')?.state
    return state?.stage === 'registered' ? state.user : null
  }
  return {
    find,
    async refresh(username) {
      const key = userKey(username)
      if (key === null) return null
      const { state, sequence } = await load(bus, userAggregate, userPlace(key))
      learn(key, state, sequence)
      return find(username)
    },
    all: () =>
      [...known.values()]
        .flatMap(({ state }) => (state.stage === 'registered' ? [state.user] : []))
        .sort((left, right) => right.createdAt - left.createdAt || (left.username < right.username ? 1 : -1)),
    learn: (username, state, sequence) => learn(userKey(username) ?? '', state, sequence),
    close: () => follower.close(),
  }
}
