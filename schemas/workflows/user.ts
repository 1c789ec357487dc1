import { type Static, Type } from 'typebox'
import { type Aggregate, defineEvent, defineEvents, type EventSet } from '../../bus/message.ts'
import { Rejected } from '../failure.ts'
import { type Role, roles } from './role.ts'

const closed = { additionalProperties: false } as const
const Time = Type.Integer({ description: 'epoch ms' })
const RoleName = Type.Unsafe<Role>(Type.Enum([...roles]))
const Password = Type.Object(
  { keyId: Type.String(), nonce: Type.String(), ciphertext: Type.String(), context: Type.String() },
  { description: 'the argon2id digest, sealed' },
)
const own = { username: Type.String(), by: Type.String(), at: Time }

const Registered = defineEvent(
  'workflows.user.registered',
  Type.Object(
    {
      ...own,
      userId: Type.String({ description: 'new for a name that is used again' }),
      role: RoleName,
      password: Password,
    },
    closed,
  ),
)
const RoleChanged = defineEvent('workflows.user.role-changed', Type.Object({ ...own, role: RoleName }, closed))
/** Who is disabled has no sessions and gets none. */
const Enabled = defineEvent('workflows.user.enabled', Type.Object({ ...own, enabled: Type.Boolean() }, closed))
/** All sessions end. */
const PasswordChanged = defineEvent(
  'workflows.user.password-changed',
  Type.Object({ ...own, password: Password }, closed),
)
/** The same password under today's key and parameters. */
const PasswordResealed = defineEvent(
  'workflows.user.password-resealed',
  Type.Object({ password: Password, at: Time }, closed),
)
/** All sessions end. */
const SignedOut = defineEvent('workflows.user.signed-out', Type.Object(own, closed))
const Deleted = defineEvent('workflows.user.deleted', Type.Object(own, closed))

const userEvents = defineEvents(Registered, RoleChanged, Enabled, PasswordChanged, PasswordResealed, SignedOut, Deleted)
export type UserFact = typeof userEvents extends EventSet<infer F> ? F : never
export type SealedPassword = Static<typeof Password>

export interface User {
  readonly userId: string
  /** As it was written at registering. */
  readonly username: string
  readonly role: Role
  readonly enabled: boolean
  readonly password: SealedPassword
  /** Raised when all sessions end: those of an older one count no more. */
  readonly epoch: number
  readonly createdAt: number
  readonly createdBy: string
  readonly updatedAt: number
}
export type UserState = { readonly stage: 'absent' } | { readonly stage: 'registered'; readonly user: User }

/** Who may sign in. Subject `evt.workflows.user.<name in small letters>`, stream `EVT_WORKFLOWS`: so a name is taken once. */
export const userAggregate: Aggregate<UserState, UserFact> = {
  events: userEvents,
  initial: { stage: 'absent' },
  evolve(state, fact) {
    if (fact.type === 'workflows.user.registered') {
      const { userId, username, role, password, by, at } = fact.data
      const user = { userId, username, role, password, enabled: true, epoch: 1 }
      return { stage: 'registered', user: { ...user, createdAt: at, createdBy: by, updatedAt: at } }
    }
    if (state.stage === 'absent' || fact.type === 'workflows.user.deleted') return { stage: 'absent' }
    return { stage: 'registered', user: { ...state.user, ...changeOf(state.user, fact), updatedAt: fact.data.at } }
  },
}

function changeOf(
  { epoch }: User,
  fact: Exclude<UserFact, { type: 'workflows.user.registered' | 'workflows.user.deleted' }>,
): Partial<User> {
  switch (fact.type) {
    case 'workflows.user.role-changed':
      return { role: fact.data.role }
    case 'workflows.user.enabled':
      return { enabled: fact.data.enabled, epoch: fact.data.enabled ? epoch : epoch + 1 }
    case 'workflows.user.password-changed':
      return { password: fact.data.password, epoch: epoch + 1 }
    case 'workflows.user.password-resealed':
      return { password: fact.data.password }
    case 'workflows.user.signed-out':
      return { epoch: epoch + 1 }
  }
}

const nameSyntax = /^[a-z0-9][a-z0-9._@+-]{0,63}$/i
/** Who else acts. */
const reserved = ['anonymous', 'busbar', 'cli', 'system']

/** What a name is known by: small and capital letters are the same; null when nobody can have it. */
export function userKey(username: string): string | null {
  return nameSyntax.test(username) ? username.toLowerCase() : null
}

/** @throws {Rejected} `http/bad-request` */
export function requireUsername(username: unknown): string {
  const key = typeof username === 'string' ? userKey(username) : null
  const reason =
    key === null
      ? 'must be 1 to 64 letters, digits or . _ @ + -, with a letter or digit first'
      : reserved.includes(key)
        ? 'is reserved'
        : null
  if (reason === null) return username as string
  throw new Rejected('http/bad-request', `username ${reason}`, { details: { field: 'username', reason } })
}

interface By {
  readonly by: string
  readonly at: number
}

/** @throws {Rejected} `workflows/user-exists` */
export function decideRegister(
  state: UserState,
  user: Pick<User, 'userId' | 'username' | 'role' | 'password'>,
  { by, at }: By,
): readonly UserFact[] {
  if (state.stage === 'absent') return [Registered.of({ ...user, by, at })]
  throw new Rejected('workflows/user-exists', `There is a user ${state.user.username}`)
}

/** What is to become of a user. */
export interface UserChange {
  readonly role?: Role
  readonly enabled?: boolean
  readonly password?: SealedPassword
}

/** Only what differs. @throws {Rejected} `workflows/user-not-found` */
export function decideChangeUser(state: UserState, change: UserChange, { by, at }: By): readonly UserFact[] {
  const { username, role, enabled } = requireUser(state)
  const own = { username, by, at }
  const facts: UserFact[] = []
  if (change.role !== undefined && change.role !== role) facts.push(RoleChanged.of({ ...own, role: change.role }))
  if (change.enabled !== undefined && change.enabled !== enabled) {
    facts.push(Enabled.of({ ...own, enabled: change.enabled }))
  }
  if (change.password !== undefined) facts.push(PasswordChanged.of({ ...own, password: change.password }))
  return facts
}

/** Nothing when the password is another one by now. */
export function decideReseal(
  state: UserState,
  { before, after, at }: { readonly before: SealedPassword; readonly after: SealedPassword; readonly at: number },
): readonly UserFact[] {
  if (state.stage === 'absent' || state.user.password.ciphertext !== before.ciphertext) return []
  return [PasswordResealed.of({ password: after, at })]
}

/** @throws {Rejected} `workflows/user-not-found` */
export function decideSignOut(state: UserState, { by, at }: By): readonly UserFact[] {
  return [SignedOut.of({ username: requireUser(state).username, by, at })]
}

/** @throws {Rejected} `workflows/user-not-found` */
export function decideDeleteUser(state: UserState, { by, at }: By): readonly UserFact[] {
  return [Deleted.of({ username: requireUser(state).username, by, at })]
}

/** @throws {Rejected} `workflows/user-not-found` */
export function requireUser(state: UserState): User {
  if (state.stage === 'registered') return state.user
  throw new Rejected('workflows/user-not-found', 'There is no such user')
}
