import { connect } from 'node:net'
import { text as readAll } from 'node:stream/consumers'
import { createParser } from 'eventsource-parser'
import t from 'tap'
import { platform, until } from './platform.ts'

t.setTimeout(120_000)

const echo = 'export function handler(data) { return data }'

t.test('the routes of the specification', async (t) => {
  const place = await platform(t)
  const { call } = await place.gateway()
  await place.worker()

  t.match(await call('GET', '/health'), { status: 200, body: { status: 'healthy', scripts: 0, uptime: Number } })
  t.same((await call('GET', '/scripts')).body, { scripts: [] })
  t.same((await call('GET', '/stats')).body, { totalScripts: 0, maxScripts: 500, scripts: [] })

  const deployed = await call('POST', '/deploy', { id: 'echo', code: echo })
  t.equal(deployed.status, 201)
  t.same(deployed.body, { id: 'echo', url: '/invoke/echo' })
  t.equal(deployed.headers.get('warning'), null)
  const [before] = ((await call('GET', '/scripts')).body as { scripts: object[] }).scripts
  t.same(Object.keys(before ?? {}), ['id', 'invocations', 'uptime'], 'no lastInvoked before the first call')

  const invoked = await call('POST', '/invoke/echo', { a: [1, 'ü'] })
  t.same([invoked.status, invoked.body], [200, { a: [1, 'ü'] }])
  t.equal(invoked.headers.get('access-control-allow-origin'), '*')
  await call('POST', '/invoke/echo', 'null')
  const stats = (await call('GET', '/stats')).body as { scripts: { lastInvoked: string }[] }
  t.match(stats, { totalScripts: 1, maxScripts: 500, scripts: [{ id: 'echo', invocations: 2, uptime: Number }] })
  t.equal(new Date(stats.scripts[0]?.lastInvoked ?? '').toISOString(), stats.scripts[0]?.lastInvoked)

  await call('POST', '/deploy', { id: 'echo', code: 'const handler = () => ({ version: 2 })' })
  t.same((await call('POST', '/invoke/echo', {})).body, { version: 2 }, 'the very next call runs what was deployed')
  t.match(
    (await call('GET', '/scripts')).body,
    { scripts: [{ id: 'echo', invocations: 1 }] },
    'counted from the redeploy on',
  )

  t.same(await call('DELETE', '/delete/echo').then(({ status, body }) => [status, body]), [
    200,
    { status: 'deleted', id: 'echo' },
  ])
  t.match(await call('POST', '/invoke/echo', {}), { status: 404, body: { error: 'Script not found: echo' } })
  t.match(await call('GET', '/health'), { body: { scripts: 0 } })

  t.test('responses, and what goes wrong, are counted and told', async (t) => {
    const sources: readonly (readonly [string, string, number, unknown])[] = [
      ['made', 'function handler() { return { status: 418, body: "tea", headers: { "x-kind": "pot" } } }', 418, 'tea'],
      [
        'cookies',
        'const handler = () => ({ status: 200, body: "x", headers: { "Set-Cookie": ["a=1; Path=/", "b=2"] } })',
        200,
        'x',
      ],
      ['nothing', 'function handler() {}', 204, ''],
      ['none', 'const other = 1', 400, { error: 'No handler function exported' }],
      ['throws', 'function handler() { throw new Error("boom") }', 500, { error: 'boom' }],
      ['rejects', 'export default async () => { throw new TypeError("later") }', 500, { error: 'later' }],
    ]
    for (const [id, code, status, body] of sources) {
      const { headers } = await call('POST', '/deploy', { id, code })
      t.equal(headers.get('warning') !== null, id === 'none', `${id}: a warning where there is no handler`)
      const answer = await call('POST', `/invoke/${id}`, {})
      t.same([answer.status, answer.body], [status, body], id)
      if (id === 'made') t.equal(answer.headers.get('x-kind'), 'pot')
      if (id !== 'cookies') continue
      t.same(answer.headers.getSetCookie(), ['a=1; Path=/', 'b=2'])
      t.same((await call('GET', '/invoke/cookies')).headers.getSetCookie(), ['a=1; Path=/', 'b=2'], 'by the routes')
    }
    const { scripts } = (await call('GET', '/scripts')).body as { scripts: { id: string; invocations: number }[] }
    t.same(
      scripts.map(({ id, invocations }) => [id, invocations]),
      sources.map(([id]) => [id, id === 'cookies' ? 2 : 1]).sort(),
    )
  })

  t.test('any method reaches the handler, with what was sent', async (t) => {
    await call('POST', '/deploy', {
      id: 'any',
      code: 'const handler = (data, context) => [data.method ?? data, context.method]',
    })
    for (const method of ['GET', 'PUT', 'PATCH', 'DELETE']) {
      t.same((await call(method, '/invoke/any')).body, [method, method])
    }
    t.same((await call('PUT', '/invoke/any', '"x"')).body, ['x', 'PUT'])
    t.equal((await call('OPTIONS', '/invoke/any')).status, 204)
  })

  t.test('a handler that never ends is given up', async (t) => {
    const other = await platform(t)
    const { call } = await other.gateway({ timeoutMs: 1_000 })
    await other.worker({ timeoutMs: 1_000 })
    await call('POST', '/deploy', { id: 'slow', code: 'const handler = () => new Promise(() => {})' })
    t.match(await call('POST', '/invoke/slow', {}), { status: 504, body: { error: 'Execution timeout (1s)' } })
  })
})

