import { type Static, Type } from 'typebox'
import { type Aggregate, defineEvent, defineEvents, type EventSet } from '../../bus/message.ts'
import { Rejected } from '../failure.ts'

const closed = { additionalProperties: false } as const
const Time = Type.Integer({ description: 'epoch ms' })
const Sealed = Type.Object(
  {
    keyId: Type.String(),
    nonce: Type.String({ description: '96 bits, base64' }),
    ciphertext: Type.String({ description: 'AES-256-GCM with its tag, base64, of a JSON text' }),
    context: Type.String({ description: 'the additional data: `credential/<id>/<version>/data`' }),
  },
  closed,
)
export type SealedData = Static<typeof Sealed>

/** The credential is this from now on. */
const CredentialSaved = defineEvent(
  'workflows.credential.saved',
  Type.Object(
    {
      credentialId: Type.String(),
      version: Type.Integer({ minimum: 1 }),
      namespace: Type.String(),
      name: Type.String(),
      type: Type.String(),
      description: Type.String(),
      fields: Type.Union([Type.Array(Type.String()), Type.Null()], { description: 'names; null: it is one text' }),
      data: Sealed,
      by: Type.String(),
      at: Time,
    },
    closed,
  ),
)
/** The same value lies under another key. */
const CredentialResealed = defineEvent(
  'workflows.credential.resealed',
  Type.Object({ credentialId: Type.String(), data: Sealed, at: Time }, closed),
)
/** Tasks that ask for it fail. */
const CredentialDeleted = defineEvent(
  'workflows.credential.deleted',
  Type.Object({ credentialId: Type.String(), by: Type.String(), at: Time }, closed),
)

const credentialEvents = defineEvents(CredentialSaved, CredentialResealed, CredentialDeleted)
export type CredentialFact = typeof credentialEvents extends EventSet<infer F> ? F : never
type Saved = Static<(typeof CredentialSaved)['schema']>

export type CredentialState =
  | { readonly stage: 'absent' | 'deleted' }
  | { readonly stage: 'saved'; readonly saved: Saved; readonly createdAt: number; readonly createdBy: string }
export type SavedCredential = Extract<CredentialState, { stage: 'saved' }>

/** A secret that tasks use by its name. Subject `evt.workflows.credential.<id>`, stream `EVT_WORKFLOWS`. */
export const credential: Aggregate<CredentialState, CredentialFact> = {
  events: credentialEvents,
  initial: { stage: 'absent' },
  evolve(state, { type, data }) {
    switch (type) {
      case 'workflows.credential.saved': {
        const { createdAt, createdBy } = state.stage === 'saved' ? state : { createdAt: data.at, createdBy: data.by }
        return { stage: 'saved', saved: data, createdAt, createdBy }
      }
      case 'workflows.credential.resealed':
        return state.stage === 'saved' ? { ...state, saved: { ...state.saved, data: data.data } } : state
      case 'workflows.credential.deleted':
        return { stage: 'deleted' }
    }
  },
}

export const credentialNamePattern = '^[A-Z][A-Z0-9_]{0,99}$'
export const credentialFieldPattern = '^[A-Za-z_][A-Za-z0-9_]{0,99}$'

/** What the context of its sealed data begins with. */
export function credentialOwner(credentialId: string): string {
  return `credential/${credentialId}/`
}

export interface SaveCredential extends Omit<Saved, 'version' | 'fields' | 'data'> {
  /** Absent: as it is. */
  readonly data?: { readonly fields: readonly string[] | null; readonly seal: (context: string) => SealedData }
}

/** Nothing when that is what was saved last. @throws {Rejected} `http/bad-request` for a new one without data */
export function decideSaveCredential(state: CredentialState, wanted: SaveCredential): readonly CredentialFact[] {
  const { data, ...told } = wanted
  const before = state.stage === 'saved' ? state.saved : null
  const version = (before?.version ?? 0) + 1
  if (data === undefined) {
    if (before === null) throw dataMissing()
    const same = (['namespace', 'name', 'type', 'description'] as const).every((each) => before[each] === told[each])
    return same ? [] : [CredentialSaved.of({ ...told, version, fields: before.fields, data: before.data })]
  }
  const sealed = data.seal(`${credentialOwner(told.credentialId)}${version}/data`)
  const fields = data.fields === null ? null : [...data.fields]
  return [CredentialSaved.of({ ...told, version, fields, data: sealed })]
}

/** Nothing when it does not lie under an older key. */
export function decideResealCredential(
  state: CredentialState,
  reseal: (data: SealedData) => SealedData | null,
  at: number,
): readonly CredentialFact[] {
  if (state.stage !== 'saved') return []
  const data = reseal(state.saved.data)
  return data === null ? [] : [CredentialResealed.of({ credentialId: state.saved.credentialId, data, at })]
}

/** @throws {Rejected} `workflows/credential-not-found` */
export function decideDeleteCredential(
  state: CredentialState,
  { by, at }: { readonly by: string; readonly at: number },
): readonly CredentialFact[] {
  const { saved } = requireCredential(state)
  return [CredentialDeleted.of({ credentialId: saved.credentialId, by, at })]
}

/** @throws {Rejected} `workflows/credential-not-found` */
export function requireCredential(state: CredentialState): SavedCredential {
  if (state.stage === 'saved') return state
  throw new Rejected('workflows/credential-not-found', 'There is no such credential')
}

/** What was put in: a text, or texts by name. Stored as JSON. */
export type CredentialData = string | Readonly<Record<string, string>>

/** One text of it: the field, or without one the text itself or the only field; null when there is none such. */
export function credentialText(data: CredentialData, field: string | null): string | null {
  if (typeof data === 'string') return field === null ? data : null
  if (field !== null) return Object.hasOwn(data, field) ? data[field]! : null
  const texts = Object.values(data)
  return texts.length === 1 ? texts[0]! : null
}

function dataMissing(): Rejected {
  return new Rejected('http/bad-request', 'data is required', { details: { field: 'data', reason: 'is required' } })
}
