import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { callPlugin, failure, files } from './call-plugin.ts'
import { type Given, pluginsOf, type Right, type Wrong } from './plugin-cases.ts'

t.setTimeout(120_000)
const { call, give, refuse } = pluginsOf('util')

const secret = 'a secret'

const right: Right = [
  // The test case of NIST for a key, a nonce and a block of zeros.
  [
    'crypto',
    {
      operation: 'decrypt',
      key: '00'.repeat(32),
      text: Buffer.from(
        `${'00'.repeat(12)}cea7403d4d606b6e074ec5d3baf39d18d0d1c8a799996bf0265b98b5d48ab919`,
        'hex',
      ).toString('base64'),
    },
    { text: '\0'.repeat(16) },
  ],
  // RFC 8032, section 7.1, test 1: Ed25519 of nothing.
  [
    'crypto',
    {
      operation: 'sign',
      text: '',
      key: {
        kty: 'OKP',
        crv: 'Ed25519',
        d: 'nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A',
        x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo',
      },
    },
    {
      signature: Buffer.from(
        'e5564300c360ac729086e2cc806e828a84877f1eb8e5d974d873e065224901555fb8821590a33bacc61e39701cf9b46bd25bf5f0595bbe24655141438e7a100b',
        'hex',
      ).toString('base64'),
    },
  ],
  // RFC 7515, appendix A.1; the token is of 2011.
  [
    'crypto',
    {
      operation: 'jwt-verify',
      token:
        'eyJ0eXAiOiJKV1QiLA0KICJhbGciOiJIUzI1NiJ9.eyJpc3MiOiJqb2UiLA0KICJleHAiOjEzMDA4MTkzODAsDQogImh0dHA6Ly9leGFtcGxlLmNvbS9pc19yb290Ijp0cnVlfQ.dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk',
      key: { kty: 'oct', k: 'AyM1SysPpbyDfgZld3umj1qzKObwVMkoqQ-EstJQLr_T-1qS0gZH75aKtMN3Yj0iPS4hcgUuTwjAzZr1Z9CAow' },
      failWhenInvalid: false,
    },
    { valid: false, reason: /"exp" claim timestamp check failed/ },
  ],
  [
    'crypto',
    { operation: 'jwt-decode', token: 'eyJhbGciOiJub25lIn0.eyJpc3MiOiJqb2UifQ.' },
    { claims: { iss: 'joe' }, header: { alg: 'none' } },
  ],
  // The reference implementation of Argon2.
  [
    'crypto',
    {
      operation: 'verify-password',
      password: 'password',
      passwordHash: '$argon2id$v=19$m=65536,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc',
    },
    { valid: true, reason: null },
  ],
]

t.test('what comes out of what', (t) => give(t, right))

const wrong: Wrong = [
  ['crypto', { operation: 'encrypt', text: 'x' }, /properties.key or properties.password is needed/],
  ['crypto', { operation: 'encrypt', text: 'x', key: 'short' }, /not 16, 24 or 32 bytes/],
  ['crypto', { operation: 'decrypt', text: 'AAAA', key: '00'.repeat(32) }, /too short/],
  ['crypto', { operation: 'sign', text: 'x', key: 'no key' }, /properties.key is no private key/],
  ['crypto', { operation: 'generate-key', keyType: 'rsa', keyBits: 256 }, /not for rsa/],
  ['crypto', { operation: 'jwt-sign', key: secret, algorithm: 'RS256' }, /no key for RS256/],
  ['crypto', { operation: 'jwt-sign', key: secret, algorithm: 'ed25519' }, /not for tokens/],
  ['crypto', { operation: 'jwt-sign', key: secret, expiresIn: 'soon' }, /properties.expiresIn is no duration/],
  ['crypto', { operation: 'jwt-decode', token: 'x.y' }, /no JSON Web Token/],
  // Nothing is signed by saying so.
  [
    'crypto',
    { operation: 'jwt-verify', key: secret, token: 'eyJhbGciOiJub25lIn0.eyJpc3MiOiJqb2UifQ.' },
    /The token is not valid/,
  ],
  ['crypto', { operation: 'verify-password', password: 'x', passwordHash: '$2b$10$x' }, /none of argon2id/],
  [
    'crypto',
    {
      operation: 'verify-password',
      password: 'x',
      passwordHash: '$argon2id$v=19$m=4194304,t=2,p=1$c29tZXNhbHQ$CTFhFdXPJO1aFaMaO6Mm5c8y7cJHAph8ArZWb2GRPPc',
    },
    /costs more/,
  ],
]