t.test('what is not usable is refused by name', async (t) => {
  const { call, url } = await (await platform(t)).gateway()
  const code = echo
  const refused: readonly (readonly [unknown, number, RegExp])[] = [
    [{}, 400, /^Missing id or code$/],
    [{ id: 'x' }, 400, /^Missing id or code$/],
    [{ code }, 400, /^Missing id or code$/],
    [{ id: 'x', code, more: 1 }, 400, /Unknown field "more"/],
    [{ id: 'a b', code }, 400, /^id must be/],
    [{ id: '..', code }, 400, /^id must be/],
    [{ id: 'x'.repeat(129), code }, 400, /^id must be/],
    [{ id: 7, code }, 400, /^id must be/],
    [{ id: 'x', code: 7 }, 400, /^code must be a string/],
    [{ id: 'x', code, idempotent: 'yes' }, 400, /^idempotent must be/],
    [{ id: 'x', code: 'function (' }, 400, /line 1, column 10/],
    [{ id: 'x', code: `//${'x'.repeat(512 * 1024)}` }, 413, /^code is larger than 524288 bytes/],
    ['{"id":', 400, /^The body is not JSON/],
    ['[]', 400, /^The body must be a JSON object/],
  ]
  for (const [body, status, text] of refused) {
    const answer = await call('POST', '/deploy', body)
    t.equal(answer.status, status, text.source)
    t.same(Object.keys(answer.body as object), ['error'])
    t.match(answer.body, { error: text })
  }
  await call('POST', '/deploy', { id: 'x', code })
  const others: readonly (readonly [string, string, unknown, number, RegExp])[] = [
    ['POST', '/invoke/missing', {}, 404, /^Script not found: missing$/],
    ['DELETE', '/delete/missing', undefined, 404, /^Not found$/],
    ['GET', '/nowhere', undefined, 404, /^Not found$/],
    ['GET', '/deploy', undefined, 405, /GET/],
    ['GET', '/invocations/missing', undefined, 404, /^Invocation not found: missing$/],
    ['POST', '/scripts/x/rollback', { revision: 9 }, 404, /has no revision 9/],
    ['POST', '/scripts/x/rollback', { revision: 'a' }, 400, /^revision must be/],
    ['PUT', '/scripts/missing/env', {}, 404, /^Script not found: missing$/],
    ['PUT', '/scripts/x/env', { variables: { '1A': 'x' } }, 400, /"1A" is no name/],
    ['PUT', '/scripts/x/env', { variables: { A: 1 } }, 400, /variables.A must be a string/],
    ['PUT', '/scripts/x/env', { variables: { A: '' }, secrets: { A: '' } }, 400, /A is both/],
    ['PUT', '/scripts/x/env', { secrets: { A: null } }, 400, /secrets.A is null/],
    ['PUT', '/scripts/x/env', { secrets: { constructor: null } }, 400, /secrets.constructor is null/],
    ['PUT', '/scripts/x/env', { variables: { A: 'x'.repeat(40_000) } }, 400, /32768 bytes/],
    ['PUT', '/scripts/x/triggers', { triggers: [{ name: 'a' }] }, 400, /triggers\[0\] needs either cron or table/],
    ['PUT', '/scripts/x/triggers', { triggers: [{ name: 'a', cron: 'a b c d e' }] }, 400, /triggers\[0\].cron/],
    ['PUT', '/scripts/x/triggers', { triggers: [{ name: 'a', cron: '0 0 30 2 *' }] }, 400, /never come/],
    [
      'PUT',
      '/scripts/x/triggers',
      { triggers: [{ name: 'a', table: 't', operations: ['X'] }] },
      400,
      /operations must be a list of INSERT/,
    ],
    [
      'PUT',
      '/scripts/x/triggers',
      { triggers: [{ name: 'a', cron: '* * * * *', timezone: 'Mars/X' }] },
      400,
      /\[0\]\.timezone must be an IANA name/,
    ],
    ['PUT', '/scripts/x/triggers', { triggers: [{ name: 'a', table: 't', more: 1 }] }, 400, /"more"/],
    ['GET', '/scripts/x/logs?limit=0', undefined, 400, /^limit must be/],
    ['POST', '/invoke/x', `"${'x'.repeat(1024 * 1024)}"`, 413, /larger than the limit/],
    ['POST', '/invoke/x', {}, 503, /No function worker runs/],
  ]
  for (const [method, path, body, status, text] of others) {
    const answer = await call(method, path, body)
    t.equal(answer.status, status, `${method} ${path}`)
    t.match(answer.body, { error: text })
    t.equal(answer.headers.get('access-control-allow-origin'), '*')
  }
  const { hostname, port } = new URL(url)
  const raw: readonly (readonly [string, number, RegExp])[] = [
    ['GARBAGE\r\n\r\n', 400, /well-formed/],
    [`GET /health HTTP/1.1\r\nHost: x\r\nX: ${'a'.repeat(20_000)}\r\n\r\n`, 431, /larger than the limit/],
    ['POST /invoke/%ZZ HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n', 400, /percent escape/],
  ]
  for (const [bytes, status, text] of raw) {
    const socket = connect(Number(port), hostname, () => socket.write(bytes))
    const answer = await readAll(socket)
    t.match(answer, new RegExp(`^HTTP/1.1 ${status} `), bytes.slice(0, 20))
    t.match(answer, /access-control-allow-origin: \*/i)
    const body = JSON.parse(answer.slice(answer.indexOf('\r\n\r\n'))) as object
    t.match(body, { error: text })
    t.same(Object.keys(body), ['error'])
  }
})

