import { mkdtemp, rm } from 'node:fs/promises'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { Value } from 'typebox/value'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import type { TaskRun, TaskServices } from '../../workers/workflows/plugin.ts'
import { testPostgres } from '../support/servers.ts'

const files = new Map<string, Uint8Array>()

async function call(id: string, properties: Record<string, unknown>, signal = new AbortController().signal) {
  const plugin = catalogue.find(({ manifest }) => manifest.id === id)!
  const input = Value.Default(plugin.manifest.inputSchema as never, properties)
  const folder = await mkdtemp(join(tmpdir(), 'busbar-test-'))
  const silent = () => undefined
  const services = {
    fetch: globalThis.fetch,
    files: {
      async put(bytes: Uint8Array) {
        const uri = `busbar:///files/${files.size}`
        files.set(uri, bytes)
        return { uri, sizeBytes: bytes.length }
      },
      get: async (uri: string) => files.get(uri)!,
    },
  }
  const given: TaskRun<unknown> = {
    input,
    signal,
    log: { debug: silent, info: silent, warn: silent, error: silent },
    idempotencyKey: 'e1/call',
    scratch: async () => folder,
    services: services as unknown as TaskServices,
    task: { executionId: 'e1', flowId: 'f', namespace: 'n', run: 'call', attempt: 1 },
  }
  try {
    return (await plugin.run(given)) as Record<string, unknown>
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

t.test('PostgreSQL', async (t) => {
  const { url, kill } = await testPostgres(t)
  await call('db.postgres', { url, sql: 'create table item (id int primary key, price numeric, at timestamptz)' })

  t.test('a statement with parameters', async (t) => {
    const sql = 'insert into item values ($1, $2, $3) returning *'
    const given = await call('db.postgres', {
      url,
      sql,
      parameters: [1, '1234567890.123456789', '2027-01-01T00:00:00Z'],
    })
    t.same(given, {
      rows: [{ id: 1, price: '1234567890.123456789', at: '2027-01-01 00:00:00+00' }],
      rowCount: 1,
      results: [{ rows: given.rows, rowCount: 1 }],
    })
  })
  t.test('several are all or none', async (t) => {
    const statements = [{ sql: 'insert into item values (2)' }, { sql: 'insert into item values (1)' }]
    await t.rejects(call('db.postgres', { url, statements }), { message: /23505/ })
    t.match(await call('db.postgres', { url, sql: 'select id from item' }), { rows: [{ id: 1 }], rowCount: 1 })
  })
  t.test('no more rows than allowed', async (t) => {
    const sql = 'select * from generate_series(1, 11)'
    await t.rejects(call('db.postgres', { url, sql, maxRows: 10 }), { message: /more than 10 rows/ })
  })
  t.test('a statement that takes too long is a time-out', async (t) => {
    await t.rejects(call('db.postgres', { url, sql: 'select pg_sleep(60)', timeoutMs: 50 }), {
      message: /57014/,
    })
  })
  t.test('a cancelled one is ended on the server', async (t) => {
    const controller = new AbortController()
    const running = call('db.postgres', { url, sql: "select pg_sleep(60), 'cancel me'" }, controller.signal)
    setTimeout(() => controller.abort(new Error('cancelled')), 200)
    await t.rejects(running, { message: 'cancelled' })
  })
  t.test('a server that is away can be tried again later', async (t) => {
    await kill()
    await t.rejects(call('db.postgres', { url, sql: 'select 1' }), { message: /ECONNREFUSED/ })
  })
})

t.test('SQLite', async (t) => {
  t.test('statements on a database that begins empty, kept as a file for the next task', async (t) => {
    const made = await call('db.sqlite', {
      statements: [
        { sql: 'create table t (id integer, big integer, bytes blob)' },
        { sql: 'insert into t values (?, ?, ?)', parameters: [1, 2, 'x'] },
        { sql: "select id, 9007199254740993 as big, x'00ff' as bytes from t" },
      ],
      keep: true,
    })
    t.match(made, { rows: [{ id: 1, big: '9007199254740993', bytes: 'AP8=' }], rowCount: 1 })
    const asked = await call('db.sqlite', { file: made.uri, sql: 'select count(*) as n from t' })
    t.match(asked, { rows: [{ n: 1 }], uri: null })
  })
  t.test('all or none', async (t) => {
    await t.rejects(call('db.sqlite', { statements: [{ sql: 'create table a (b)' }, { sql: 'nonsense' }] }), {
      message: /SQLite refused it: near "nonsense"/,
    })
  })
  t.test('other files are out of reach', async (t) => {
    await t.rejects(call('db.sqlite', { sql: "attach '/etc/passwd' as p" }), { message: /cannot be attached/ })
  })
  t.test('a statement that never ends is ended', async (t) => {
    const sql = 'with recursive r(n) as (select 1 union all select n + 1 from r) select count(*) from r'
    await t.rejects(call('db.sqlite', { sql, timeoutMs: 300 }), { message: /57014|Not done after/ })
    const controller = new AbortController()
    setTimeout(() => controller.abort(new Error('cancelled')), 300)
    await t.rejects(call('db.sqlite', { sql }, controller.signal), { message: 'cancelled' })
  })
})

t.test('messages', async (t) => {
  let seen: { url: string; headers: Record<string, unknown>; body: unknown } | null = null
  let answer: unknown = 'ok'
  const server = createServer(async (request, response) => {
    const chunks: Buffer[] = []
    for await (const chunk of request) chunks.push(chunk as Buffer)
    seen = { url: request.url!, headers: request.headers, body: JSON.parse(Buffer.concat(chunks).toString('utf8')) }
    response.end(JSON.stringify(answer))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const here = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  for (const [id, properties, url, body] of [
    ['slack.message', { webhookUrl: `${here}/hook`, text: 'x' }, '/hook', { text: 'x' }],
    [
      'slack.message',
      { token: 't', channel: 'C', text: 'x', apiUrl: here },
      '/chat.postMessage',
      { channel: 'C', text: 'x' },
    ],
    ['discord.message', { webhookUrl: `${here}/hook`, content: 'x' }, '/hook?wait=true', { content: 'x' }],
    [
      'telegram.message',
      { token: 't', chatId: 5, text: 'x', apiUrl: here },
      '/bott/sendMessage',
      { chat_id: 5, text: 'x', disable_notification: false },
    ],
  ] as const) {
    t.test(`${id} to ${url}`, async (t) => {
      await call(id, properties)
      t.equal(seen!.url, url)
      t.same(seen!.body, body)
    })
  }
  t.test('teams.message sends an adaptive card', async (t) => {
    await call('teams.message', { webhookUrl: here, text: 'x' })
    t.match(seen!.body, {
      type: 'message',
      attachments: [{ content: { type: 'AdaptiveCard', body: [{ text: 'x' }] } }],
    })
  })
  t.test('graphql.query gives the data, and fails on errors unless told not to', async (t) => {
    answer = { data: { a: 1 }, errors: [{ message: 'no b' }] }
    const asked = { url: here, query: '{ a b }', variables: { x: 1 } }
    await t.rejects(call('graphql.query', asked), { message: /answered with errors: no b/ })
    t.same(seen!.body, { query: '{ a b }', variables: { x: 1 } })
    t.same(await call('graphql.query', { ...asked, failOnErrors: false }), answer)
  })
})
