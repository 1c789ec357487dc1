import type { Bus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { load, loadMessage } from '../../bus/load.ts'
import type { Aggregate, Fact } from '../../bus/message.ts'
import type { KeyRing } from '../../bus/sealed.ts'
import { eventSubject } from '../../bus/subject.ts'
import { changeCredential, credentialValue } from '../../gateways/workflows/credentials-store.ts'
import {
  decideDeploy,
  decideSetEnv,
  type EnvSetFact,
  functionAggregate,
  placed,
} from '../../schemas/functions/function.ts'
import { instance } from '../../schemas/provisioning/instance.ts'
import { facts, InstanceRequested } from '../../schemas/provisioning/instance-facts.ts'
import { decideSaveCredential } from '../../schemas/workflows/credential.ts'
import { decideRotate, tokenKeys } from '../../schemas/workflows/token-keys.ts'
import { decideSaveTrigger, trigger } from '../../schemas/workflows/trigger.ts'
import { decideRegister, userAggregate } from '../../schemas/workflows/user.ts'

const by = 'test'

function place(component: string, entity: string, id: string) {
  const subject = eventSubject(component, entity, id)
  return { stream: `EVT_${component.toUpperCase()}`, subject }
}

async function append<State, F extends Fact>(
  bus: Bus,
  aggregate: Aggregate<State, F>,
  at: ReturnType<typeof place>,
  facts: (state: State, sequence: number) => readonly F[],
): Promise<number> {
  return (await decide(bus, { ...at, aggregate, actor: by, decide: facts })).sequence
}

export async function saveCredential(bus: Bus, ring: KeyRing, name: string, text: string): Promise<void> {
  const told = { credentialId: `id-${name}`, name, namespace: 'default', type: 'generic', description: '', by, at: 1 }
  const data = { fields: null, seal: (context: string) => ring.seal(JSON.stringify(text), context) }
  await changeCredential(bus, told.credentialId, by, (state) => decideSaveCredential(state, { ...told, data }))
}

export function credentialText(bus: Bus, ring: KeyRing, name: string): Promise<string | null> {
  return credentialValue(bus, ring, { namespace: 'default', name, field: null })
}

/** One of each kind of what is sealed besides credentials. */
export async function sealOneOfEach(bus: Bus, ring: KeyRing): Promise<void> {
  const saved = { triggerId: 'hook', flowId: 'f', name: 'n', enabled: true, inputs: {}, declared: false, by, at: 1 }
  const secret = ring.seal('hook secret', 'trigger/hook/secret')
  await append(bus, trigger, place('workflows', 'trigger', 'hook'), (state) => {
    return decideSaveTrigger(state, { ...saved, type: 'webhook', config: { key: 'k' }, secret })
  })
  const password = ring.seal('ann password', 'user/u1/password')
  await append(bus, userAggregate, place('workflows', 'user', 'ann'), (state) => {
    return decideRegister(state, { userId: 'u1', username: 'ann', role: 'viewer', password }, { by, at: 1 })
  })
  for (const kid of ['one', 'two']) {
    const publicKey = { kty: 'EC', crv: 'P-256', x: '', y: '' }
    const key = { kid, publicKey, privateKey: ring.seal(`signing ${kid}`, `token-key/${kid}/private`) }
    await append(bus, tokenKeys, place('workflows', 'token-key', 'current'), (state) => {
      return decideRotate(state, key, { by, at: 1, always: true, revoke: false })
    })
  }
  await sealEnv(bus, ring, 'hello')
  const at = place('provisioning', 'instance', 'shop')
  const sealed = (which: string) => ring.seal(`shop ${which}`, `provisioning/i1/${which}/1`)
  await append(bus, instance, at, () => [
    InstanceRequested.of({
      uid: 'i1',
      projectName: 'shop',
      orgId: 'o',
      namespace: 'n',
      databaseType: 'POSTGRESQL',
      tier: 'FREE',
      version: null,
      databaseName: 'shop',
      masterUsername: 'shop',
      parameters: {},
      parameterGroup: null,
      tags: {},
      backup: { enabled: false, schedule: '0 0 * * *', retention: 1 },
      storageBytes: 1,
      source: null,
      by,
      at: 1,
    }),
    facts.credentials.of({
      superuser: sealed('superuser'),
      master: sealed('master'),
      pending: null,
      version: 1,
      at: 1,
    }),
  ])
}

/** A function with a secret; the sequence of the message with it. */
async function sealEnv(bus: Bus, ring: KeyRing, functionId: string): Promise<void> {
  const at = place('functions', 'function', functionId)
  const program = { source: '', code: '', sourceMap: '{}', hasHandler: true, idempotent: true }
  await append(bus, functionAggregate, at, (state, sequence) => {
    return decideDeploy(state, { functionId, ...program }, { now: 1, sequence })
  })
  const secrets = { S: ring.seal('function secret', `functions.function/${functionId}/env/1/S`) }
  await append(bus, functionAggregate, at, (state, sequence) => {
    return decideSetEnv(state, { functionId, variables: { V: 'v' }, secrets }, { now: 1, sequence })
  })
}

/** All texts of `sealOneOfEach` as the platform would open them. */
export async function openOneOfEach(bus: Bus, ring: KeyRing): Promise<readonly string[]> {
  const state = async <State, F extends Fact>(aggregate: Aggregate<State, F>, at: ReturnType<typeof place>) =>
    (await load(bus, aggregate, at)).state
  const hook = await state(trigger, place('workflows', 'trigger', 'hook'))
  const ann = await state(userAggregate, place('workflows', 'user', 'ann'))
  const { keys } = await state(tokenKeys, place('workflows', 'token-key', 'current'))
  const shop = await state(instance, place('provisioning', 'instance', 'shop'))
  if (hook.stage !== 'saved' || ann.stage !== 'registered' || shop.stage !== 'wanted') throw new Error('not there')
  const env = await envOf(bus, 'hello')
  return [
    ring.open(hook.saved.secret!, 'trigger/hook/'),
    ring.open(ann.user.password, 'user/u1/'),
    ...keys.map(({ kid, privateKey }) => ring.open(privateKey, `token-key/${kid}/`)),
    ring.open(env.data.secrets.S!, 'functions.function/hello/env/'),
    `${env.data.variables.V}`,
    ring.open(shop.credentials!.superuser, 'provisioning/i1/superuser/'),
    ring.open(shop.credentials!.master, 'provisioning/i1/master/'),
  ]
}

export const oneOfEach: readonly string[] = [
  'hook secret',
  'ann password',
  'signing one',
  'signing two',
  'function secret',
  'v',
  'shop superuser',
  'shop master',
]

/** The variables that a call would have now, and where they lie. */
export async function envOf(bus: Bus, functionId: string) {
  const { state, sequence } = await load(bus, functionAggregate, place('functions', 'function', functionId))
  const now = placed(state, sequence)
  const envSeq = now.stage === 'deployed' ? now.envSequence : null
  const message = await loadMessage(bus, functionAggregate.events, 'EVT_FUNCTIONS', envSeq ?? 0)
  const fact = message?.facts.find(({ type }) => type === 'functions.function.env-set') as EnvSetFact
  return { envSeq, data: fact.data }
}
