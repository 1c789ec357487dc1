import { createHmac, timingSafeEqual } from 'node:crypto'
import { parseDuration } from './duration.ts'

const defaultToleranceMs = 5 * 60_000
export const defaultSignatureHeader = 'X-Busbar-Signature'

/** What signs a body: hexadecimal HMAC-SHA-256. */
export function signatureOf(secret: string, signed: string | Uint8Array): string {
  return createHmac('sha256', secret).update(signed).digest('hex')
}

export interface SignedDelivery {
  readonly secret: string
  /** The header's value. */
  readonly given: string | undefined
  readonly body: Uint8Array
  /** `Idempotency-Key`, signed as well where there is a time: `<t>.<key>.<body>`. */
  readonly key: string | null
  /** Epoch ms. */
  readonly now: number
}

/**
 * Whether a delivery was signed with the secret, and not too long ago.
 *
 * It is `t=<epoch s>,v1=<hex>` over `<t>.<body>`; with a tolerance of 0 `sha256=<hex>` over the body
 * @returns null when it was, else why not
 */
export function signatureMistake(
  { tolerance }: { readonly tolerance?: string | number | undefined },
  { secret, given, body, key, now }: SignedDelivery,
): string | null {
  if (given === undefined || given === '') return 'is missing'
  const toleranceMs = tolerance === undefined ? defaultToleranceMs : parseDuration(tolerance)!
  if (toleranceMs === 0) {
    const hex = given.replace(/^sha256=/, '')
    return equal(hex, signatureOf(secret, body)) ? null : 'does not fit the body'
  }
  const parts = given.split(',').map((part) => part.trim())
  const time = parts.find((part) => /^t=\d{1,12}$/.test(part))?.slice(2)
  if (time === undefined) return 'has no time: it is t=<epoch seconds>,v1=<hex>'
  if (Math.abs(now - Number(time) * 1_000) > toleranceMs) return 'is too old, or the clocks differ'
  const before = key === null ? `${time}.` : `${time}.${key}.`
  const expected = signatureOf(secret, Buffer.concat([Buffer.from(before), body]))
  // Several while a secret is being changed.
  const fits = parts.some((part) => part.startsWith('v1=') && equal(part.slice(3), expected))
  return fits ? null : 'does not fit the body'
}

function equal(given: string, expected: string): boolean {
  const [left, right] = [Buffer.from(given.toLowerCase()), Buffer.from(expected)]
  return left.length === right.length && timingSafeEqual(left, right)
}
