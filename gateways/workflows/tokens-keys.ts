import { exportJWK, generateKeyPair } from 'jose'
import type { Bus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { newId } from '../../bus/message.ts'
import type { KeyRing } from '../../bus/sealed.ts'
import { eventSubject } from '../../bus/subject.ts'
import { decideRotate, type TokenKey, type TokenKeysState, tokenKeys } from '../../schemas/workflows/token-keys.ts'

export const tokenKeyPlace = {
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
    ...tokenKeyPlace,
    aggregate,
    actor: rotation.by,
    decide: (state) => decideRotate(state, key, rotation),
  })
}

/** @throws {SealBroken} */
export function openedTokenKey(ring: KeyRing, { kid, privateKey }: TokenKey): JsonWebKey {
  return JSON.parse(ring.open(privateKey, `token-key/${kid}/`)) as JsonWebKey
}

async function newTokenKey(ring: KeyRing): Promise<TokenKey> {
  const kid = newId()
  const pair = await generateKeyPair(tokenAlgorithm, { extractable: true })
  const [{ kty, crv, x, y }, secret] = await Promise.all([exportJWK(pair.publicKey), exportJWK(pair.privateKey)])
  const privateKey = ring.seal(JSON.stringify(secret), `token-key/${kid}/private`)
  return { kid, publicKey: { kty: kty!, crv: crv!, x: x!, y: y! }, privateKey }
}
