import type { Bus } from '../bus/connect.ts'
import { decide } from '../bus/decide.ts'
import { load, loadMessage } from '../bus/load.ts'
import { readPage } from '../bus/page.ts'
import { asking } from '../bus/publish.ts'
import { type KeyRing, resealed } from '../bus/sealed.ts'
import { unescapeToken } from '../bus/subject.ts'
import { type Call, callHeader } from '../schemas/functions/call.ts'
import { decideSetEnv, type EnvSetFact, functionAggregate, placed } from '../schemas/functions/function.ts'
import type { SealedKind } from './keys-kind.ts'

const stream = 'EVT_FUNCTIONS'
const prefix = 'evt.functions.function.'

/** Secrets in the variables of functions: a program's next start has them from the new place. */
export const functionSecrets: SealedKind = {
  name: 'secrets of functions',
  stream,
  prefix,
  async keyIds(bus, subject) {
    const { state, sequence } = await load(bus, functionAggregate, { stream, subject })
    const now = placed(state, sequence)
    return now.stage === 'absent' ? [] : await keyIdsOfEnv(bus, now.envSequence)
  },
  async reseal(bus, ring, subject) {
    for (;;) {
      const outcome = await resealOnce(bus, ring, subject)
      if (outcome !== null) return outcome
    }
  },
}

/** Null when somebody has set other variables meanwhile. */
async function resealOnce(bus: Bus, ring: KeyRing, subject: string): Promise<boolean | null> {
  const functionId = unescapeToken(subject.slice(prefix.length))
  const loaded = await load(bus, functionAggregate, { stream, subject })
  const before = placed(loaded.state, loaded.sequence)
  if (before.stage === 'absent' || before.envSequence === null) return false
  const env = await envAt(bus, before.envSequence)
  const owner = `functions.function/${functionId}/env/`
  const secrets = Object.entries(env?.secrets ?? {}).map(([name, sealed]) => {
    return { name, sealed, fresh: resealed(ring, sealed, owner) }
  })
  if (env === null || secrets.every(({ fresh }) => fresh === null)) return false
  let same = true
  await decide(bus, {
    stream,
    subject,
    aggregate: functionAggregate,
    actor: 'busbar',
    decide(state, sequence) {
      const now = placed(state, sequence)
      same = now.stage === 'deployed' && now.envSequence === before.envSequence
      if (!same) return []
      const wanted = Object.fromEntries(secrets.map(({ name, sealed, fresh }) => [name, fresh ?? sealed]))
      return decideSetEnv(
        state,
        { functionId, variables: env.variables, secrets: wanted },
        { now: Date.now(), sequence },
      )
    },
  })
  return same ? true : null
}

const pageSize = 64

/**
 * Keys that asynchronous calls on their way need, for a call has the variables of the moment when it was made. By key, how many calls.
 * @throws {BusUnavailable}
 */
export async function keysOfInvocations(bus: Bus): Promise<ReadonlyMap<string, number>> {
  const waiting = new Map<number, number>()
  for (let sequence = 0; ; ) {
    const query = { seq: sequence + 1, batch: pageSize }
    const page = await asking(bus, () => readPage(bus, 'INVOCATIONS', query))
    if (page.length === 0) break
    for (const { seq, header } of page) {
      sequence = seq
      const { envSeq } = JSON.parse(header.get(callHeader)) as Call
      if (envSeq !== null) waiting.set(envSeq, (waiting.get(envSeq) ?? 0) + 1)
    }
  }
  const uses = new Map<string, number>()
  for (const [sequence, calls] of waiting) {
    for (const keyId of new Set(await keyIdsOfEnv(bus, sequence))) uses.set(keyId, (uses.get(keyId) ?? 0) + calls)
  }
  return uses
}

/** Whether a call that somebody waits for may be from before that time, epoch ms. @throws {BusUnavailable} */
export async function hasCallsFromBefore(bus: Bus, at: number): Promise<boolean> {
  const { state } = await asking(bus, () => bus.manager.streams.info('CALLS'))
  return state.messages > 0 && Date.parse(String(state.first_ts)) < at
}

async function keyIdsOfEnv(bus: Bus, sequence: number | null): Promise<readonly string[]> {
  const env = sequence === null ? null : await envAt(bus, sequence)
  return Object.values(env?.secrets ?? {}).map(({ keyId }) => keyId)
}

async function envAt(bus: Bus, sequence: number): Promise<EnvSetFact['data'] | null> {
  const message = await loadMessage(bus, functionAggregate.events, stream, sequence)
  const fact = message?.facts.find(({ type }) => type === 'functions.function.env-set')
  return (fact as EnvSetFact | undefined)?.data ?? null
}
