import { type CryptoKey, errors, exportJWK, generateKeyPair, importJWK } from 'jose'
import { LRUCache } from 'lru-cache'
import type { Bus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { type FollowObservation, follow } from '../../bus/follow.ts'
import { load } from '../../bus/load.ts'
import { newId } from '../../bus/message.ts'
import { type KeyRing, SealBroken } from '../../bus/sealed.ts'
import { eventSubject } from '../../bus/subject.ts'
import { Rejected } from '../../schemas/failure.ts'
import {
  decideRotate,
  isDue,
  type KnownTokenKey,
  type TokenKey,
  type TokenKeysState,
  tokenKeys,
  verifies,
} from '../../schemas/workflows/token-keys.ts'

const place = {
  stream: 'EVT_WORKFLOWS',
  subject: eventSubject('workflows', 'token-key', 'current'),
}
export const tokenAlgorithm = 'ES256'

interface Rotation {
  readonly by: string
  /** Epoch ms. */
  readonly at: number
  /** False: only when a new one is due. */
  readonly always: boolean
  /** Whether the tokens of all other keys end at once. */
  readonly revoke: boolean
}

/**
 * Signs access tokens with a new key from now on, on all gateways.
 * @throws {BusUnavailable}
 */
export async function rotateTokenKeys(
  bus: Bus,
  ring: KeyRing,
  rotation: Rotation,
): Promise<{ readonly state: TokenKeysState; readonly sequence: number }> {
  const key = await newTokenKey(ring)
  const aggregate = tokenKeys
  return await decide(bus, {
    ...place,
    aggregate,
    actor: rotation.by,
    decide: (state) => decideRotate(state, key, rotation),
  })
}

export interface TokenKeysOptions {
  /** Epoch ms. */
  readonly now: () => number
  readonly onObservation: (observation: FollowObservation) => void
}

interface TokenKeys {
  /** What signs now. @throws {Rejected} `workflows/no-keys`; {BusUnavailable} */
  signing(): Promise<{ readonly kid: string; readonly secret: CryptoKey }>
  /** @throws {JWKSNoMatchingKey}; {BusUnavailable} */
  verifying(kid: string | undefined): Promise<CryptoKey>
  trusted(): readonly KnownTokenKey[]
  close(): Promise<void>
}

/** The keys as they are now. @throws {BusUnavailable} */
export async function openTokenKeys(
  bus: Bus,
  ring: KeyRing,
  { now, onObservation }: TokenKeysOptions,
): Promise<TokenKeys> {
  let [state, at] = [tokenKeys.initial, 0]
  const learn = (next: TokenKeysState, sequence: number) => {
    if (sequence > at) [state, at] = [next, sequence]
  }
  const { stream } = place
  const onState = (_id: string, next: TokenKeysState, sequence: number) => learn(next, sequence)
  const subject = 'evt.workflows.token-key'
  const follower = await follow(bus, { stream, subject, aggregate: tokenKeys, onState, onObservation })
  const imported = new LRUCache<string, CryptoKey>({ max: 100 })
  const trusted = () => state.keys.filter((key) => verifies(key, now()))
  return {
    async signing() {
      if (isDue(state, now())) {
        const rotated = await rotateTokenKeys(bus, ring, { by: 'busbar', at: now(), always: false, revoke: false })
        learn(rotated.state, rotated.sequence)
      }
      const key = state.keys.at(-1)!
      return { kid: key.kid, secret: (await importJWK(openedKey(ring, key), tokenAlgorithm)) as CryptoKey }
    },
    async verifying(kid) {
      const find = () => trusted().find((key) => key.kid === kid)
      if (find() === undefined) {
        // Another gateway has just made it.
        const loaded = await load(bus, tokenKeys, place)
        learn(loaded.state, loaded.sequence)
      }
      const found = find()
      if (found === undefined) throw new errors.JWKSNoMatchingKey()
      const key = imported.get(found.kid) ?? ((await importJWK(found.publicKey, tokenAlgorithm)) as CryptoKey)
      imported.set(found.kid, key)
      return key
    },
    trusted,
    close: () => follower.close(),
  }
}

/** @throws {Rejected} `workflows/no-keys` when what it is sealed with is gone. */
function openedKey(ring: KeyRing, { kid, privateKey }: TokenKey): JsonWebKey {
  try {
    return JSON.parse(ring.open(privateKey, `token-key/${kid}/`)) as JsonWebKey
  } catch (cause) {
    if (!(cause instanceof SealBroken)) throw cause
    const text = 'The signing key is sealed with a key that app.secrets.keys does not hold'
    throw new Rejected('workflows/no-keys', text, {
      hint: 'Add that key, or run: busbar users rotate-signing-key',
      cause,
    })
  }
}

async function newTokenKey(ring: KeyRing): Promise<TokenKey> {
  const kid = newId()
  const pair = await generateKeyPair(tokenAlgorithm, { extractable: true })
  const [{ kty, crv, x, y }, secret] = await Promise.all([exportJWK(pair.publicKey), exportJWK(pair.privateKey)])
  const privateKey = ring.seal(JSON.stringify(secret), `token-key/${kid}/private`)
  return { kid, publicKey: { kty: kty!, crv: crv!, x: x!, y: y! }, privateKey }
}
