import { type Static, Type } from 'typebox'
import { type Aggregate, defineEvent, defineEvents, type EventSet } from '../../bus/message.ts'
import { Rejected } from '../failure.ts'
import type { CredentialState } from './credential.ts'

const Holder = Type.Object(
  { namespace: Type.String(), name: Type.String(), credentialId: Type.String() },
  { additionalProperties: false },
)

/** The name means this credential in its namespace from now on, and no other. */
const CredentialNameClaimed = defineEvent('workflows.credential-name.claimed', Holder)
/** The name is free again. */
const CredentialNameReleased = defineEvent('workflows.credential-name.released', Holder)

const credentialNameEvents = defineEvents(CredentialNameClaimed, CredentialNameReleased)
type CredentialNameFact = typeof credentialNameEvents extends EventSet<infer F> ? F : never
type Place = Static<typeof Holder>

export interface CredentialNameState {
  /** Null: the name is free. */
  readonly credentialId: string | null
}

/**
 * Which credential a name means. Subject `evt.workflows.credential-name.<namespace>/<name>`, stream `EVT_WORKFLOWS`, written with the
 * credential in one batch.
 */
export const credentialName: Aggregate<CredentialNameState, CredentialNameFact> = {
  events: credentialNameEvents,
  initial: { credentialId: null },
  evolve: (_state, { type, data }) => ({
    credentialId: type === 'workflows.credential-name.claimed' ? data.credentialId : null,
  }),
}

/** The id of the aggregate; no namespace holds a slash. */
export function credentialNameId({ namespace, name }: Omit<Place, 'credentialId'>): string {
  return `${namespace}/${name}`
}

interface NameChange {
  readonly nameId: string
  readonly decide: (state: CredentialNameState) => readonly CredentialNameFact[]
}

/** What a change of a credential means for names. The decisions throw {Rejected} `workflows/credential-exists`. */
export function credentialNameChanges(before: CredentialState, after: CredentialState): readonly NameChange[] {
  const [had, has] = [placeOf(before), placeOf(after)]
  if (had !== null && has !== null && credentialNameId(had) === credentialNameId(has)) return []
  return [
    ...(had === null ? [] : [{ nameId: credentialNameId(had), decide: releasing(had) }]),
    ...(has === null ? [] : [{ nameId: credentialNameId(has), decide: claiming(has) }]),
  ]
}

function placeOf(state: CredentialState): Place | null {
  if (state.stage !== 'saved') return null
  const { namespace, name, credentialId } = state.saved
  return { namespace, name, credentialId }
}

function claiming(place: Place) {
  return ({ credentialId }: CredentialNameState): readonly CredentialNameFact[] => {
    if (credentialId === place.credentialId) return []
    if (credentialId === null) return [CredentialNameClaimed.of(place)]
    const { name, namespace } = place
    throw new Rejected('workflows/credential-exists', `The namespace ${namespace} has a credential ${name} already`, {
      details: { credentialId },
    })
  }
}

function releasing(place: Place) {
  return ({ credentialId }: CredentialNameState): readonly CredentialNameFact[] => {
    return credentialId === place.credentialId ? [CredentialNameReleased.of(place)] : []
  }
}