t.test('pages of other origins are refused where origins are named', async (t) => {
  const { call } = await (await platform(t)).gateway({ corsOrigins: ['loopback'] })
  const deploy = (origin: string) => call('POST', '/deploy', { id: 'x', code: echo }, { Origin: origin })
  t.equal((await deploy('https://elsewhere.example')).status, 403)
  t.equal((await deploy('http://localhost:5173')).status, 201)
  t.equal((await call('POST', '/deploy', { id: 'x', code: echo })).status, 201)
})

t.test('parallel deploys of several gateways cannot pass the limit', async (t) => {
  const place = await platform(t)
  const gateways = [await place.gateway({ maxFunctions: 5 }), await place.gateway({ maxFunctions: 5 })]
  const deploy = (index: number, id = `f${index}`) => gateways[index % 2]!.call('POST', '/deploy', { id, code: echo })
  const answers = await Promise.all(Array.from({ length: 12 }, (_, index) => deploy(index)))
  t.equal(answers.filter(({ status }) => status === 201).length, 5)
  const refused = answers.filter(({ status }) => status !== 201)
  for (const answer of refused) t.match(answer, { status: 429, body: { error: 'Max scripts limit reached (5)' } })
  const [first] = ((await gateways[0]!.call('GET', '/scripts')).body as { scripts: { id: string }[] }).scripts
  t.equal((await deploy(1, first?.id)).status, 201, 'replacing one at the limit works')
  t.equal((await gateways[1]!.call('DELETE', `/delete/${first?.id}`)).status, 200)
  t.equal((await deploy(0, 'another')).status, 201)
  t.equal((await deploy(1, 'one-more')).status, 429)
  const both = await Promise.all([deploy(0, 'another'), deploy(1, 'another'), deploy(2, 'another')])
  t.same(new Set(both.map(({ status }) => status)), new Set([201]), 'the same id, at once, from both')
})

