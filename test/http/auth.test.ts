import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { type CryptoKey, exportJWK, generateKeyPair, type JWK, SignJWT } from 'jose'
import t from 'tap'
import { type AuthenticatorOptions, createAuthenticator } from '../../gateways/http/auth.ts'

const secret = 'a-secret-of-at-least-32-bytes-for-tests'
const secretKey = new TextEncoder().encode(secret)

interface TokenOptions {
  readonly key?: CryptoKey | Uint8Array
  readonly alg?: string
  readonly kid?: string
  readonly typ?: string
  readonly expires?: string | number | null
}

function token(
  claims: Record<string, unknown>,
  { key = secretKey, alg = 'HS256', kid, typ, expires = '1h' }: TokenOptions = {},
): Promise<string> {
  const jwt = new SignJWT(claims).setProtectedHeader({ alg, ...(kid && { kid }), ...(typ && { typ }) })
  if (expires !== null) jwt.setExpirationTime(expires)
  return jwt.sign(key)
}

const bearer = (of: string) => ({ authorization: `Bearer ${of}` })
const withSecret = (options: AuthenticatorOptions = {}) => createAuthenticator({ secret, ...options })
const unauthorized = { name: 'Rejected', code: 'http/unauthorized', status: 401 }

t.test('without keys everybody passes as anonymous, even with a token that says otherwise', async (t) => {
  const off = createAuthenticator({})
  t.equal(off.enabled, false)
  t.same(await off.authenticate(bearer('rubbish')), { actor: 'anonymous', anonymous: false })
})

t.test('a valid token gives role, subject, expiry and its claims as they were signed', async (t) => {
  const expires = Math.floor(Date.now() / 1000) + 60
  const of = await token({ sub: 'ann', role: 'web_user', name: 'łódź' }, { expires })
  const principal = await withSecret().authenticate(bearer(of))
  t.match(principal, { role: 'web_user', actor: 'ann', anonymous: false, expiresAt: expires * 1000 })
  t.same(JSON.parse(principal.claims!), { sub: 'ann', role: 'web_user', name: 'łódź', exp: expires })
})

t.test('claims keep the digits JavaScript would lose', async (t) => {
  const part = (text: string) => Buffer.from(text).toString('base64url')
  const signed = `${part('{"alg":"HS256"}')}.${part('{"tenant":9007199254740993}')}`
  const { createHmac } = await import('node:crypto')
  const of = `${signed}.${createHmac('sha256', secret).update(signed).digest('base64url')}`
  t.equal((await withSecret().authenticate(bearer(of))).claims, '{"tenant":9007199254740993}')
})

t.test('callers without a token are anonymous, or refused when one is required', async (t) => {
  const open = withSecret({ anonymousRole: 'anon' })
  t.same(await open.authenticate({}), { actor: 'anonymous', anonymous: true, role: 'anon', claims: '{"role":"anon"}' })
  await t.rejects(withSecret({ required: true }).authenticate({}), unauthorized)
})

t.test('a token without a role falls back to the anonymous role', async (t) => {
  const principal = await withSecret({ anonymousRole: 'anon' }).authenticate(bearer(await token({ sub: 'ann' })))
  t.match(principal, { role: 'anon', actor: 'ann', anonymous: false })
})

t.test('the role is found by its claim, on a path or under a name with dots', async (t) => {
  const nested = await token({ app_metadata: { role: 'deep' } })
  t.equal((await withSecret({ roleClaim: 'app_metadata.role' }).authenticate(bearer(nested))).role, 'deep')
  const dotted = await token({ 'https://example.org/role': 'flat' })
  t.equal((await withSecret({ roleClaim: 'https://example.org/role' }).authenticate(bearer(dotted))).role, 'flat')
})

t.test('a role that is no plain name is refused', async (t) => {
  for (const role of ['none', '', 7, ['web_user'], { a: 1 }, true, 'a\0b', 'x'.repeat(64)]) {
    await t.rejects(withSecret().authenticate(bearer(await token({ role }))), unauthorized, JSON.stringify(role))
  }
})

