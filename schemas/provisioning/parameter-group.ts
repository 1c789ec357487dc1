import { type Static, Type } from 'typebox'
import { type Aggregate, defineEvent, defineEvents, type FactOf } from '../../bus/message.ts'
import { Rejected } from '../failure.ts'
import { isOtherRequest, otherRequest } from './operation.ts'

const closed = { additionalProperties: false } as const
const own = { name: Type.String(), by: Type.String(), at: Type.Integer({ description: 'epoch ms' }) }

const GroupSaved = defineEvent(
  'provisioning.parameter-group.saved',
  Type.Object(
    {
      ...own,
      description: Type.String(),
      databaseType: Type.String(),
      parameters: Type.Record(Type.String(), Type.String()),
      key: Type.Optional(Type.String({ description: 'of the request, by its Idempotency-Key' })),
    },
    closed,
  ),
)
const GroupDeleted = defineEvent('provisioning.parameter-group.deleted', Type.Object(own, closed))

type GroupFact = FactOf<typeof GroupSaved | typeof GroupDeleted>
type Saved = Static<(typeof GroupSaved)['schema']>

export type GroupState =
  | { readonly stage: 'absent' }
  | {
      readonly stage: 'saved'
      readonly saved: Saved
      readonly version: number
      /** The key of the request that made it. */
      readonly madeBy?: string | undefined
      readonly createdAt: number
      readonly updatedAt: number
    }
export type SavedGroup = Extract<GroupState, { stage: 'saved' }>

/** Parameters under a name, for any number of instances. Subject `evt.provisioning.parameter-group.<name>`. */
export const parameterGroup: Aggregate<GroupState, GroupFact> = {
  events: defineEvents(GroupSaved, GroupDeleted),
  initial: { stage: 'absent' },
  evolve(state, fact) {
    if (fact.type === 'provisioning.parameter-group.deleted') return { stage: 'absent' }
    const { at } = fact.data
    const before = state.stage === 'saved' ? state : { version: 0, createdAt: at, madeBy: fact.data.key }
    const { version, createdAt, madeBy } = before
    return { stage: 'saved', saved: fact.data, version: version + 1, madeBy, createdAt, updatedAt: at }
  },
}

/**
 * Nothing when this very request has made it.
 * @param replace whether one that is there is meant
 * @throws {Rejected} `provisioning/parameter-group-exists`, `-not-found`, `provisioning/idempotency-mismatch`
 */
export function decideSaveGroup(state: GroupState, saved: Saved, replace: boolean): readonly GroupFact[] {
  if (replace) requireGroup(state, saved.name)
  else if (state.stage === 'saved') {
    const { key } = saved
    if (key !== undefined && key === state.madeBy) return []
    if (key !== undefined && isOtherRequest(key, state.madeBy ?? '')) throw otherRequest()
    throw new Rejected('provisioning/parameter-group-exists', `A parameter group ${saved.name} exists`)
  }
  return [GroupSaved.of(saved)]
}

/** @throws {Rejected} `provisioning/parameter-group-not-found`, `provisioning/parameter-group-in-use` */
export function decideDeleteGroup(
  state: GroupState,
  { attachedTo, ...own }: { name: string; by: string; at: number; attachedTo: readonly string[] },
): readonly GroupFact[] {
  requireGroup(state, own.name)
  if (attachedTo.length === 0) return [GroupDeleted.of(own)]
  throw new Rejected('provisioning/parameter-group-in-use', `The parameter group ${own.name} is in use`, {
    details: { attachedTo: attachedTo.slice(0, 100) },
  })
}

/** @throws {Rejected} `provisioning/parameter-group-not-found` */
export function requireGroup(state: GroupState, name: string): SavedGroup {
  if (state.stage === 'saved') return state
  throw new Rejected('provisioning/parameter-group-not-found', `There is no parameter group ${name}`)
}

type Parameters = Saved['parameters']

/**
 * What an instance has from its group follows it, null for what the group says no longer; what the instance names itself stays.
 * @param before what the group said when the instance followed it last
 */
export function groupChanges(
  own: Parameters,
  before: Parameters,
  after: Parameters,
): Readonly<Record<string, string | null>> {
  const names = [...new Set([...Object.keys(before), ...Object.keys(after)])]
  const followed = names.filter((name) => own[name] === before[name] && own[name] !== after[name])
  return Object.fromEntries(followed.map((name) => [name, after[name] ?? null]))
}