t.test('revisions, variables and secrets', async (t) => {
  const place = await platform(t)
  const { call } = await place.gateway()
  await place.worker()
  await call('POST', '/deploy', {
    id: 'f',
    code: 'const handler = (_, { env, revision }) => ({ first: true, env, revision })',
  })
  await call('POST', '/deploy', { id: 'f', code: 'const handler = (_, { env }) => ({ env })' })
  t.same((await call('PUT', '/scripts/f/env', { variables: { A: '1' }, secrets: { S: 'hush', T: 't' } })).body, {
    id: 'f',
    version: 1,
    variables: { A: '1' },
    secrets: ['S', 'T'],
  })
  t.same((await call('POST', '/invoke/f', {})).body, { env: { A: '1', S: 'hush', T: 't' } })
  await call('PUT', '/scripts/f/env', { variables: { A: '2' }, secrets: { S: null } })
  t.same((await call('GET', '/scripts/f/env')).body, { id: 'f', version: 2, variables: { A: '2' }, secrets: ['S'] })
  t.same(
    (await call('POST', '/invoke/f', {})).body,
    { env: { A: '2', S: 'hush' } },
    'a secret that is not named again is kept',
  )

  await call('PUT', '/scripts/f/env', '{"variables":{"toString":"v"},"secrets":{"__proto__":"p"}}')
  const named = (await call('POST', '/invoke/f', {})).body
  t.equal(JSON.stringify(named), '{"env":{"toString":"v","__proto__":"p"}}', 'any name is only a name')
  await call('PUT', '/scripts/f/env', { variables: { A: '2' }, secrets: { S: 'hush' } })

  t.same((await call('POST', '/scripts/f/rollback')).body, { id: 'f', revision: 3 })
  t.same((await call('POST', '/invoke/f', {})).body, { first: true, env: { A: '2', S: 'hush' }, revision: 3 })
  t.same((await call('POST', '/scripts/f/rollback', { revision: 2 })).body, { id: 'f', revision: 4 })
  t.match((await call('GET', '/scripts/f/revisions')).body, {
    id: 'f',
    revisions: [
      { revision: 4, active: true, rolledBackTo: 2, deployedAt: /Z$/ },
      { revision: 3, active: false, rolledBackTo: 1 },
      { revision: 2, active: false },
      { revision: 1, active: false },
    ],
  })
  for await (const { data } of await place.bus.manager.direct.getBatch('EVT_FUNCTIONS', { seq: 1, batch: 100 })) {
    t.notOk(Buffer.from(data).toString('latin1').includes('hush'), 'no secret lies on the bus in the clear')
  }
})

