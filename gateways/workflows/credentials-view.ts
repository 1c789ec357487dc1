import type { Bus } from '../../bus/connect.ts'
import { messageIdHeader } from '../../bus/envelope.ts'
import { type FollowObservation, follow } from '../../bus/follow.ts'
import { lastMessage } from '../../bus/load.ts'
import { credential, type SavedCredential } from '../../schemas/workflows/credential.ts'
import { cursorOf, placeOfCursor } from './request.ts'

/** A credential as the API has it: all but what it is for. */
export interface CredentialRecord {
  readonly id: string
  readonly namespace: string
  readonly name: string
  readonly type: string
  readonly description: string
  /** Names of its fields; null: it is one text. */
  readonly fields: readonly string[] | null
  readonly version: number
  readonly createdAt: string
  readonly createdBy: string
  readonly updatedAt: string
}

export interface CredentialFilter {
  readonly namespace?: string
  readonly type?: string
  /** In the name or the description. */
  readonly text?: string
}

/** All credentials, without their values. */
export interface CredentialView {
  /** Newest first, with all that was written before the call. @throws {Rejected} for a cursor of another list; {BusUnavailable} */
  list(
    filter: CredentialFilter,
    page: { readonly limit: number; readonly cursor?: string },
  ): Promise<{ readonly rows: readonly CredentialRecord[]; readonly total: number; readonly next: string | null }>
  /** How many there are; those of the last moment may be missing. */
  readonly size: number
  /** Whether a name means something in a namespace. */
  has(namespace: string, name: string): boolean
}

const stream = 'EVT_WORKFLOWS'
const subject = 'evt.workflows.credential'
const passedMs = 2_000

/** @throws {BusUnavailable} */
export async function openCredentialView(
  bus: Bus,
  onObservation: (observation: FollowObservation) => void,
): Promise<CredentialView & { close(): Promise<void> }> {
  const records = new Map<string, CredentialRecord>()
  const follower = await follow(bus, {
    stream,
    subject,
    aggregate: credential,
    onState: (id, state) => {
      if (state.stage === 'saved') records.set(id, shownCredential(state))
      else records.delete(id)
    },
    onObservation,
  })
  return {
    async list({ namespace, type, text }, { limit, cursor }) {
      // Another gateway may have written what the caller has seen.
      const last = await lastMessage(bus, stream, `${subject}.*`)
      if (last !== null) await follower.passed(last.header.get(messageIdHeader), passedMs)
      const words = text?.toLowerCase()
      const found = [...records.values()]
        .filter((each) => namespace === undefined || each.namespace === namespace)
        .filter((each) => type === undefined || each.type === type)
        .filter((each) => words === undefined || `${each.name}\n${each.description}`.toLowerCase().includes(words))
        .sort((one, other) => (placeOf(one) < placeOf(other) ? 1 : -1))
      const after = cursor === undefined ? null : placeOfCursor(cursor)
      const rest = after === null ? found : found.filter((each) => placeOf(each) < after)
      const rows = rest.slice(0, limit)
      return { rows, total: found.length, next: rest.length > limit ? cursorOf(placeOf(rows.at(-1)!)) : null }
    },
    get size() {
      return records.size
    },
    has: (namespace, name) => {
      return [...records.values()].some((each) => each.namespace === namespace && each.name === name)
    },
    close: () => follower.close(),
  }
}

export function shownCredential({ saved, createdAt, createdBy }: SavedCredential): CredentialRecord {
  const { credentialId: id, namespace, name, type, description, fields, version, at } = saved
  const iso = (time: number) => new Date(time).toISOString()
  return {
    id,
    namespace,
    name,
    type,
    description,
    fields,
    version,
    createdAt: iso(createdAt),
    createdBy,
    updatedAt: iso(at),
  }
}

function placeOf({ createdAt, id }: CredentialRecord): string {
  return `${createdAt}/${id}`
}
