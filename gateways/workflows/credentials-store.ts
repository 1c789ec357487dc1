import type { Bus } from '../../bus/connect.ts'
import { type Loaded, load } from '../../bus/load.ts'
import type { KeyRing } from '../../bus/sealed.ts'
import { eventSubject } from '../../bus/subject.ts'
import { also, decideTogether } from '../../bus/together.ts'
import {
  type CredentialFact,
  type CredentialState,
  credential,
  credentialOwner,
  credentialText,
} from '../../schemas/workflows/credential.ts'
import { credentialName, credentialNameChanges, credentialNameId } from '../../schemas/workflows/credential-name.ts'

const stream = 'EVT_WORKFLOWS'

function credentialPlace(credentialId: string) {
  return { stream, subject: eventSubject('workflows', 'credential', credentialId) }
}

function nameSubject(nameId: string): string {
  return eventSubject('workflows', 'credential-name', nameId)
}

/** @throws {BusUnavailable} */
export async function loadCredential(bus: Bus, credentialId: string): Promise<Loaded<CredentialState>> {
  return await load(bus, credential, credentialPlace(credentialId))
}

/**
 * Decides on a credential; its name goes with it.
 * @throws {Rejected} of the decision, and `workflows/credential-exists`; {AppendConflict} after too many; {BusUnavailable}
 */
export async function changeCredential(
  bus: Bus,
  credentialId: string,
  actor: string,
  decide: (before: CredentialState) => readonly CredentialFact[],
) {
  const decision = { ...credentialPlace(credentialId), aggregate: credential, actor, decide }
  return await decideTogether(bus, decision, (before, after) =>
    credentialNameChanges(before, after).map(({ nameId, decide }) => {
      return also(nameSubject(nameId), credentialName, decide)
    }),
  )
}

/**
 * One text of a credential, for what the gateway itself has to check; null when there is none such.
 * @throws {SealBroken}; {BusUnavailable}
 */
export async function credentialValue(
  bus: Bus,
  keys: KeyRing | null,
  place: { readonly namespace: string; readonly name: string; readonly field: string | null },
): Promise<string | null> {
  const subject = nameSubject(credentialNameId(place))
  const { credentialId } = (await load(bus, credentialName, { stream, subject })).state
  if (credentialId === null || keys === null) return null
  const { state } = await loadCredential(bus, credentialId)
  if (state.stage !== 'saved') return null
  return credentialText(JSON.parse(keys.open(state.saved.data, credentialOwner(credentialId))), place.field)
}