t.test('asynchronous calls', async (t) => {
  const place = await platform(t)
  const { call } = await place.gateway()
  await call('POST', '/deploy', {
    id: 'f',
    code: 'const handler = (data, { invocationId }) => ({ data, invocationId })',
  })
  await call('POST', '/deploy', { id: 'bad', code: 'const handler = () => { throw new Error("no") }' })
  const accepted = await call('POST', '/invoke/f', { n: 1 }, { Prefer: 'respond-async, wait=5' })
  const { id, url } = accepted.body as { id: string; url: string }
  t.match(accepted, { status: 202, body: { id: String, status: 'pending', url: `/invocations/${id}` } })
  t.equal(accepted.headers.get('location'), url)
  t.same((await call('GET', url)).body, { id, script: 'f', status: 'pending' }, 'it waits for a worker')
  const worker = await place.worker()
  const done = async (path: string) => {
    const { body } = await call('GET', path)
    return (body as { status: string }).status !== 'pending' && body
  }
  t.match(await until(() => done(url)), {
    id,
    status: 'done',
    response: { status: 200, body: { data: { n: 1 }, invocationId: id } },
  })
  await call('POST', '/deploy', {
    id: 'cookies',
    code: `const handler = () => new Response('x', { headers: [['set-cookie', 'a=1'], ['set-cookie', 'b=2']] })`,
  })
  const cookies = (await call('POST', '/invoke/cookies', {}, { Prefer: 'respond-async' })).body as { url: string }
  t.match(await until(() => done(cookies.url)), { response: { headers: { 'set-cookie': ['a=1', 'b=2'] }, body: 'x' } })
  const bad = (await call('POST', '/invoke/bad', {}, { Prefer: 'respond-async' })).body as { url: string }
  t.match(await until(() => done(bad.url)), { status: 'failed', error: 'no' })
  await call('POST', '/deploy', { id: 'secret', code: 'const handler = (_, { env }) => env.S' })
  await call('PUT', '/scripts/secret/env', { secrets: { S: 's' } })
  await worker.stop()
  const withoutKey = await place.worker({ secretKeys: [] })
  t.equal((await call('POST', '/invoke/secret', {})).status, 500)
  const secret = (await call('POST', '/invoke/secret', {}, { Prefer: 'respond-async' })).body as { url: string }
  await withoutKey.stop()
  await place.worker()
  t.match(await until(() => done(secret.url)), { status: 'done', response: { body: 's' } }, 'it is tried again')
  await call('POST', '/deploy', {
    id: 'wide',
    code: `const handler = () => { console.log('run')
      return { status: 200, body: 1, headers: Object.fromEntries(Array.from({ length: 20 }, (_, n) => ['x-' + n, 'v'.repeat(8000)])) } }`,
  })
  const wide = (await call('POST', '/invoke/wide', {}, { Prefer: 'respond-async' })).body as { url: string }
  t.match(await until(() => done(wide.url)), { status: 'failed', error: /headers are larger than 16384 bytes/ })
  t.equal(((await call('GET', '/scripts/wide/logs')).body as { logs: unknown[] }).logs.length, 1, 'it ran once')
})

t.test('a result that the bus does not take is told, and its call is not run again', async (t) => {
  const place = await platform(t)
  const { call } = await place.gateway()
  await place.worker({ hosts: { hosts: 1, maxOutputBytes: 16_000_000 } })
  const code = 'const handler = (length) => { console.log("run"); return "x".repeat(length) }'
  for (const [id, length] of [
    ['stream', 7_000_000],
    ['server', 8_388_600],
  ] as const) {
    await call('POST', '/deploy', { id, code })
    const { url } = (await call('POST', `/invoke/${id}`, `${length}`, { Prefer: 'respond-async' })).body as {
      url: string
    }
    const outcome = await until(async () => {
      const { body } = await call('GET', url)
      return (body as { status: string }).status !== 'pending' && body
    })
    t.match(
      outcome,
      { status: 'failed', error: 'The result is larger than the bus takes' },
      `more than the ${id} takes`,
    )
    t.equal(((await call('GET', `/scripts/${id}/logs`)).body as { logs: unknown[] }).logs.length, 1)
  }
})

t.test('logs, and live', async (t) => {
  const place = await platform(t)
  const { call, url } = await place.gateway()
  await place.worker()
  const code = 'function handler(data) { console.log("got", data); if (data === 3) throw new Error("three") }'
  await call('POST', '/deploy', { id: 'f', code })
  await call('POST', '/deploy', { id: 'g', code })
  await call('POST', '/invoke/f', '1')
  const written = await until(async () => {
    const { body } = await call('GET', '/scripts/f/logs')
    return (body as { logs: unknown[] }).logs.length > 0 && body
  })
  t.match(written, { id: 'f', logs: [{ level: /log|info/, message: /got 1/, revision: 1 }] })
  t.same((await call('GET', '/scripts/g/logs')).body, { id: 'g', logs: [] })

  const stopping = new AbortController()
  const stream = await fetch(`${url}/scripts/f/logs`, {
    headers: { Accept: 'text/event-stream' },
    signal: stopping.signal,
  })
  const heard: string[] = []
  const parser = createParser({ onEvent: ({ data }) => heard.push((JSON.parse(data) as { message: string }).message) })
  const reader = stream.body!.pipeThrough(new TextDecoderStream()).getReader()
  await call('POST', '/invoke/f', '2')
  t.equal((await call('POST', '/invoke/f', '3')).status, 500)
  while (heard.length < 3) parser.feed((await reader.read()).value ?? '')
  stopping.abort()
  t.match(heard, [/got 2/, /got 3/, /Error: three/])
  t.match((await call('GET', '/scripts/f/logs?limit=2')).body, { logs: [{ message: /got 3/ }, { message: /three/ }] })
})

