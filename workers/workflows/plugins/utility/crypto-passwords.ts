import { TaskFailure } from '../../plugin.ts'
import { needed } from '../content.ts'
import { type CryptoRun, judged } from './crypto-properties.ts'

const form = /^\$argon2id\$v=19\$((?:[mtp]=\d{1,7},?){3})\$[A-Za-z0-9+/]{11,88}\$[A-Za-z0-9+/]{16,176}$/
/** KB of memory, iterations, and threads. */
const most = new Map([
  ['m', 262_144],
  ['t', 20],
  ['p', 16],
])

/** Source: RFC 9106 */
export async function onPassword({ input }: CryptoRun) {
  const password = needed(input.password, 'password', input.operation)
  const { default: argon2 } = await import('argon2')
  if (input.operation === 'hash-password') {
    const { memoryKb: memoryCost, iterations: timeCost } = input
    return {
      passwordHash: await argon2.hash(password, { type: argon2.argon2id, memoryCost, timeCost, parallelism: 1 }),
    }
  }
  const hash = needed(input.passwordHash, 'passwordHash', 'verify-password')
  const settings = form.exec(hash)?.[1]
  if (settings === undefined) throw new TaskFailure('refused', 'properties.passwordHash is none of argon2id')
  // Whoever wrote it says what it costs to look at it.
  const isDear = settings.split(',').some((setting) => Number(setting.slice(2)) > most.get(setting[0]!)!)
  if (isDear) throw new TaskFailure('refused', 'properties.passwordHash costs more than is spent on one here')
  const isRight = await argon2.verify(hash, password)
  return judged(input, isRight ? null : 'The password is not right', {})
}