t.test('what is refused, and why', (t) => refuse(t, wrong))

t.test('encryption', async (t) => {
  const { key } = await call('crypto', { operation: 'generate-key' })
  t.equal(Buffer.from(String(key), 'base64').length, 32)
  t.test('there and back again', async (t) => {
    for (const how of [{ key }, { key: '00'.repeat(16) }, { password: 'pw' }, { key, additionalData: 'order 1' }]) {
      const one = await call('crypto', { operation: 'encrypt', text: 'hällo', ...how })
      const other = await call('crypto', { operation: 'encrypt', text: 'hällo', ...how })
      t.not(one.text, other.text, 'never the same twice')
      t.match(await call('crypto', { operation: 'decrypt', text: one.text, ...how }), { text: 'hällo' })
    }
    files.set('bytes', Buffer.from([0xff, 0xfe]))
    const sealed = await call('crypto', { operation: 'encrypt', file: 'bytes', key, toFile: true })
    const opened = await call('crypto', { operation: 'decrypt', file: sealed.uri, key, toFile: true })
    t.same([...files.get(String(opened.uri))!], [0xff, 0xfe])
  })
  t.test('what has been changed is told', async (t) => {
    const { text } = await call('crypto', { operation: 'encrypt', text: 'x', key, additionalData: 'a' })
    const bytes = Buffer.from(String(text), 'base64')
    const changed = failure('refused', /the key is another, or it has been changed/)
    for (let at = 0; at < bytes.length; at++) {
      const broken = Buffer.from(bytes)
      broken[at] = broken[at]! ^ 1
      await t.rejects(
        call('crypto', { operation: 'decrypt', text: broken.toString('base64'), key, additionalData: 'a' }),
        changed,
      )
    }
    await t.rejects(call('crypto', { operation: 'decrypt', text, key, additionalData: 'b' }), changed)
    await t.rejects(call('crypto', { operation: 'decrypt', text, key: '00'.repeat(32), additionalData: 'a' }), changed)
  })
})

t.test('signatures and tokens of key pairs', async (t) => {
  const kinds = [
    ['ed25519', 'ed25519', 'EdDSA'],
    ['rsa', 'rsa-sha256', 'RS256'],
    ['rsa', 'rsa-pss-sha256', 'PS256'],
    ['ec-p256', 'ecdsa-sha256', 'ES256'],
  ] as const
  for (const [keyType, algorithm, alg] of kinds) {
    const keyBits = keyType === 'rsa' ? { keyBits: 2048 } : {}
    const { privateKey, publicKey } = await call('crypto', { operation: 'generate-key', keyType, ...keyBits })
    const { signature } = await call('crypto', { operation: 'sign', text: 'x', key: privateKey, algorithm })
    t.same(
      await call('crypto', { operation: 'verify', text: 'x', key: publicKey, algorithm, signature }),
      { valid: true, reason: null },
      algorithm,
    )
    await t.rejects(
      call('crypto', { operation: 'verify', text: 'y', key: publicKey, algorithm, signature }),
      failure('refused', 'The signature is not right'),
    )
    await t.rejects(
      call('crypto', {
        operation: 'sign',
        text: 'x',
        key: privateKey,
        algorithm: keyType === 'rsa' ? 'ed25519' : 'rsa-sha256',
      }),
      failure('refused', /properties.key is for /),
    )
    const { token } = await call('crypto', {
      operation: 'jwt-sign',
      key: privateKey,
      algorithm: alg,
      claims: { sub: 'ann' },
      expiresIn: '1h',
    })
    t.match(await call('crypto', { operation: 'jwt-verify', key: publicKey, algorithm: alg, token }), {
      valid: true,
      claims: { sub: 'ann' },
      header: { alg },
    })
    // The public key is no secret, whatever the token says.
    const forged = `${Buffer.from('{"alg":"HS256"}').toString('base64url')}.${String(token).split('.')[1]}.AAAA`
    await t.rejects(
      call('crypto', { operation: 'jwt-verify', key: publicKey, algorithm: alg, token: forged }),
      failure('refused', /not valid/),
    )
    await t.rejects(
      call('crypto', { operation: 'jwt-verify', key: publicKey, token }),
      failure('refused', /is a PEM, and HS256 asks for a secret/),
    )
  }
})

