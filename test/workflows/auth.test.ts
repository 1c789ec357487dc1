import type { FastifyRequest } from 'fastify'
import t from 'tap'
import type { Aggregate, Fact } from '../../bus/message.ts'
import { addressReader } from '../../gateways/workflows/auth-address.ts'
import { Passwords } from '../../gateways/workflows/users-password.ts'
import { Unavailable } from '../../schemas/failure.ts'
import {
  decideResealKeys,
  decideRotate,
  isDue,
  type TokenKey,
  tokenKeys,
  verifies,
} from '../../schemas/workflows/token-keys.ts'
import { decideReseal, userAggregate } from '../../schemas/workflows/user.ts'
import { attempts, decideForgive, decideTry, waitMs } from '../../schemas/workflows/user-attempts.ts'
import { decideEnd, decideRefresh, isOpen, openSession, session } from '../../schemas/workflows/user-session.ts'

const minute = 60_000
const day = 86_400_000

function folded<State, F extends Fact>(
  { evolve, initial }: Aggregate<State, F>,
  ...decisions: readonly ((state: State) => readonly F[])[]
): State {
  return decisions.reduce((state, decide) => decide(state).reduce(evolve, state), initial)
}

t.test('the address of a request is that of the nearest one that nobody trusts', async (t) => {
  const table: readonly [string, readonly string[], string, string | undefined, string][] = [
    ['nobody is trusted', [], '10.0.0.1', '1.2.3.4', '10.0.0.1'],
    ['a proxy is', ['10.0.0.1'], '10.0.0.1', '1.2.3.4', '1.2.3.4'],
    ['another one is', ['10.0.0.2'], '10.0.0.1', '1.2.3.4', '10.0.0.1'],
    ['a range of them', ['10.0.0.0/8'], '10.0.0.1', '1.2.3.4, 10.9.9.9', '1.2.3.4'],
    ['what a client has made up', ['10.0.0.1'], '10.0.0.1', '6.6.6.6, 1.2.3.4', '1.2.3.4'],
    ['no header', ['10.0.0.1'], '10.0.0.1', undefined, '10.0.0.1'],
    ['no address', ['10.0.0.1'], '10.0.0.1', 'unknown', '10.0.0.1'],
    ['IPv4 through a socket for both', ['10.0.0.1'], '::ffff:10.0.0.1', '::ffff:1.2.3.4', '1.2.3.4'],
    ['IPv6', ['fd00::/8'], 'fd00::1', '2001:db8::7', '2001:db8::7'],
  ]
  for (const [what, proxies, remoteAddress, forwarded, expected] of table) {
    const headers = forwarded === undefined ? {} : { 'x-forwarded-for': forwarded }
    const request = { socket: { remoteAddress }, headers } as unknown as FastifyRequest
    t.equal(addressReader(proxies)(request), expected, what)
  }
  for (const wrong of ['proxy.example', '10.0.0.0/33', '10.0.0.0/8/8', '10.0.0.0/x', '']) {
    t.throws(() => addressReader([wrong]), /app\.workflows\.trusted-proxies/, wrong)
  }
})

t.test('a limit on attempts lets one in when the oldest of so many is old enough', async (t) => {
  const limit = { max: 3, withinMs: 15 * minute }
  const at = [0, minute, 2 * minute]
  const state = folded(attempts, ...at.map((now) => (before: readonly number[]) => decideTry(before, limit, now)))
  t.same(state, at)
  t.equal(waitMs(state, limit, 5 * minute), 10 * minute)
  t.same(decideTry(state, limit, 5 * minute), [], 'one that is refused does not count')
  t.equal(waitMs(state, limit, 15 * minute), 0)
  t.equal(waitMs(state, { ...limit, max: 2 }, 5 * minute), 11 * minute)
  t.same(
    folded(attempts, () => decideTry([], limit, 0), decideForgive),
    [],
  )
  t.same(decideForgive([]), [])
})

t.test('a session ends by itself', async (t) => {
  const opened = { username: 'ann', userId: 'u', epoch: 1, digest: 'first' }
  const open = folded(session, () => openSession(opened, 0))
  t.ok(isOpen(open, 7 * day - 1))
  t.notOk(isOpen(open, 7 * day), 'when it is not refreshed for a week')
  t.same(decideRefresh(open, { presented: 'first', next: 'second', at: 7 * day }), [])
  let state = open
  for (let index = 1; index < 30; index++) {
    const refresh = { presented: index === 1 ? 'first' : `${index}`, next: `${index + 1}`, at: index * day }
    state = decideRefresh(state, refresh).reduce(session.evolve, state)
    t.ok(isOpen(state, index * day), `day ${index}`)
  }
  t.notOk(isOpen(state, 30 * day), 'after a month')
  const reused = decideRefresh(state, { presented: '7', next: 'x', at: 29 * day })
  t.match(reused, [{ type: 'workflows.session.ended', data: { reason: 'reuse' } }])
  t.same(decideRefresh(state, { presented: 'never', next: 'x', at: 29 * day }), [])
  t.same(decideEnd(reused.reduce(session.evolve, state), 0), [], 'it ends once')
})

