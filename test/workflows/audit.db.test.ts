import { spawn } from 'node:child_process'
import { resolve } from 'node:path'
import type { StoredMsg } from '@nats-io/jetstream'
import t from 'tap'
import { lastMessage, readMessage } from '../../bus/load.ts'
import { readPage } from '../../bus/page.ts'
import { natsHeaders, publish } from '../../bus/publish.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { auditPlace, openAuditTrail } from '../../gateways/workflows/audit-trail.ts'
import { verifyAudit } from '../../gateways/workflows/audit-verify.ts'
import { changeUserRole, deleteUser, enableUser, rotateSigningKey, signOutUser } from '../../ops/users.ts'
import { type AuditRecord, auditEvents } from '../../schemas/workflows/audit.ts'
import { startBusbar } from '../support/command.ts'
import { authStage, password } from './auth-stage.ts'

const idle = 'name: idle\ntasks: [{ name: pause, type: core.wait, properties: { duration: 1h } }]\n'
const cli = resolve(import.meta.dirname, '../../ops/cli.ts')

t.setTimeout(120_000)
t.test('the audit log', async (t) => {
  const stage = await authStage(t)
  const { bus, nats, until } = stage
  const [one, two] = [await stage.gateway(), await stage.gateway()]
  const tokenOf = async (role: string) => (await one.login(role)).json.token as string
  const [admin, editor, viewer] = [await tokenOf('admin'), await tokenOf('editor'), await tokenOf('viewer')]
  const audit = async (query = '') => (await two.ask('GET', `/api/v1/audit${query}`, { token: admin })).json
  await until(async () => (await one.ask('GET', '/api/v1/plugins/core.wait', { token: admin })).status === 200)
  const stored = async (): Promise<StoredMsg[]> => {
    const found: StoredMsg[] = []
    for (let seq = 1; ; seq = found.at(-1)!.seq + 1) {
      const page = await readPage(bus, auditPlace.stream, { seq, batch: 100 })
      if (page.length === 0) return found
      found.push(...page)
    }
  }
  /** Of the newest entry, without waiting for anything. */
  const newest = async () => {
    const last = await lastMessage(bus, auditPlace.stream, auditPlace.subject)
    return (await readMessage(bus, auditEvents, last!)).facts.at(-1)!.data
  }
  const created: Record<string, string> = {}
  const closed = await stage.gateway({ corsOrigins: [] })

  await t.test('has every command before it is answered', async (t) => {
    const flow = { name: 'idle', namespace: 'audited', yamlContent: idle }
    const hook = { flowId: '', type: 'webhook', name: 'hook', config: { key: 'a-webhook-key-that-is-secret' } }
    const table: readonly [string, string, unknown, string | undefined, object][] = [
      [
        'POST',
        '/auth/login',
        { username: 'viewer', password: 'a wrong password' },
        undefined,
        {
          username: 'viewer',
          action: 'auth.login',
          resourceType: 'user',
          resourceId: 'viewer',
          outcome: 'DENIED',
          statusCode: 401,
          error: 'workflows/login-refused',
        },
      ],
      [
        'POST',
        '/auth/login',
        { username: 'hunter2-by-mistake', password: 'x' },
        undefined,
        { username: 'anonymous', action: 'auth.login', resourceId: null, outcome: 'DENIED' },
      ],
      [
        'POST',
        '/auth/login',
        { username: 'viewer', password },
        undefined,
        { username: 'viewer', action: 'auth.login', outcome: 'SUCCESS', statusCode: 200, error: null },
      ],
      [
        'POST',
        '/api/v1/flows',
        flow,
        viewer,
        {
          username: 'viewer',
          role: 'viewer',
          action: 'flow.create',
          resourceType: 'flow',
          resourceId: null,
          outcome: 'DENIED',
          error: 'workflows/forbidden',
        },
      ],
      [
        'POST',
        '/api/v1/flows',
        flow,
        editor,
        {
          username: 'editor',
          role: 'editor',
          action: 'flow.create',
          resourceId: /^[0-9a-f-]{36}$/,
          outcome: 'SUCCESS',
          statusCode: 201,
          ip: '127.0.0.1',
        },
      ],
      [
        'POST',
        '/api/v1/flows',
        flow,
        editor,
        { action: 'flow.create', resourceId: null, outcome: 'FAILED', statusCode: 409, error: 'workflows/flow-exists' },
      ],
      [
        'POST',
        '/api/v1/flows/:flow/execute',
        undefined,
        editor,
        { action: 'flow.execute', resourceType: 'flow', outcome: 'SUCCESS' },
      ],
      [
        'POST',
        '/api/v1/triggers',
        hook,
        editor,
        { action: 'trigger.create', resourceType: 'trigger', resourceId: /^[0-9a-f-]{36}$/ },
      ],
      [
        'POST',
        '/api/v1/webhook/a-webhook-key-that-is-secret',
        {},
        undefined,
        { username: 'anonymous', action: 'webhook.fire', resourceId: /^[0-9a-f]{64}$/, outcome: 'SUCCESS' },
      ],
      [
        'POST',
        '/api/v1/credentials',
        { name: 'TOKEN', type: 'text', data: 'the-value-of-a-credential' },
        editor,
        { action: 'credential.create', resourceType: 'credential' },
      ],
      [
        'PUT',
        '/api/v1/kv/audited/greeting',
        { value: 'hello' },
        editor,
        { action: /^kv\./, resourceType: 'kv', resourceId: 'audited/greeting' },
      ],
      [
        'POST',
        '/api/v1/users',
        { username: 'made', password },
        admin,
        { username: 'admin', action: 'user.create', resourceType: 'user', resourceId: 'made', outcome: 'SUCCESS' },
      ],
      [
        'PUT',
        '/api/v1/users/made',
        { role: 'king' },
        admin,
        { action: 'user.change', resourceId: 'made', outcome: 'FAILED', error: 'http/bad-request' },
      ],
      [
        'DELETE',
        '/api/v1/users/made',
        undefined,
        admin,
        { action: 'user.delete', resourceId: 'made', outcome: 'SUCCESS', statusCode: 204 },
      ],
      [
        'GET',
        '/api/v1/audit/export',
        undefined,
        admin,
        { username: 'admin', action: 'audit.export', outcome: 'SUCCESS' },
      ],
    ]
    for (const [method, path, body, token, expected] of table) {
      const told = body === hook ? { ...hook, flowId: created.flow } : body
      const response = await one.ask(method, path.replace(':flow', created.flow ?? ''), {
        ...(told !== undefined && { body: told }),
        ...(token !== undefined && { token }),
      })
      if (body === flow && response.status === 201) created.flow = response.json.id
      const entry = await newest()
      t.match(entry, expected, `${method} ${path} ${response.status}`)
      t.equal(entry.requestId, response.headers.get('x-request-id'))
    }
  })

  await t.test('has nothing of strangers that are turned away, nor of what changes nothing', async (t) => {
    const { number } = await newest()
    await one.ask('POST', '/api/v1/flows', { body: {} })
    await one.ask('POST', '/api/v1/flows', { body: {}, token: 'x.y.z' })
    await one.ask('POST', '/api/v1/webhook/no-such-webhook-is-there', { body: {} })
    await one.ask('POST', '/auth/refresh', { body: { refreshToken: 'x' } })
    await one.ask('POST', '/nothing', { body: {} })
    const code = (code: string) => ({ error: String, code, details: Object, requestId: String })
    const bad = { status: 401, json: { error: String, code: 'http/unauthorized', hint: String, requestId: String } }
    t.match(await one.ask('POST', '/auth/register', { body: {}, token: 'no-token' }), bad)
    t.match(await one.ask('POST', '/api/v1/flows', { body: {}, token: `${viewer}x` }), bad)
    const page = { headers: { Origin: 'https://elsewhere.example' }, body: {} }
    t.match(await closed.ask('POST', '/api/v1/flows', page), { status: 403, json: code('http/forbidden') })
    t.match(await one.ask('POST', '/api/v1/flows/%00/execute'), { status: 400, json: { code: 'http/bad-request' } })
    await one.ask('GET', '/api/v1/flows', { token: viewer })
    await one.ask('POST', '/api/v1/flows/validate', { body: {}, token: viewer })
    t.equal((await newest()).number, number)
  })

  await t.test('tells of a refresh token that was sent twice', async (t) => {
    const { refreshToken } = (await one.login('executor')).json
    await one.ask('POST', '/auth/refresh', { body: { refreshToken } })
    await one.ask('POST', '/auth/refresh', { body: { refreshToken } })
    t.match(await newest(), { username: 'executor', action: 'auth.refresh', outcome: 'DENIED', error: 'reused' })
  })

  await t.test('is found by who, what, on what, with what outcome, and when', async (t) => {
    const all = await audit('?limit=1000')
    t.same(
      all.map(({ number }: { number: number }) => number),
      all.map((_: unknown, index: number) => all.length - index),
    )
    t.match(all[0], {
      id: String,
      timestamp: /Z$/,
      username: 'executor',
      status: 'DENIED',
      ip: '127.0.0.1',
      hash: /^[0-9a-f]{64}$/,
    })
    const middle = all[5].timestamp
    const table: readonly [string, (entry: Record<string, unknown>) => boolean][] = [
      ['username=EDITOR', ({ username }) => username === 'editor'],
      ['action=flow.create', ({ action }) => action === 'flow.create'],
      ['action=flow.*', ({ resourceType }) => resourceType === 'flow'],
      ['resourceType=user', ({ resourceType }) => resourceType === 'user'],
      [`resourceId=${created.flow}`, ({ resourceId }) => resourceId === created.flow],
      ['status=DENIED', ({ status }) => status === 'DENIED'],
      ['ip=10.9.9.9', () => false],
      [`from=${middle}`, ({ timestamp }) => String(timestamp) >= middle],
      [`to=${middle}`, ({ timestamp }) => String(timestamp) < middle],
      ['username=editor&status=FAILED', ({ username, status }) => username === 'editor' && status === 'FAILED'],
    ]
    for (const [query, is] of table) {
      const wanted = all.filter(is)
      t.same(await audit(`?limit=1000&${query}`), wanted, query)
      if (!query.startsWith('ip') && !query.startsWith('to'))
        t.ok(wanted.length > 0 && wanted.length < all.length, query)
    }
    const seen: unknown[] = []
    for (let path: string | null = '/api/v1/audit?limit=4'; path !== null; ) {
      const response = await one.ask('GET', path, { token: admin })
      t.equal(response.headers.get('x-total-count'), String(all.length))
      seen.push(...response.json)
      path = /<(.*)>/.exec(response.headers.get('link') ?? '')?.[1] ?? null
    }
    t.same(seen, all)
    for (const bad of ['status=NO', 'from=yesterday', 'limit=0', 'cursor=x', 'who=me', 'username=a&username=b']) {
      t.equal((await one.ask('GET', `/api/v1/audit?${bad}`, { token: admin })).status, 400, bad)
    }
  })

  await t.test('is exported', async (t) => {
    const all = await audit('?limit=1000&username=editor')
    const path = '/api/v1/audit/export?username=editor'
    const lines = await one.ask('GET', path, { token: admin })
    t.match(lines.headers.get('content-type'), /x-ndjson/)
    t.same(
      lines.text
        .trimEnd()
        .split('\n')
        .map((line) => JSON.parse(line)),
      all,
    )
    const csv = await one.ask('GET', `${path}&format=csv`, { token: admin })
    t.match(csv.headers.get('content-disposition'), /audit\.csv/)
    const rows = csv.text.trimEnd().split('\r\n')
    t.match(rows[0], /^number,timestamp,username,role,action,/)
    t.equal(rows.length, all.length + 1)
    t.match(rows[1], new RegExp(`^${all[0].number},${all[0].timestamp},editor,editor,`))
    t.equal((await one.ask('GET', `${path}&format=xml`, { token: admin })).status, 400)
  })

  await t.test('has no secret', async (t) => {
    const text = (await stored()).map(({ data }) => Buffer.from(data).toString('utf8')).join('\n')
    t.ok(text.includes('auth.login'))
    for (const secret of [
      password,
      'a wrong password',
      'hunter2',
      'a-webhook-key',
      'the-value-of-a-credential',
      'hello',
      'eyJ',
      'argon2',
    ]) {
      t.notOk(text.includes(secret), secret)
    }
  })

  await t.test('is kept at the command line as well', async (t) => {
    const args = [`--app.nats.url=${nats.url}`, `--app.secrets.keys=${stage.secretKeys[0]}`]
    const run = async (words: readonly string[], env: Record<string, string> = {}) =>
      startBusbar([...words, ...args], env).finished
    const root = ['users', 'add', 'root', '--role', 'admin']
    const env = { BUSBAR_PASSWORD: 'a password of root' }
    t.match(await run(root, env), { code: 0, stdout: /^root is admin\.\n$/ })
    t.match(await run(root, env), { code: 1, stderr: /There is a user root/ })
    t.match(await run(['users', 'list']), { code: 0, stdout: /root +admin +enabled +\S+ +cli:\w+\n/ })
    t.equal((await one.login('root', 'a password of root')).status, 200)
    const ours = { bus, ring: stage.ring, by: 'cli:test' }
    const { token } = (await one.login('executor')).json
    const known = async () => (await one.ask('GET', '/auth/me', { token })).json.role
    await changeUserRole(ours, 'executor', 'editor')
    await until(async () => (await known()) === 'editor')
    await enableUser(ours, 'executor', false)
    await until(async () => (await known()) === undefined)
    t.equal((await one.login('executor')).status, 401)
    await enableUser(ours, 'executor', true)
    t.equal((await one.login('executor')).status, 200)
    await signOutUser(ours, 'viewer')
    await until(async () => (await one.ask('GET', '/auth/me', { token: viewer })).status === 401)
    await rotateSigningKey(ours, false)
    await t.rejects(deleteUser(ours, 'nobody'), { code: 'workflows/user-not-found' })
    await deleteUser(ours, 'viewer')
    const piped = spawn(process.execPath, [cli, 'users', 'add', 'piped', ...args], {
      stdio: ['pipe', 'inherit', 'inherit'],
    })
    piped.stdin.end('a password on stdin\n')
    t.equal(await new Promise((resolve) => piped.once('close', resolve)), 0)
    t.equal((await one.login('piped', 'a password on stdin')).status, 200)
    const mine = (await audit('?limit=1000')).filter(({ username }: Record<string, string>) =>
      username!.startsWith('cli:'),
    )
    t.match(mine[0], { resourceType: 'user', resourceId: 'piped', status: 'SUCCESS', statusCode: null, ip: null })
    t.same(
      mine.map(({ action, status, error }: Record<string, string>) => `${action} ${error ?? status}`),
      [
        'user.create SUCCESS',
        'user.delete SUCCESS',
        'user.delete workflows/user-not-found',
        'token-key.rotate SUCCESS',
        'user.sign-out SUCCESS',
        'user.change SUCCESS',
        'user.change SUCCESS',
        'user.change SUCCESS',
        'user.create workflows/user-exists',
        'user.create SUCCESS',
      ],
    )
    const report = await run(['audit', 'verify'])
    t.match(report, {
      code: 0,
      stdout: /^The audit log is whole: \d+ entries from 1 to \d+, in \d+ messages\.\nHead \d+:[0-9a-f]{64}\n$/,
    })
  })

  await t.test('has one order, whoever writes', async (t) => {
    const before = (await newest()).number
    const trails = [openAuditTrail(bus), openAuditTrail(bus), openAuditTrail(bus)]
    const writes = Array.from({ length: 600 }, (_, index) => {
      const record: AuditRecord = {
        id: `many-${index}`,
        at: index,
        username: 'many',
        role: null,
        action: 'flow.change',
        resourceType: 'flow',
        resourceId: null,
        outcome: 'SUCCESS',
        statusCode: 200,
        error: null,
        ip: null,
        requestId: null,
      }
      return trails[index % trails.length]!.record(record)
    })
    await Promise.all(writes)
    const report = await verifyAudit(bus)
    t.match(report, { broken: null, first: 1, entries: before + 600, head: { number: before + 600 } })
    t.ok(report.messages < before + 100, `${report.messages} messages: they go together`)
    const ids = (await audit('?username=many&limit=1000')).map(({ id }: { id: string }) => id)
    t.equal(new Set(ids).size, 600)
  })

  t.same(stage.faults, [])

  await t.test('is asked for before the answer: without it there is none', async (t) => {
    const spec = streamSpecs().filter(({ name }) => name === auditPlace.stream)
    const put = () => one.ask('PUT', '/api/v1/kv/audited/asked', { body: { value: 1 }, token: admin })
    t.ok((await put()).status < 300)
    const whole = await stored()
    await bus.manager.streams.delete(auditPlace.stream)
    const refused = await put()
    t.match(refused, { status: 503, json: { code: 'http/unavailable' } })
    t.ok(refused.headers.get('retry-after'))
    await reconcileStreams(bus, spec)
    for (const { data, header } of whole) {
      const headers = natsHeaders({ 'Busbar-Facts': header.get('Busbar-Facts') })
      await bus.jetstream.publish(auditPlace.subject, data, { headers })
    }
    t.ok((await put()).status < 300)
    t.match(await verifyAudit(bus), { broken: null })
  })

  await t.test('shows where it was tampered with', async (t) => {
    const whole = await stored()
    const { head, messages } = await verifyAudit(bus)
    /** The stream as somebody with all rights on the bus could leave it; gives the sequence before its first message. */
    const rewrite = async (
      change: (messages: StoredMsg[]) => readonly { readonly data: Uint8Array; readonly header: StoredMsg['header'] }[],
    ) => {
      // Not deleted and made anew: the server may still be removing the files of the old one, and bring them back.
      await bus.manager.streams.purge(auditPlace.stream)
      const { state } = await bus.manager.streams.info(auditPlace.stream)
      for (const { data, header } of change([...whole])) {
        const facts = header.get('Busbar-Facts')
        await bus.jetstream.publish(auditPlace.subject, data, { headers: natsHeaders({ 'Busbar-Facts': facts }) })
      }
      return state.last_seq
    }
    /** All answers of the route, one after the other. */
    const verified = async (limit: number, noted: string) => {
      const answers = []
      for (let path: string | undefined = `/api/v1/audit/verify?limit=${limit}&head=${noted}`; path !== undefined; ) {
        const { status, json, headers } = await one.ask('GET', path, { token: admin })
        t.equal(status, 200)
        answers.push(json)
        path = /^<(.*)>; rel="next"$/.exec(headers.get('link') ?? '')?.[1]
      }
      return answers
    }
    for (const [query, field] of [
      ['limit=0', /limit/],
      ['limit=100001', /limit/],
      ['head=4', /head/],
      ['cursor=x', /cursor/],
      ['cursor=MTow', /cursor/],
      ['more=1', /more/],
    ] as const) {
      t.match(await one.ask('GET', `/api/v1/audit/verify?${query}`, { token: admin }), {
        status: 400,
        json: { error: field },
      })
    }
    const edited = (message: StoredMsg, edit: (text: string) => string) => {
      const data = Buffer.from(edit(Buffer.from(message.data).toString('utf8')))
      return { data, header: message.header }
    }
    const at = 7
    const table: readonly [string, Parameters<typeof rewrite>[0], { sequence?: number; reason: RegExp } | null][] = [
      ['nothing', (all) => all, null],
      [
        'altered',
        (all) =>
          all.map((each, index) =>
            index === at ? edited(each, (text) => text.replaceAll('"username":"', '"username":"x')) : each,
          ),
        { sequence: at + 1, reason: /is not what its hash was made of/ },
      ],
      ['deleted', (all) => all.toSpliced(at, 1), { sequence: at + 1, reason: /^entry 8 is number 9/ }],
      [
        'swapped',
        (all) => all.toSpliced(at, 2, all[at + 1]!, all[at]!),
        { sequence: at + 1, reason: /^entry 8 is number 9/ },
      ],
      [
        'doubled',
        (all) => all.toSpliced(at, 0, all[at]!),
        { sequence: at + 2, reason: /is number 8, and 9 was to come/ },
      ],
      [
        'not readable',
        (all) => all.map((each, index) => (index === at ? edited(each, () => 'gone') : each)),
        { sequence: at + 1, reason: /cannot be read/ },
      ],
      ['cut off', (all) => all.slice(0, -1), { sequence: messages - 1, reason: /which was noted, is not there/ }],
      ['emptied', () => [], { reason: /which was noted, is not there/ }],
    ]
    for (const [what, change, broken] of table) {
      const before = await rewrite(change)
      const place = broken?.sequence === undefined ? {} : { sequence: before + broken.sequence }
      const found = { ...broken, ...place }
      t.match(await verifyAudit(bus, { expected: head }), { broken: broken && found }, what)
      const over = await verified(5, `${head.number}:${head.hash}`)
      t.match(
        over.at(-1),
        { valid: broken === null, firstBroken: broken && found, complete: true },
        `${what}, over HTTP`,
      )
      if (broken !== null) continue
      t.equal(over.length, Math.ceil(messages / 5), 'a page for each five messages')
      t.equal(
        over.reduce((sum, { checked }) => sum + checked, 0),
        head.number,
      )
      t.match(over.at(-1), { head: `${head.number}:${head.hash}`, cursor: null })
      t.match(over[0], { valid: true, complete: false, firstBroken: null, first: 1 })
    }
    const shortened = await rewrite((all) => all.toSpliced(at, 1))
    const args = [`--app.nats.url=${nats.url}`]
    t.match(await startBusbar(['audit', 'verify', ...args]).finished, {
      code: 1,
      stdout: new RegExp(`broken at message ${shortened + 8} of EVT_AUDIT: entry 8 is number 9`),
    })
    await rewrite((all) => all.slice(0, -1))
    const noted = `--head=${head.number}:${head.hash}`
    t.match(await startBusbar(['audit', 'verify', noted, ...args]).finished, {
      code: 1,
      stdout: /was noted, is not there/,
    })
    t.match(
      await startBusbar(['audit', 'verify', ...args]).finished,
      { code: 0 },
      'what nobody has noted is not missed',
    )
    const before = await rewrite((all) => all)
    await bus.manager.streams.purge(auditPlace.stream, { seq: before + 6 })
    t.match(
      await verifyAudit(bus, { expected: head }),
      { broken: null, first: 6, entries: head.number - 5, head },
      'what was forgotten',
    )
    await publish(bus, { subject: 'evt.audit.log.other', body: '{}' })
    t.match(await verifyAudit(bus), {
      broken: { sequence: before + messages + 1, reason: /one of evt\.audit\.log\.other/ },
    })
  })
})