t.test('triggers call once each, whatever the number of workers', async (t) => {
  const place = await platform(t)
  const { call } = await place.gateway()
  await place.worker()
  await place.worker()
  const code = 'const handler = (data) => console.log(JSON.stringify(data))'
  await call('POST', '/deploy', { id: 'f', code })
  const insert = (id: number) =>
    place.bus.jetstream.publish(
      'cdc.main.public.orders.insert',
      JSON.stringify({ type: 'INSERT', schema: 'public', table: 'orders', data: { id }, timestamp: Date.now() }),
    )
  await insert(0)
  const set = await call('PUT', '/scripts/f/triggers', {
    triggers: [
      { name: 'tick', cron: '* * * * * *' },
      { name: 'order', table: 'orders', operations: ['INSERT', 'DELETE'] },
    ],
  })
  t.match(set, { status: 200, body: { triggers: [{ name: 'tick', nextAt: /000Z$/ }, { name: 'order' }] } })
  for (const id of [1, 2, 3]) await insert(id)
  await place.bus.jetstream.publish('cdc.main.public.orders.update', '{"type":"UPDATE","data":{}}')
  await place.bus.jetstream.publish('cdc.main.public.other.insert', '{"type":"INSERT","data":{}}')
  const calls = async () => {
    const { logs } = (await call('GET', '/scripts/f/logs')).body as { logs: { message: string }[] }
    return logs.map(({ message }) => JSON.parse(message) as { type: string; at: string; data: { id: number } })
  }
  const made = await until(async () => {
    const all = await calls()
    return all.filter(({ type }) => type === 'cron').length >= 3 && all.some(({ data }) => data?.id === 3) && all
  })
  const ticks = made.filter(({ type }) => type === 'cron').map(({ at }) => at)
  t.equal(new Set(ticks).size, ticks.length, 'no tick twice')
  const changes = made.filter(({ type }) => type !== 'cron')
  t.same(changes.map(({ data }) => data.id).sort(), [1, 2, 3], 'only what was wanted, and only from the trigger on')
  await call('PUT', '/scripts/f/triggers', { triggers: [] })
})

t.test('functions and counters outlive gateways and workers', async (t) => {
  const place = await platform(t)
  const first = await place.gateway()
  const workers = [await place.worker(), await place.worker()]
  await first.call('POST', '/deploy', { id: 'f', code: echo })
  await Promise.all(Array.from({ length: 40 }, () => first.call('POST', '/invoke/f', {})))
  t.match((await first.call('GET', '/scripts')).body, { scripts: [{ invocations: 40 }] })
  const { scripts } = (await first.call('GET', '/scripts')).body as { scripts: { lastInvoked: string }[] }
  await first.call('POST', '/invoke/f', {})
  await Promise.all([first.stop(), ...workers.map((worker) => worker.stop())])
  const second = await place.gateway()
  const after = (await second.call('GET', '/scripts')).body as typeof scripts extends unknown
    ? { scripts: typeof scripts }
    : never
  t.match(after, { scripts: [{ id: 'f', invocations: 41 }] })
  t.ok((after.scripts[0]?.lastInvoked ?? '') > (scripts[0]?.lastInvoked ?? ''))
  await place.worker()
  t.same((await second.call('POST', '/invoke/f', { again: 1 })).body, { again: 1 })
})