t.test('signing keys come, verify for a while, and go', async (t) => {
  const key = (kid: string, keyId = 'old'): TokenKey => ({
    kid,
    publicKey: { kty: 'EC', crv: 'P-256', x: '', y: '' },
    privateKey: { keyId, nonce: '', ciphertext: '', context: '' },
  })
  const rotate =
    (kid: string, at: number, { always = false, revoke = false } = {}) =>
    (state: typeof tokenKeys.initial) =>
      decideRotate(state, key(kid), { by: 'test', at, always, revoke })
  const kids = (state: typeof tokenKeys.initial) => state.keys.map(({ kid }) => kid)
  t.ok(isDue(tokenKeys.initial, 0))
  const first = folded(tokenKeys, rotate('a', 0), rotate('b', day))
  t.same(kids(first), ['a'], 'of two that make the first one, one does')
  t.notOk(isDue(first, 30 * day - 1))
  const second = folded(tokenKeys, rotate('a', 0), rotate('b', 30 * day))
  t.same(kids(second), ['a', 'b'])
  t.same(
    second.keys.map(({ retiredAt }) => retiredAt),
    [30 * day, null],
  )
  const trusted = (now: number) => second.keys.filter((each) => verifies(each, now)).map(({ kid }) => kid)
  t.same(trusted(30 * day + 15 * minute), ['a', 'b'])
  t.same(trusted(30 * day + 60 * minute), ['b'])
  t.same(kids(folded(tokenKeys, rotate('a', 0), rotate('b', 30 * day), rotate('c', 60 * day))), ['b', 'c'])
  t.same(kids(folded(tokenKeys, rotate('a', 0), rotate('b', 1, { always: true, revoke: true }))), ['b'])
  const reseal = (each: TokenKey) => (each.privateKey.keyId === 'new' ? null : key(each.kid, 'new'))
  const resealed = decideResealKeys(second, reseal, 0).reduce(tokenKeys.evolve, second)
  t.same(
    resealed.keys.map(({ kid, privateKey, retiredAt }) => [kid, privateKey.keyId, retiredAt]),
    [
      ['a', 'new', 30 * day],
      ['b', 'new', null],
    ],
  )
  t.same(decideResealKeys(resealed, reseal, 0), [])
})

t.test('a password that was changed meanwhile is not sealed back to what it was', async (t) => {
  const sealed = (ciphertext: string) => ({ keyId: 'k', nonce: '', ciphertext, context: '' })
  const user = { userId: 'u', username: 'ann', role: 'viewer', password: sealed('now') } as const
  const state = userAggregate.evolve(userAggregate.initial, {
    type: 'workflows.user.registered',
    data: { ...user, by: 'test', at: 0 },
  })
  t.same(decideReseal(state, { before: sealed('before'), after: sealed('again'), at: 1 }), [])
  const facts = decideReseal(state, { before: sealed('now'), after: sealed('again'), at: 1 })
  t.match(facts.reduce(userAggregate.evolve, state), { user: { password: { ciphertext: 'again' }, epoch: 1 } })
})

t.test('passwords are hashed a few at a time, and not without end', async (t) => {
  const passwords = new Passwords()
  const digest = await passwords.digest('Ａ password')
  t.match(digest, /^\$argon2id\$v=19\$m=65536,p=4,t=3\$/)
  t.ok(await passwords.check('A password', digest), 'however it is typed')
  t.notOk(await passwords.check('a password', digest))
  t.notOk(await passwords.check('A password', null))
  t.notOk(passwords.isDated(digest))
  t.ok(passwords.isDated(digest.replace('t=3', 't=2')))
  const busy = Array.from({ length: 103 }, () => passwords.check('x', 'no digest at all').catch((error) => error))
  const outcomes = await Promise.all(busy)
  t.equal(outcomes.filter((outcome) => outcome instanceof Unavailable).length, 1, 'the last one is turned away')
  t.ok(await passwords.check('A password', digest), 'and then there is room again')
})
