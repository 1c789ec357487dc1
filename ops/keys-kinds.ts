import { decide } from '../bus/decide.ts'
import { load } from '../bus/load.ts'
import type { Aggregate, Fact } from '../bus/message.ts'
import { resealed, type Sealed } from '../bus/sealed.ts'
import { instance } from '../schemas/provisioning/instance.ts'
import { facts as instanceFacts } from '../schemas/provisioning/instance-facts.ts'
import { credential, credentialOwner, decideResealCredential } from '../schemas/workflows/credential.ts'
import { decideResealKeys, tokenKeys } from '../schemas/workflows/token-keys.ts'
import { decideResealTrigger, trigger } from '../schemas/workflows/trigger.ts'
import { decideReseal, userAggregate } from '../schemas/workflows/user.ts'
import { functionSecrets } from './keys-functions.ts'
import type { SealedKind } from './keys-kind.ts'

/** One envelope under the ring's first key; null when it lies under it. */
type Again = (sealed: Sealed, owner: string) => Sealed | null

interface AggregateKind<State, F extends Fact> extends Pick<SealedKind, 'name' | 'stream' | 'prefix'> {
  readonly aggregate: Aggregate<State, F>
  readonly sealed: (state: State) => readonly Sealed[]
  readonly decide: (state: State, again: Again, at: number) => readonly F[]
}

function aggregateKind<State, F extends Fact>(told: AggregateKind<State, F>): SealedKind {
  const { name, stream, prefix, aggregate, sealed } = told
  return {
    name,
    stream,
    prefix,
    async keyIds(bus, subject) {
      const { state } = await load(bus, aggregate, { stream, subject })
      return sealed(state).map(({ keyId }) => keyId)
    },
    async reseal(bus, ring, subject) {
      const { facts } = await decide(bus, {
        stream,
        subject,
        aggregate,
        actor: 'busbar',
        decide: (state) => told.decide(state, (each, owner) => resealed(ring, each, owner), Date.now()),
      })
      return facts.length > 0
    },
  }
}

const workflows = 'EVT_WORKFLOWS'

/** Everything that is sealed. */
export const sealedKinds: readonly SealedKind[] = [
  aggregateKind({
    name: 'credentials',
    stream: workflows,
    prefix: 'evt.workflows.credential.',
    aggregate: credential,
    sealed: (state) => (state.stage === 'saved' ? [state.saved.data] : []),
    decide: (state, again, at) => {
      if (state.stage !== 'saved') return []
      const owner = credentialOwner(state.saved.credentialId)
      return decideResealCredential(state, (data) => again(data, owner), at)
    },
  }),
  aggregateKind({
    name: 'webhook secrets',
    stream: workflows,
    prefix: 'evt.workflows.trigger.',
    aggregate: trigger,
    sealed: (state) => (state.stage === 'saved' && state.saved.secret !== undefined ? [state.saved.secret] : []),
    decide: (state, again, at) => {
      if (state.stage !== 'saved') return []
      return decideResealTrigger(state, (secret) => again(secret, `trigger/${state.saved.triggerId}/`), at)
    },
  }),
  aggregateKind({
    name: 'passwords of users',
    stream: workflows,
    prefix: 'evt.workflows.user.',
    aggregate: userAggregate,
    sealed: (state) => (state.stage === 'registered' ? [state.user.password] : []),
    decide: (state, again, at) => {
      if (state.stage !== 'registered') return []
      const { password: before, userId } = state.user
      const after = again(before, `user/${userId}/`)
      return after === null ? [] : decideReseal(state, { before, after, at })
    },
  }),
  aggregateKind({
    name: 'signing keys of tokens',
    stream: workflows,
    prefix: 'evt.workflows.token-key.',
    aggregate: tokenKeys,
    sealed: ({ keys }) => keys.map(({ privateKey }) => privateKey),
    decide: (state, again, at) => {
      return decideResealKeys(
        state,
        (key) => {
          const privateKey = again(key.privateKey, `token-key/${key.kid}/`)
          return privateKey === null ? null : { ...key, privateKey }
        },
        at,
      )
    },
  }),
  functionSecrets,
  aggregateKind({
    name: 'passwords of database instances',
    stream: 'EVT_PROVISIONING',
    prefix: 'evt.provisioning.instance.',
    aggregate: instance,
    sealed: (state) => {
      if (state.stage !== 'wanted' || state.credentials === null) return []
      const { superuser, master, pending } = state.credentials
      return pending === null ? [superuser, master] : [superuser, master, pending]
    },
    decide: (state, again, at) => {
      if (state.stage !== 'wanted' || state.credentials === null) return []
      const { superuser, master, pending, version } = state.credentials
      const fresh = (each: Sealed, which: string) => again(each, `provisioning/${state.uid}/${which}/`) ?? each
      const after = {
        superuser: fresh(superuser, 'superuser'),
        master: fresh(master, 'master'),
        pending: pending && fresh(pending, 'master'),
      }
      const same = after.superuser === superuser && after.master === master && after.pending === pending
      return same ? [] : [instanceFacts.credentials.of({ ...after, version, at })]
    },
  }),
]
