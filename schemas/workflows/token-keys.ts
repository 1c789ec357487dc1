import { type Static, Type } from 'typebox'
import { type Aggregate, defineEvent, defineEvents, type EventSet } from '../../bus/message.ts'

const closed = { additionalProperties: false } as const
const Time = Type.Integer({ description: 'epoch ms' })
const Sealed = Type.Object({
  keyId: Type.String(),
  nonce: Type.String(),
  ciphertext: Type.String(),
  context: Type.String(),
})
const Key = Type.Object(
  {
    kid: Type.String(),
    publicKey: Type.Object({ kty: Type.String(), crv: Type.String(), x: Type.String(), y: Type.String() }),
    privateKey: Sealed,
  },
  closed,
)

/** Signs from now on; those before only verify, for as long as their tokens live. */
const Added = defineEvent('workflows.token-key.added', Type.Object({ key: Key, by: Type.String(), at: Time }, closed))
/** Tokens of the keys before the last one count no more. */
const Revoked = defineEvent('workflows.token-key.revoked', Type.Object({ by: Type.String(), at: Time }, closed))
/** The same keys, sealed with another. */
const Resealed = defineEvent('workflows.token-key.resealed', Type.Object({ keys: Type.Array(Key), at: Time }, closed))

const tokenKeyEvents = defineEvents(Added, Revoked, Resealed)
type TokenKeyFact = typeof tokenKeyEvents extends EventSet<infer F> ? F : never
export type TokenKey = Static<typeof Key>

export interface KnownTokenKey extends TokenKey {
  readonly addedAt: number
  readonly retiredAt: number | null
}
export interface TokenKeysState {
  /** The last one signs. */
  readonly keys: readonly KnownTokenKey[]
}

/** Longer than any token lives that one of them has signed. */
const retiredMs = 3_600_000
const rotateAfterMs = 30 * 86_400_000

/** What access tokens are signed with. Subject `evt.workflows.token-key.current`, stream `EVT_WORKFLOWS`. */
export const tokenKeys: Aggregate<TokenKeysState, TokenKeyFact> = {
  events: tokenKeyEvents,
  initial: { keys: [] },
  evolve({ keys }, fact) {
    switch (fact.type) {
      case 'workflows.token-key.added': {
        const { key, at } = fact.data
        const kept = keys.filter((before) => verifies(before, at))
        const retired = kept.map((before) => ({ ...before, retiredAt: before.retiredAt ?? at }))
        return { keys: [...retired, { ...key, addedAt: at, retiredAt: null }] }
      }
      case 'workflows.token-key.revoked':
        return { keys: keys.slice(-1) }
      case 'workflows.token-key.resealed': {
        const sealed = new Map(fact.data.keys.map((key) => [key.kid, key]))
        return { keys: keys.map((before) => ({ ...before, ...sealed.get(before.kid) })) }
      }
    }
  },
}

/** Whether what a key has signed can still count. */
export function verifies({ retiredAt }: KnownTokenKey, now: number): boolean {
  return retiredAt === null || retiredAt + retiredMs > now
}

/** Whether a new key is due. */
export function isDue({ keys }: TokenKeysState, now: number): boolean {
  const last = keys.at(-1)
  return last === undefined || last.addedAt + rotateAfterMs <= now
}

/** @param always false: only when one is due @param revoke whether the tokens of all others end at once */
export function decideRotate(
  state: TokenKeysState,
  key: TokenKey,
  { by, at, always, revoke }: { by: string; at: number; always: boolean; revoke: boolean },
): readonly TokenKeyFact[] {
  if (!always && !isDue(state, at)) return []
  return [Added.of({ key, by, at }), ...(revoke ? [Revoked.of({ by, at })] : [])]
}

/** @param reseal one key, sealed anew; null when that is not needed */
export function decideResealKeys(
  { keys }: TokenKeysState,
  reseal: (key: TokenKey) => TokenKey | null,
  at: number,
): readonly TokenKeyFact[] {
  const resealed = keys.map(({ kid, publicKey, privateKey }) => reseal({ kid, publicKey, privateKey }))
  const changed = resealed.filter((key) => key !== null)
  return changed.length === 0 ? [] : [Resealed.of({ keys: changed, at })]
}