t.test('what a token has to say', async (t) => {
  const sign = async (more: Given) => (await call('crypto', { operation: 'jwt-sign', key: secret, ...more })).token
  const check = (token: unknown, more: Given = {}) =>
    call('crypto', { operation: 'jwt-verify', key: secret, token, ...more })
  const token = await sign({ issuer: 'i', audience: 'a' })
  t.match(await check(token, { issuer: 'i', audience: 'a' }), { claims: { iss: 'i', aud: 'a', iat: Number } })
  await t.rejects(check(token, { issuer: 'j' }), failure('refused', /"iss"/))
  await t.rejects(check(token, { audience: 'b' }), failure('refused', /"aud"/))
  await t.rejects(check(token, { key: 'another secret' }), failure('refused', /signature verification failed/))
  const past = await sign({ claims: { exp: 1_000_000_000 } })
  t.match(await check(past, { failWhenInvalid: false }), { valid: false, reason: /"exp"/, claims: undefined })
  const early = await sign({ claims: { nbf: 4_000_000_000 } })
  await t.rejects(check(early), failure('refused', /"nbf"/))
})

t.test('keys of an issuer', async (t) => {
  const jwk = { kty: 'OKP', crv: 'Ed25519', x: '11qYAYKxCrfVS_7TyWQHOg7hcvPapiMlrwIaaPcHURo' }
  const key = { ...jwk, d: 'nWGxne_9WmC6hEr0kuwsxERJxWl7MmkZcDusAxyuf2A' }
  let answer: unknown = { keys: [{ ...jwk, kid: '1', use: 'sig' }] }
  const server = createServer((_, response) => {
    response.writeHead(answer === null ? 503 : 200, { 'Content-Type': 'application/json' }).end(JSON.stringify(answer))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  const jwksUrl = `http://127.0.0.1:${(server.address() as AddressInfo).port}/keys`
  const { token } = await call('crypto', {
    operation: 'jwt-sign',
    key,
    algorithm: 'EdDSA',
    keyId: '1',
    claims: { sub: 'ann' },
  })
  const asked = { operation: 'jwt-verify', token, jwksUrl, algorithm: 'EdDSA' }
  t.match(await call('crypto', asked), { valid: true, claims: { sub: 'ann' }, header: { kid: '1' } })
  t.match(await call('crypto', { ...asked, jwksUrl: undefined, key: answer }), { valid: true })
  await t.rejects(call('crypto', { ...asked, algorithm: 'HS256' }), failure('refused', /public keys are not for HS256/))
  answer = { keys: [{ ...jwk, kid: '2' }] }
  await t.rejects(call('crypto', asked), failure('refused', /no applicable key/))
  answer = { nonsense: 1 }
  await t.rejects(call('crypto', asked), failure('refused', 'This is no set of JWKs'))
  answer = null
  await t.rejects(call('crypto', asked), failure('unavailable', /answered 503/))
  await t.rejects(callPlugin('util.crypto', asked, { allow: [] }), failure('refused', /may not be fetched from here/))
  server.closeAllConnections()
  await new Promise((resolve) => server.close(resolve))
})

t.test('passwords', async (t) => {
  const { passwordHash } = await call('crypto', { operation: 'hash-password', password: 'pässword' })
  t.match(passwordHash, /^\$argon2id\$v=19\$.*m=19456/)
  t.match(await call('crypto', { operation: 'verify-password', password: 'pässword', passwordHash }), { valid: true })
  await t.rejects(
    call('crypto', { operation: 'verify-password', password: 'password', passwordHash }),
    failure('refused', 'The password is not right'),
  )
})