t.test('bad tokens are refused', async (t) => {
  const strangers = new TextEncoder().encode('another-secret-of-at-least-32-bytes-ok')
  const part = (value: object) => Buffer.from(JSON.stringify(value)).toString('base64url')
  const good = await token({ sub: 'ann' })
  const cases: Record<string, string> = {
    'a wrong key': await token({ sub: 'ann' }, { key: strangers }),
    'expired long ago': await token({ sub: 'ann' }, { expires: Math.floor(Date.now() / 1000) - 3600 }),
    'not yet valid': await token({ sub: 'ann', nbf: Math.floor(Date.now() / 1000) + 3600 }),
    'alg none': `${part({ alg: 'none' })}.${part({ sub: 'ann' })}.`,
    'an algorithm that is not configured': await token({ sub: 'ann' }, { alg: 'HS512' }),
    'changed claims': good.replace(/\..*\./, `.${part({ sub: 'bob' })}.`),
    'no token at all': 'rubbish',
    'a ticket, which the same keys have signed': await token({ sub: 'ann' }, { typ: 'ticket+jwt' }),
    'an identity token': await token({ sub: 'ann' }, { typ: 'id+jwt' }),
    'a token of absurd length': 'x'.repeat(10_000),
  }
  const authenticator = withSecret()
  for (const [name, of] of Object.entries(cases)) {
    await t.rejects(authenticator.authenticate(bearer(of)), unauthorized, name)
  }
  for (const authorization of ['Basic YTpi', 'Bearer', `Bearer ${good} ${good}`, good]) {
    await t.rejects(authenticator.authenticate({ authorization }), unauthorized, authorization.slice(0, 12))
  }
  t.equal((await authenticator.authenticate({ authorization: `bearer ${good}` })).actor, 'ann')
  for (const typ of ['JWT', 'at+jwt', 'application/at+JWT']) {
    t.equal((await authenticator.authenticate(bearer(await token({ sub: 'ann' }, { typ })))).actor, 'ann', typ)
  }
})

t.test('issuer and audience must match when they are configured', async (t) => {
  const strict = withSecret({ issuer: 'https://id.example.org', audience: 'busbar' })
  const right = { iss: 'https://id.example.org', aud: ['other', 'busbar'] }
  t.equal((await strict.authenticate(bearer(await token({ ...right, sub: 'ann' })))).actor, 'ann')
  await t.rejects(strict.authenticate(bearer(await token({ ...right, aud: 'other' }))), unauthorized)
  await t.rejects(strict.authenticate(bearer(await token({ aud: 'busbar' }))), unauthorized)
})

t.test('a token that was accepted is refused once it has expired', async (t) => {
  const authenticator = withSecret({ clockToleranceSeconds: 0 })
  const of = await token({ sub: 'ann' }, { expires: Math.floor(Date.now() / 1000) + 2 })
  const { expiresAt } = await authenticator.authenticate(bearer(of))
  while (Date.now() <= expiresAt!) await new Promise((resolve) => setTimeout(resolve, 20))
  await t.rejects(authenticator.authenticate(bearer(of)), { ...unauthorized, message: 'The token has expired' })
})

t.test('the query may carry the token where the route allows it, and the header wins', async (t) => {
  const authenticator = withSecret({ required: true })
  const [ann, bob] = [await token({ sub: 'ann' }), await token({ sub: 'bob' })]
  const query = new URLSearchParams({ access_token: ann })
  t.equal((await authenticator.authenticate({}, query)).actor, 'ann')
  t.equal((await authenticator.authenticate(bearer(bob), query)).actor, 'bob')
  await t.rejects(authenticator.authenticate({}, new URLSearchParams({ access_token: 'bad' })), unauthorized)
  await t.rejects(authenticator.authenticate({}, new URLSearchParams({ access_token: '' })), unauthorized)
})

