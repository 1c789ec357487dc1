import { createHash, createHmac, pbkdf2, randomBytes, randomInt } from 'node:crypto'
import { promisify } from 'node:util'

const iterations = 4096
const alphabet = 'ABCDEFGHJKLMNPQRSTUVWXYZabcdefghijkmnopqrstuvwxyz23456789'

/** A password of 32 letters and digits (over 180 bits): needs no escape in a URL and no SASLprep. */
export function newPassword(): string {
  return Array.from({ length: 32 }, () => alphabet[randomInt(alphabet.length)]).join('')
}

/**
 * What PostgreSQL stores in place of a password; `ALTER ROLE ... PASSWORD` takes it as it is, so that the password itself
 * never reaches the server, its log or its statistics. Printable ASCII passwords only.
 *
 * Source: RFC 5803, https://www.postgresql.org/docs/current/catalog-pg-authid.html
 */
export async function scramVerifier(password: string, salt: Buffer = randomBytes(16)): Promise<string> {
  if (!/^[\x20-\x7e]+$/.test(password)) throw new TypeError('The password has characters other than printable ASCII')
  const salted = await promisify(pbkdf2)(password, salt, iterations, 32, 'sha256')
  const storedKey = createHash('sha256').update(hmac(salted, 'Client Key')).digest('base64')
  const serverKey = hmac(salted, 'Server Key').toString('base64')
  return `SCRAM-SHA-256$${iterations}:${salt.toString('base64')}$${storedKey}:${serverKey}`
}

function hmac(key: Buffer, text: string): Buffer {
  return createHmac('sha256', key).update(text).digest()
}
