import type { Bus } from '../../bus/connect.ts'
import { load } from '../../bus/load.ts'
import { type KeyRing, SealBroken } from '../../bus/sealed.ts'
import { eventSubject } from '../../bus/subject.ts'
import { type CredentialData, credential, credentialOwner } from '../../schemas/workflows/credential.ts'
import { credentialName, credentialNameId } from '../../schemas/workflows/credential-name.ts'
import { TaskFailure } from './plugin.ts'

const stream = 'EVT_WORKFLOWS'

/**
 * Opens credentials for tasks, each time anew: what was saved last is what they get, and nothing is kept. Null when there is none.
 * The failure names the credential and nothing of it.
 */
export function openCredential(bus: Bus, keys: KeyRing | null) {
  return async (namespace: string, name: string): Promise<CredentialData | null> => {
    const nameSubject = eventSubject('workflows', 'credential-name', credentialNameId({ namespace, name }))
    const { credentialId } = (await load(bus, credentialName, { stream, subject: nameSubject })).state
    if (credentialId === null) return null
    const subject = eventSubject('workflows', 'credential', credentialId)
    const { state } = await load(bus, credential, { stream, subject })
    if (state.stage !== 'saved') return null
    if (keys === null) throw new TaskFailure('refused', `The credential ${name} cannot be opened: there are no keys`)
    try {
      return JSON.parse(keys.open(state.saved.data, credentialOwner(credentialId)))
    } catch (error) {
      if (!(error instanceof SealBroken)) throw error
      throw new TaskFailure('refused', `The credential ${name} cannot be opened with the keys there are`, error)
    }
  }
}
