import { createHash } from 'node:crypto'
import { isIPv6 } from 'node:net'
import { AppendConflict } from '../../bus/append.ts'
import type { Bus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { attemptSubject } from '../../bus/subject.ts'
import { type AttemptLimit, attempts, decideForgive, decideTry, waitMs } from '../../schemas/workflows/user-attempts.ts'

const minute = 60_000

/**
 * How often may be tried, whichever gateway is asked. A stranger cannot keep a user out from elsewhere with less than the last one
 * takes; guessing from many addresses is slow all the same.
 */
const limits = {
  'login-user-address': { max: 5, withinMs: 15 * minute },
  'login-address': { max: 30, withinMs: 15 * minute },
  'login-user': { max: 100, withinMs: 60 * minute },
  'register-address': { max: 10, withinMs: 60 * minute },
} as const satisfies Record<string, AttemptLimit>
type Kind = keyof typeof limits

const conflictWaitMs = 1_000

/** @param user the name that is tried, as it is known by */
export async function tryLogin(
  bus: Bus,
  { user, address }: { user: string; address: string },
  now: number,
): Promise<number> {
  return await tryAll(bus, now, [
    ['login-user-address', `${user} ${networkOf(address)}`],
    ['login-address', networkOf(address)],
    ['login-user', user],
  ])
}

/** Whoever knows the password has only mistyped it before. @throws {BusUnavailable} */
export async function forgiveLogin(bus: Bus, { user, address }: { user: string; address: string }): Promise<void> {
  const place = placeOf('login-user-address', `${user} ${networkOf(address)}`)
  await decide(bus, { ...place, aggregate: attempts, decide: decideForgive }).catch((error: unknown) => {
    // Others try at the same time: then it is not for us to forgive.
    if (!(error instanceof AppendConflict)) throw error
  })
}

/** How long until it may be tried again, ms; 0: it is being tried, and counts. @throws {BusUnavailable} */
export async function tryRegister(bus: Bus, address: string, now: number): Promise<number> {
  return await tryAll(bus, now, [['register-address', networkOf(address)]])
}

async function tryAll(bus: Bus, now: number, kinds: readonly (readonly [Kind, string])[]): Promise<number> {
  for (const [kind, key] of kinds) {
    const limit = limits[kind]
    const ask = { ...placeOf(kind, key), aggregate: attempts }
    try {
      const { state, facts } = await decide(bus, { ...ask, decide: (before) => decideTry(before, limit, now) })
      if (facts.length === 0) return waitMs(state, limit, now)
    } catch (error) {
      if (error instanceof AppendConflict) return conflictWaitMs
      throw error
    }
  }
  return 0
}

function placeOf(kind: Kind, key: string) {
  return { stream: 'ATTEMPTS', subject: attemptSubject(kind, createHash('sha256').update(key).digest('hex')) }
}

/** Whoever has an IPv6 address has a /64 of them. */
function networkOf(address: string): string {
  if (!isIPv6(address) || address.startsWith('::ffff:')) return address.replace(/^::ffff:/, '')
  const [head = '', tail] = address.split('::')
  const groups = head.split(':').filter((group) => group !== '')
  const missing = tail === undefined ? 0 : 8 - groups.length - tail.split(':').filter((group) => group !== '').length
  const all = [...groups, ...Array<string>(Math.max(0, missing)).fill('0'), ...(tail ?? '').split(':')]
  return all.slice(0, 4).join(':')
}