t.test('a secret that can be guessed is refused at the start', async (t) => {
  t.throws(() => createAuthenticator({ secret: 'short' }), /at least 32 bytes/)
})

t.test('tokens of a key server', async (t) => {
  const keys: JWK[] = []
  let answer: () => { status: number; body: string } = () => ({ status: 200, body: JSON.stringify({ keys }) })
  let fetches = 0
  const keyServer = createServer((_request, response) => {
    fetches += 1
    const { status, body } = answer()
    response.writeHead(status, { 'content-type': 'application/json' }).end(body)
  })
  await new Promise<void>((resolve) => keyServer.listen(0, '127.0.0.1', resolve))
  t.teardown(() => keyServer.close())
  const jwksUrl = `http://127.0.0.1:${(keyServer.address() as AddressInfo).port}/jwks.json`
  async function addKey(kid: string, alg: string) {
    const { publicKey, privateKey } = await generateKeyPair(alg, { extractable: true })
    keys.push({ ...(await exportJWK(publicKey)), kid, alg })
    return { key: privateKey, alg, kid, publicKey }
  }
  const rsa = await addKey('rsa-1', 'RS256')
  const ed = await addKey('ed-1', 'EdDSA')
  const authenticator = createAuthenticator({ jwksUrl, jwksCooldownMs: 0 })

  t.equal((await authenticator.authenticate(bearer(await token({ sub: 'r' }, rsa)))).actor, 'r')
  t.equal((await authenticator.authenticate(bearer(await token({ sub: 'e' }, ed)))).actor, 'e')
  t.equal(fetches, 1, 'the set is fetched once')

  const rotated = await addKey('ed-2', 'EdDSA')
  t.equal(
    (await authenticator.authenticate(bearer(await token({ sub: 'n' }, rotated)))).actor,
    'n',
    'a new key is found',
  )
  t.equal(fetches, 2)

  const { privateKey: stranger } = await generateKeyPair('RS256')
  await t.rejects(
    authenticator.authenticate(bearer(await token({ sub: 'x' }, { ...rsa, key: stranger }))),
    unauthorized,
  )
  await t.rejects(authenticator.authenticate(bearer(await token({ sub: 'x' }, { ...rsa, kid: 'gone' }))), unauthorized)

  const publicText = new TextEncoder().encode(JSON.stringify(await exportJWK(rsa.publicKey)))
  const confused = await token({ sub: 'x' }, { key: publicText, alg: 'HS256', kid: 'rsa-1' })
  await t.rejects(authenticator.authenticate(bearer(confused)), unauthorized, 'a public key is never a secret')

  const both = createAuthenticator({ jwksUrl, secret })
  t.equal((await both.authenticate(bearer(await token({ sub: 'h' })))).actor, 'h')
  t.equal((await both.authenticate(bearer(await token({ sub: 'r' }, rsa)))).actor, 'r')

  const away = { name: 'Unavailable', code: 'http/unavailable', status: 503 }
  for (const [name, status, body] of [
    ['fails', 500, '{}'],
    ['answers no JSON', 200, '<html>'],
    ['answers no key set', 200, '{"keys": 7}'],
    ['redirects', 302, ''],
    ['sends too much', 200, ' '.repeat(1024 * 1024)],
  ] as const) {
    answer = () => ({ status, body })
    const fresh = createAuthenticator({ jwksUrl })
    await t.rejects(fresh.authenticate(bearer(await token({ sub: 'r' }, rsa))), away, `a key server that ${name}`)
  }
  keyServer.closeAllConnections()
  await new Promise((resolve) => keyServer.close(resolve))
  const cut = createAuthenticator({ jwksUrl })
  await t.rejects(cut.authenticate(bearer(await token({ sub: 'r' }, rsa))), away, 'a key server that is gone')
  t.equal((await authenticator.authenticate(bearer(await token({ sub: 'e2' }, ed)))).actor, 'e2', 'known keys go on')
})
