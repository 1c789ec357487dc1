import { createHash, randomBytes } from 'node:crypto'
import { createRemoteJWKSet, decodeJwt, jwtVerify, SignJWT, UnsecuredJWT } from 'jose'
import t from 'tap'
import { load } from '../../bus/load.ts'
import { keyRing } from '../../bus/sealed.ts'
import { addressReader } from '../../gateways/workflows/auth-address.ts'
import { openTokens, type TokenClaims } from '../../gateways/workflows/tokens.ts'
import { rotateTokenKeys } from '../../gateways/workflows/tokens-keys.ts'
import { requireUser, userAggregate } from '../../schemas/workflows/user.ts'
import { authStage, cheap, password } from './auth-stage.ts'

const idle = 'name: idle\ntasks: [{ name: pause, type: core.wait, properties: { duration: 1h } }]\n'
const gated =
  'name: gated\ntasks:\n  - name: gate\n    type: core.approval\n    properties: { message: Ship it?, role: editor }\n'

interface Signed extends Omit<TokenClaims, 'sessionId' | 'expiresAt'> {
  readonly sid: string
}

t.setTimeout(120_000)
t.test('users and their tokens', async (t) => {
  const stage = await authStage(t)
  const { bus, ring, until } = stage
  const [one, two] = [await stage.gateway(), await stage.gateway()]
  let addresses = 0
  /** A session, from an address that has tried nothing yet. */
  const session = async (username: string, secret = password) => {
    addresses++
    const { status, json } = await one.login(username, secret, `10.1.${addresses >> 8}.${addresses & 255}`)
    if (status !== 200) throw new Error(`${username}: ${JSON.stringify(json)}`)
    return json as { token: string; refreshToken: string; username: string; role: string; expiresIn: number }
  }
  let admin = (await session('admin')).token
  const me = (token: string, gateway = one) => gateway.ask('GET', '/auth/me', { token })
  const refresh = (refreshToken: string, gateway = one) =>
    gateway.ask('POST', '/auth/refresh', { body: { refreshToken } })

  await until(async () => (await one.ask('GET', '/api/v1/plugins/core.approval', { token: admin })).status === 200)

  await t.test('are registered by an admin, each name once', async (t) => {
    const viewer = (await session('viewer')).token
    const register = (body: unknown, token?: string) =>
      one.ask('POST', '/auth/register', { body, ...(token !== undefined && { token }) })
    const ann = { username: 'Ann', password, role: 'editor' }
    t.equal((await register(ann)).status, 401)
    t.equal((await register(ann, viewer)).status, 403)
    const made = await register(ann, admin)
    t.match(made, { status: 201, json: { username: 'Ann', role: 'editor', enabled: true, createdBy: 'admin' } })
    t.notMatch(made.text, /password|argon2/)
    t.match(await register({ ...ann, username: 'ANN' }, admin), {
      status: 409,
      json: { code: 'workflows/user-exists' },
    })
    const refused: [Record<string, unknown>, RegExp][] = [
      [{ ...ann, role: 'king' }, /role/],
      [{ ...ann, username: '' }, /username/],
      [{ ...ann, username: 7 }, /username/],
      [{ ...ann, username: 'a b' }, /username/],
      [{ ...ann, username: 'x'.repeat(65) }, /username/],
      [{ ...ann, username: 'Anonymous' }, /username is reserved/],
      [{ username: 'bob', role: 'viewer' }, /password/],
      [{ ...ann, username: 'bob', password: 'short' }, /password/],
      [{ ...ann, username: 'bob', password: 'x'.repeat(1_025) }, /password/],
      [{ ...ann, username: 'bob', more: 1 }, /more/],
    ]
    for (const [body, error] of refused) {
      const { status, json } = await register(body, admin)
      t.match({ status, error: json.error }, { status: 400, error }, JSON.stringify(body).slice(0, 80))
    }
    const race = await Promise.all(
      [one, two, one, two].map((gateway) =>
        gateway.ask('POST', '/api/v1/users', { body: { username: 'race', password }, token: admin }),
      ),
    )
    t.same(race.map(({ status }) => status).sort(), [201, 409, 409, 409])
    t.match((await session('ann')).username, 'Ann', 'small and capital letters are the same')
  })

  await t.test('sign in, with one answer to whatever is wrong', async (t) => {
    await one.ask('POST', '/api/v1/users', { body: { username: 'gone', password }, token: admin })
    await one.ask('PUT', '/api/v1/users/gone', { body: { enabled: false }, token: admin })
    const wrong = await Promise.all([
      one.login('viewer', 'not the password', '10.2.0.1'),
      one.login('nobody-at-all', password, '10.2.0.2'),
      one.login('not a name', password, '10.2.0.3'),
      one.login('gone', password, '10.2.0.4'),
    ])
    for (const { status, json } of wrong) {
      t.match({ status, ...json }, { status: 401, code: 'workflows/login-refused', error: wrong[0].json.error })
      t.equal(json.details, null)
    }
    for (const body of [
      {},
      { username: 'a' },
      { username: 'a', password: 1 },
      [],
      { username: 'a', password: 'b', c: 1 },
    ]) {
      t.equal((await one.ask('POST', '/auth/login', { body })).status, 400, JSON.stringify(body))
    }
    const { token, expiresIn, role } = await session('executor')
    t.match({ expiresIn, role }, { expiresIn: 900, role: 'executor' })
    const keys = createRemoteJWKSet(new URL(`${two.url}/.well-known/jwks.json`))
    const { payload, protectedHeader } = await jwtVerify(token, keys, { issuer: 'busbar', audience: 'busbar' })
    t.match(payload, { sub: 'executor', role: 'executor', userId: String })
    t.match(protectedHeader, { alg: 'ES256', kid: String })
    t.notMatch((await one.ask('GET', '/.well-known/jwks.json')).text, /"d":/, 'no private key is shown')
    t.match((await me(token, two)).json, { username: 'executor', role: 'executor', authenticated: true })
  })

  await t.test('are known by their tokens alone', async (t) => {
    const { token } = await session('viewer')
    const claims = decodeJwt(token)
    const tokens = await openTokens(bus, ring, { now: Date.now, onObservation: () => undefined })
    t.teardown(() => tokens.close())
    const { username, userId, role, sid, epoch } = claims as unknown as Signed
    const own = { username, userId, role, sessionId: sid, epoch, expiresAt: Date.now() + 60_000 }
    t.equal((await me(await tokens.sign('access', own))).status, 200)
    const [head, body, signature] = token.split('.') as [string, string, string]
    const forged = Buffer.from(JSON.stringify({ ...claims, role: 'admin', sub: 'admin', username: 'admin' })).toString(
      'base64url',
    )
    const publicKey = (await one.ask('GET', '/auth/jwks.json')).text
    const kid = JSON.parse(Buffer.from(head, 'base64url').toString()).kid
    const refused: Record<string, string> = {
      expired: await tokens.sign('access', { ...own, expiresAt: Date.now() - 1_000 }),
      'a ticket': await tokens.sign('ticket', own),
      'of no session': await tokens.sign('access', { ...own, sessionId: userId }),
      "of somebody else's session": await tokens.sign('access', { ...own, username: 'admin' }),
      'of another epoch': await tokens.sign('access', { ...own, epoch: epoch + 1 }),
      'with other claims': `${head}.${forged}.${signature}`,
      'without a signature': new UnsecuredJWT(claims).encode(),
      'with the public key for a secret': await new SignJWT(claims)
        .setProtectedHeader({ alg: 'HS256', kid })
        .sign(createHash('sha256').update(publicKey).digest()),
      'of an unknown key': await new SignJWT(claims)
        .setProtectedHeader({ alg: 'ES256', kid: 'none' })
        .sign((await crypto.subtle.generateKey({ name: 'ECDSA', namedCurve: 'P-256' }, true, ['sign'])).privateKey),
      'cut short': `${head}.${body}`,
      'very long': 'x'.repeat(9_000),
    }
    for (const [what, bad] of Object.entries(refused)) t.equal((await me(bad)).status, 401, what)
    for (const header of ['', 'Basic YWxhZGRpbg==', `Bearer ${token} x`, 'Bearer']) {
      t.equal((await one.ask('GET', '/auth/me', { headers: { Authorization: header } })).status, 401, header)
    }
    t.equal((await one.ask('GET', '/healthz', { headers: { Authorization: 'Bearer x' } })).status, 200)
  })

  await t.test('refresh a session, each token once', async (t) => {
    const first = await session('editor')
    const second = await refresh(first.refreshToken, two)
    t.match(second, { status: 200, json: { username: 'editor', role: 'editor' } })
    t.equal((await me(second.json.token)).status, 200)
    const sid = first.refreshToken.split('.')[0]
    for (const bad of ['', 'x', `${sid}.${'A'.repeat(43)}`, `${crypto.randomUUID()}.${'A'.repeat(43)}`]) {
      t.equal((await refresh(bad)).status, 401, bad)
    }
    t.equal((await me(second.json.token)).status, 200, 'what never was a token ends nothing')
    t.equal((await refresh(first.refreshToken)).status, 401, 'a spent token')
    t.equal((await refresh(second.json.refreshToken)).status, 401, 'ends the session')
    t.equal((await me(second.json.token)).status, 401)
    const third = await session('editor')
    const race = await Promise.all([one, two, one].map((gateway) => refresh(third.refreshToken, gateway)))
    t.equal(race.filter(({ status }) => status === 200).length, 1)
  })

  await t.test('sign out, here or everywhere', async (t) => {
    const [here, there, other] = [await session('viewer'), await session('viewer'), await session('viewer')]
    t.equal((await one.ask('POST', '/auth/logout')).status, 401)
    t.equal((await one.ask('POST', '/auth/logout', { token: here.token })).status, 204)
    t.equal((await me(here.token)).status, 401)
    t.equal((await refresh(here.refreshToken)).status, 401)
    t.equal((await me(there.token)).status, 200)
    const { refreshToken } = there
    t.equal((await one.ask('POST', '/auth/logout', { body: { refreshToken } })).status, 204, 'with what refreshes it')
    t.equal((await me(there.token)).status, 401)
    const everywhere = { body: { everywhere: true }, token: (await session('viewer')).token }
    t.equal((await two.ask('POST', '/auth/logout', everywhere)).status, 204)
    await until(async () => (await me(other.token)).status === 401)
    t.equal((await refresh(other.refreshToken)).status, 401)
  })

  await t.test('are changed by admins, from the next request on', async (t) => {
    const user = (body: unknown, name = 'worked') => one.ask('PUT', `/api/v1/users/${name}`, { body, token: admin })
    await one.ask('POST', '/api/v1/users', { body: { username: 'worked', password }, token: admin })
    const { token, refreshToken } = await session('worked')
    const create = (gateway = one) =>
      gateway.ask('POST', '/api/v1/flows', {
        token,
        body: { name: 'idle', namespace: crypto.randomUUID(), yamlContent: idle },
      })
    t.equal((await create()).status, 403)
    t.match((await user({ role: 'editor' })).json, { username: 'worked', role: 'editor' })
    t.equal((await create()).status, 201)
    await until(async () => (await create(two)).status === 201)
    t.match((await user({ enabled: false })).json, { enabled: false })
    t.equal((await me(token)).status, 401)
    await until(async () => (await me(token, two)).status === 401)
    t.equal((await refresh(refreshToken)).status, 401)
    t.equal((await user({ enabled: true })).status, 200)
    t.equal((await me(token)).status, 401, 'sessions do not come back')
    t.equal((await user({ password: 'another password' })).status, 200)
    t.equal((await session('worked', 'another password')).role, 'editor')
    for (const [body, name, status] of [
      [{ role: 'king' }, 'worked', 400],
      [{ enabled: 'no' }, 'worked', 400],
      [{ password: 'x' }, 'worked', 400],
      [{ role: 'viewer' }, 'nobody', 404],
      [{ role: 'viewer' }, 'not%20a%20name', 404],
    ] as const) {
      t.equal((await user(body, name)).status, status, JSON.stringify(body))
    }
    const listed = await one.ask('GET', '/api/v1/users?role=editor&q=WORK&limit=1', { token: admin })
    t.match(listed.json, [{ username: 'worked', role: 'editor', enabled: true }])
    t.equal(listed.headers.get('x-total-count'), '1')
    const page = await one.ask('GET', '/api/v1/users?limit=2', { token: admin })
    t.match(page.headers.get('link'), /cursor=2/)
    t.equal((await one.ask('DELETE', '/api/v1/users/worked', { token: admin })).status, 204)
    t.equal((await one.ask('GET', '/api/v1/users/worked', { token: admin })).status, 404)
    const again = await one.ask('POST', '/api/v1/users', { body: { username: 'worked', password }, token: admin })
    t.match(again.json, { role: 'viewer' })
  })

  await t.test('keep at least one admin', async (t) => {
    const change = (username: string, body: unknown) =>
      one.ask('PUT', `/api/v1/users/${username}`, { body, token: admin })
    const lastAdmin = { status: 409, json: { code: 'workflows/last-admin' } }
    t.match(await change('admin', { role: 'viewer' }), lastAdmin)
    t.match(await change('admin', { enabled: false }), lastAdmin)
    t.match(await one.ask('DELETE', '/api/v1/users/admin', { token: admin }), lastAdmin)
    await one.ask('POST', '/api/v1/users', { body: { username: 'second', password, role: 'admin' }, token: admin })
    const second = (await session('second')).token
    const race = await Promise.all([
      change('second', { enabled: false }),
      two.ask('PUT', '/api/v1/users/admin', { body: { role: 'viewer' }, token: second }),
    ])
    t.ok(
      race.some(({ status }) => status !== 200),
      'not both',
    )
    const left = (await session('admin')).role === 'admin' ? admin : second
    const { json } = await one.ask('GET', '/api/v1/users?role=admin&enabled=true', { token: left })
    t.equal(json.length, 1)
    await one.ask('PUT', '/api/v1/users/admin', { body: { role: 'admin' }, token: left })
  })

  await t.test('change their own password', async (t) => {
    await one.ask('POST', '/api/v1/users', { body: { username: 'own', password }, token: admin })
    const { token } = await session('own')
    const change = (body: unknown) =>
      one.ask('POST', '/auth/password', { body, token, headers: { 'X-Forwarded-For': '10.3.0.1' } })
    t.equal((await change({ currentPassword: 'not it at all', newPassword: 'a new password' })).status, 401)
    t.equal((await change({ currentPassword: password, newPassword: 'short' })).status, 400)
    const changed = await change({ currentPassword: password, newPassword: 'a new password' })
    t.equal(changed.status, 200)
    t.equal((await me(token)).status, 401, 'other sessions end')
    t.equal((await me(changed.json.token)).status, 200)
    t.equal((await one.login('own', password, '10.3.0.2')).status, 401)
  })

  await t.test('have their passwords under the key and at the cost of today once they sign in', async (t) => {
    await one.ask('POST', '/api/v1/users', { body: { username: 'dated', password }, token: admin })
    const place = { stream: 'EVT_WORKFLOWS', subject: 'evt.workflows.user.dated' }
    const stored = async () => requireUser((await load(bus, userAggregate, place)).state)
    const before = await stored()
    const keys = [`next:${randomBytes(32).toString('base64')}`, ...stage.secretKeys]
    const later = await stage.gateway({
      secretKeys: keys,
      auth: {
        enabled: true,
        openRegistration: false,
        addressOf: addressReader(),
        hashCost: { ...cheap.hashCost, timeCost: 3 },
      },
    })
    t.equal((await later.login('dated', 'not the password')).status, 401)
    t.strictSame(await stored(), before)
    t.equal((await later.login('dated')).status, 200)
    const after = await stored()
    t.equal(after.password.keyId, 'next')
    t.match(keyRing(keys)!.open(after.password, `user/${after.userId}/`), /t=3/)
    t.equal((await later.login('dated')).status, 200)
    t.strictSame(await stored(), after, 'once')
    t.equal(after.epoch, before.epoch, 'sessions go on')
  })

  await t.test('are not guessed, at any gateway', async (t) => {
    const tries = await Promise.all(
      Array.from({ length: 24 }, (_, index) =>
        (index % 2 === 0 ? one : two).login('executor', `guess ${index}`, '10.4.0.1'),
      ),
    )
    const answered = tries.filter(({ status }) => status === 401)
    t.ok(answered.length >= 1 && answered.length <= 5, `${answered.length} of 24 were looked at`)
    while ((await one.login('executor', 'one more', '10.4.0.1')).status === 401);
    const locked = await two.login('executor', password, '10.4.0.1')
    t.match(locked, { status: 429, json: { code: 'http/too-many-requests' } }, 'the right one comes too late')
    const retryAfter = Number(locked.headers.get('retry-after'))
    t.ok(retryAfter > 0 && retryAfter <= 900, `${retryAfter} s`)
    t.equal((await two.login('executor', password, '10.4.0.2')).status, 200, 'from elsewhere')
    for (let round = 0; round < 2; round++) {
      for (let wrong = 0; wrong < 4; wrong++)
        t.equal((await one.login('viewer', 'mistyped it', '10.5.0.1')).status, 401)
      t.equal((await one.login('viewer', password, '10.5.0.1')).status, 200, 'who knows it may mistype it')
    }
  })

  await t.test('keep their tokens when the signing key changes, unless it is revoked', async (t) => {
    const before = await session('viewer')
    const rotate = (revoke: boolean) => rotateTokenKeys(bus, ring, { by: 'test', at: Date.now(), always: true, revoke })
    await rotate(false)
    t.equal((await me(before.token)).status, 200)
    const after = await refresh(before.refreshToken, two)
    const kid = (token: string) => JSON.parse(Buffer.from(token.split('.')[0]!, 'base64url').toString()).kid
    t.not(kid(after.json.token), kid(before.token))
    t.equal((await me(after.json.token)).status, 200)
    await rotate(true)
    await until(async () => (await me(after.json.token)).status === 401)
    const revived = await refresh(after.json.refreshToken)
    t.equal(revived.status, 200, 'sessions go on')
    t.equal((await me(revived.json.token, two)).status, 200)
    admin = (await session('admin')).token
  })

  await t.test('follow logs from browsers, which cannot send headers, until they are signed out', async (t) => {
    await one.ask('POST', '/api/v1/users', { body: { username: 'browser', password, role: 'editor' }, token: admin })
    const { token } = await session('browser')
    const flow = await one.ask('POST', '/api/v1/flows', {
      token,
      body: { name: 'idle', namespace: 'logs', yamlContent: idle },
    })
    const { executionId } = (await one.ask('POST', `/api/v1/flows/${flow.json.id}/execute`, { token })).json
    const path = `/api/v1/executions/${executionId}/logs`
    const open = (query: string, protocols: string[]) => {
      const socket = new WebSocket(`${one.url.replace('http', 'ws')}${path}${query}`, protocols)
      const ended = new Promise<string>((resolve) => {
        socket.onclose = () => resolve('closed')
        socket.onerror = () => resolve('closed')
      })
      const opened = new Promise<string>((resolve) => {
        socket.onopen = () => resolve(`open ${socket.protocol}`)
      })
      return { ended, first: Promise.race([opened, ended]) }
    }
    const ticket = async () => (await one.ask('POST', '/auth/ticket', { token })).json.ticket as string
    t.equal(await open('', []).first, 'closed')
    t.equal(await open('', ['busbar', 'bearer.x']).first, 'closed')
    t.equal(await open('?ticket=x', []).first, 'closed')
    const [byProtocol, byTicket] = [open('', ['busbar', `bearer.${token}`]), open(`?ticket=${await ticket()}`, [])]
    t.equal(await byProtocol.first, 'open busbar')
    t.equal(await byTicket.first, 'open ')
    const events = await fetch(`${one.url}${path}?ticket=${await ticket()}`, {
      headers: { Accept: 'text/event-stream' },
    })
    t.equal(events.status, 200)
    const drained = events.text().then(
      () => 'ended',
      () => 'ended',
    )
    t.equal((await one.ask('POST', `/api/v1/flows?ticket=${await ticket()}`)).status, 401, 'a ticket is for looking')
    await one.ask('PUT', '/api/v1/users/browser', { body: { enabled: false }, token: admin })
    t.same(await Promise.all([byProtocol.ended, byTicket.ended, drained]), ['closed', 'closed', 'ended'])
  })

  await t.test('are named by what they do', async (t) => {
    const [editor, executor] = [(await session('editor')).token, (await session('executor')).token]
    const body = { name: 'gated', namespace: 'named', yamlContent: gated }
    const flow = await one.ask('POST', '/api/v1/flows', { token: editor, body })
    t.match(flow.json, { createdBy: 'editor' })
    const { json } = await one.ask('POST', `/api/v1/flows/${flow.json.id}/execute`, { token: executor })
    const gates = () => one.ask('GET', `/api/v1/approvals?executionId=${json.executionId}`, { token: executor })
    await until(async () => (await gates()).json.length === 1)
    const [{ id }] = (await gates()).json
    const approve = (token: string) =>
      one.ask('POST', `/api/v1/approvals/${id}/approve`, { token, body: { comment: 'go' } })
    t.match(await approve(executor), { status: 403, json: { code: 'workflows/forbidden' } }, 'the gate is for editors')
    t.match(await approve(editor), { status: 200, json: { status: 'APPROVED', decidedBy: 'editor', comment: 'go' } })
    t.equal((await approve(admin)).status, 409)
    const history = await one.ask('GET', `/api/v1/executions/${json.executionId}/events`, { token: executor })
    const actors = JSON.stringify(history.json)
    t.match(actors, /"actor":"executor"/)
    t.match(actors, /"actor":"editor"/)
    const [revision] = (await one.ask('GET', `/api/v1/flows/${flow.json.id}/revisions`, { token: editor })).json
    t.match(revision, { createdBy: 'editor' })
  })

  await t.test('may register themselves where that is allowed, as viewers', async (t) => {
    const open = await stage.gateway({
      auth: { ...cheap, enabled: true, openRegistration: true, addressOf: addressReader() },
    })
    const register = (body: unknown) => open.ask('POST', '/auth/register', { body })
    t.match(await register({ username: 'stranger', password }), {
      status: 201,
      json: { role: 'viewer', createdBy: 'stranger' },
    })
    t.equal((await register({ username: 'boss', password, role: 'admin' })).status, 403)
    const many = []
    for (let index = 0; index < 11; index++) many.push((await register({ username: 'stranger', password })).status)
    t.equal(many.at(0), 409)
    t.equal(many.at(-1), 429)
  })

  await t.test('are known, not asked for, where authentication is off', async (t) => {
    const off = await stage.gateway({ auth: { ...cheap, enabled: false, addressOf: addressReader() } })
    t.match((await off.ask('GET', '/auth/me')).json, { username: 'anonymous', role: 'admin', authenticated: false })
    const made = await off.ask('POST', '/auth/register', { body: { username: 'free', password, role: 'editor' } })
    t.match(made, { status: 201, json: { username: 'free', role: 'editor', createdBy: 'anonymous' } })
    const { token } = (await off.login('free')).json
    t.match((await me(token, off)).json, { username: 'free', authenticated: true })
    const flow = { name: 'idle', namespace: 'off', yamlContent: idle }
    t.match((await off.ask('POST', '/api/v1/flows', { body: flow, token })).json, { createdBy: 'free' })
    t.equal((await off.ask('GET', '/api/v1/flows', { token: 'x' })).status, 200)
    const keyless = await stage.gateway({
      secretKeys: [],
      auth: { ...cheap, enabled: false, addressOf: addressReader() },
    })
    t.match(await keyless.login('free'), { status: 501, json: { code: 'workflows/no-keys' } })
    t.equal((await keyless.ask('GET', '/api/v1/flows')).status, 200)
  })

  t.same(stage.faults, [])
})
