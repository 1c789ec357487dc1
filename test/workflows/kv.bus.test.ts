import { setTimeout as delay } from 'node:timers/promises'
import fc from 'fast-check'
import t from 'tap'
import { connectBus } from '../../bus/connect.ts'
import { KvConflict, KvInvalid } from '../../bus/kv.ts'
import { kvSpace } from '../../bus/kv-space.ts'
import { reconcileStreams, streamSpecs, workflowsBucket } from '../../bus/topology.ts'
import { createHttpServer } from '../../gateways/http/server.ts'
import { yamlTypes } from '../../gateways/workflows/flow-text.ts'
import { kvRoutes } from '../../gateways/workflows/kv.ts'
import type { WorkflowService } from '../../gateways/workflows/service.ts'
import { maskedKv, taskKv } from '../../workers/workflows/kv.ts'
import { Mask } from '../../workers/workflows/mask.ts'
import { testNats } from '../support/servers.ts'

t.setTimeout(120_000)

type Tap = Parameters<typeof testNats>[0]
interface Ask {
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

/** The routes of the store alone, on a real bus, with a clock of its own. */
async function stage(t: Tap) {
  const nats = await testNats(t)
  const bus = await connectBus({ url: nats.url, name: 'test' })
  await reconcileStreams(bus, streamSpecs())
  const clock = { now: Date.now() }
  const faults: unknown[] = []
  const app = await createHttpServer({
    maxBodyBytes: 1024 * 1024,
    corsOrigins: ['*'],
    onFault: ({ error }) => faults.push(error),
  })
  app.addContentTypeParser(yamlTypes, { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
  kvRoutes(app, { bus, now: () => clock.now } as WorkflowService)
  t.teardown(async () => {
    await app.close()
    await bus.close()
  })
  const ask = async (method: 'GET' | 'PUT' | 'DELETE', path: string, { body, headers }: Ask = {}) => {
    const response = await app.inject({
      method,
      url: `/api/v1/kv/${path}`,
      headers: { ...(body !== undefined && { 'content-type': 'application/json' }), ...headers },
      ...(body !== undefined && { payload: typeof body === 'string' ? body : JSON.stringify(body) }),
    })
    const { statusCode: status, body: text } = response
    return { status, headers: response.headers, json: text === '' ? null : JSON.parse(text) }
  }
  return { nats, bus, clock, ask, faults }
}

t.test('the key-value store on HTTP', async (t) => {
  const { nats, bus, clock, ask, faults } = await stage(t)

  await t.test('takes any JSON, a text or an envelope, and gives back what it took', async (t) => {
    const plain = { 'content-type': 'text/plain' }
    const cases: readonly (readonly [string, Ask, unknown, string])[] = [
      ['a', { body: '"text"' }, 'text', 'STRING'],
      ['a', { body: '7' }, 7, 'NUMBER'],
      ['a', { body: 'true' }, true, 'BOOLEAN'],
      ['a', { body: 'null' }, null, 'JSON'],
      ['a', { body: { any: ['thing'] } }, { any: ['thing'] }, 'JSON'],
      ['a', { body: { value: 1, more: 2 } }, { value: 1, more: 2 }, 'JSON'],
      ['b', { body: { value: { value: 1 } } }, { value: 1 }, 'JSON'],
      ['b', { body: 'plain text', headers: plain }, 'plain text', 'STRING'],
      ['b', { body: '', headers: plain }, '', 'STRING'],
      ['c', { body: { value: '2026-02-28', type: 'DATE' } }, '2026-02-28', 'DATE'],
      ['c', { body: { value: '2026-02-28T10:00:00Z', type: 'DATETIME' } }, '2026-02-28T10:00:00Z', 'DATETIME'],
      ['c', { body: { value: 'PT1H', type: 'DURATION' } }, 'PT1H', 'DURATION'],
      ['c?type=JSON', { body: '7' }, 7, 'JSON'],
      ['a%2Fb%20%3F.%2A', { body: '{"__proto__":1}' }, JSON.parse('{"__proto__":1}'), 'JSON'],
      ['%C3%A4%F0%9F%98%80', { body: '1' }, 1, 'NUMBER'],
    ]
    const seen = new Set<string>()
    for (const [path, sent, value, type] of cases) {
      const key = decodeURIComponent(path.split('?')[0]!)
      const put = await ask('PUT', `team.a/${path}`, sent)
      t.equal(put.status, seen.has(key) ? 200 : 201, path)
      seen.add(key)
      const got = await ask('GET', `team.a/${path.split('?')[0]}`)
      t.strictSame(got.json, put.json)
      t.match(got.json, { namespace: 'team.a', key, type, expiresAt: null })
      t.strictSame(got.json.value, value, path)
      t.equal(got.headers.etag, `"${got.json.version}"`)
    }
    t.equal((await ask('GET', 'team.b/a')).status, 404, 'namespaces keep to themselves')
    t.match((await ask('GET', 'team.a/z')).json, { code: 'workflows/kv-not-found' })
    t.equal((await ask('DELETE', 'team.a/a')).status, 204)
    t.equal((await ask('GET', 'team.a/a')).status, 404)
    t.equal((await ask('DELETE', 'team.a/a')).status, 404)
    t.equal((await ask('PUT', 'team.a/a', { body: '1' })).status, 201)
  })

  await t.test('names what it does not take', async (t) => {
    const deep = `${'['.repeat(101)}${']'.repeat(101)}`
    const cases: readonly (readonly ['GET' | 'PUT' | 'DELETE', string, Ask, string])[] = [
      ['PUT', 'a/k', { body: '' }, 'value'],
      ['PUT', 'a/k', {}, 'value'],
      ['PUT', 'a/k', { body: '{' }, ''],
      ['PUT', 'a/k', { body: deep }, 'value'],
      ['PUT', 'a/k', { body: JSON.stringify('x'.repeat(65_536)) }, 'value'],
      ['PUT', `a/${'k'.repeat(513)}`, { body: '1' }, 'key'],
      ['PUT', 'a/k', { body: { value: 1, ttl: 0 } }, 'ttl'],
      ['PUT', 'a/k', { body: { value: 1, ttl: -5 } }, 'ttl'],
      ['PUT', 'a/k', { body: { value: 1, ttl: 'soon' } }, 'ttl'],
      ['PUT', 'a/k', { body: { value: 1, ttl: 1e12 } }, 'ttl'],
      ['PUT', 'a/k', { body: { value: 1, ttl: {} } }, 'ttl'],
      ['PUT', 'a/k?ttl=P1Y', { body: '1' }, 'ttl'],
      ['PUT', 'a/k', { body: { value: 1, type: 'INTEGER' } }, 'type'],
      ['PUT', 'a/k', { body: { value: 1, type: 'STRING' } }, 'value'],
      ['PUT', 'a/k', { body: { value: '2026-02-30', type: 'DATE' } }, 'value'],
      ['PUT', 'a/k', { body: { value: '2026-02-30T00:00:00Z', type: 'DATETIME' } }, 'value'],
      ['PUT', 'a/k', { body: { value: 'an hour', type: 'DURATION' } }, 'value'],
      ['PUT', 'a/k', { body: { value: 'yes', type: 'BOOLEAN' } }, 'value'],
      ['PUT', 'a/k', { body: { value: '1', type: 'NUMBER' } }, 'value'],
      ['PUT', 'a/k', { body: { value: 1, version: -1 } }, 'version'],
      ['PUT', 'a/k', { body: { value: 1, version: '1.5' } }, 'version'],
      ['PUT', 'a/k', { body: { value: 1, version: 1 }, headers: { 'if-match': '"1"' } }, 'version'],
      ['PUT', 'a/k', { body: '1', headers: { 'if-match': '*', 'if-none-match': '*' } }, 'version'],
      ['PUT', 'a/k', { body: '1', headers: { 'if-match': 'W/"1"' } }, 'If-Match'],
      ['PUT', 'a/k', { body: '1', headers: { 'if-match': '"0"' } }, 'If-Match'],
      ['PUT', 'a/k', { body: '1', headers: { 'if-none-match': '"1"' } }, 'If-None-Match'],
      ['PUT', 'a/k?tll=5', { body: '1' }, 'tll'],
      ['PUT', '-a/k', { body: '1' }, 'namespace'],
      ['PUT', `${'a'.repeat(101)}/k`, { body: '1' }, 'namespace'],
      ['PUT', 'a%2Fb/k', { body: '1' }, 'namespace'],
      ['GET', 'a%20b/k', {}, 'namespace'],
      ['GET', 'a?limit=0', {}, 'limit'],
      ['GET', 'a?limit=1001', {}, 'limit'],
      ['GET', 'a?cursor=%21', {}, 'cursor'],
      ['GET', 'a?prefx=a', {}, 'prefx'],
      ['GET', `a?prefix=${'a'.repeat(513)}`, {}, 'prefix'],
      ['DELETE', 'a/k', { headers: { 'if-match': '1' } }, 'If-Match'],
      ['DELETE', 'a/k?version=x', {}, 'version'],
    ]
    for (const [method, path, sent, field] of cases) {
      const { status, json } = await ask(method, path, sent)
      const title = `${method} ${path.slice(0, 30)} ${JSON.stringify(sent).slice(0, 60)}`
      t.equal(status, 400, title)
      if (field !== '') t.match(json, { details: { field, reason: /./ } }, title)
    }
    t.equal((await ask('GET', 'a')).headers['x-total-count'], '0', 'nothing was stored')
    const image = await ask('PUT', 'a/k', { body: 'x', headers: { 'content-type': 'image/png' } })
    t.equal(image.status, 415)
  })

  await t.test('writes only when the condition holds', async (t) => {
    const put = async (headers: Record<string, string>, body: unknown = 1) =>
      (await ask('PUT', 'cond/k', { body: JSON.stringify(body), headers })).status
    t.equal(await put({ 'if-match': '"3"' }), 412)
    t.equal(await put({ 'if-match': '*' }), 412)
    t.equal(await put({}, { value: 1, version: 3 }), 409)
    t.equal(await put({ 'if-none-match': '*' }), 201)
    t.equal(await put({ 'if-none-match': '*' }), 412)
    t.equal(await put({}, { value: 1, version: 0 }), 409)
    const first = (await ask('GET', 'cond/k')).headers.etag as string
    t.equal(await put({ 'if-match': first }, 2), 200)
    t.equal(await put({ 'if-match': first }, 3), 412)
    t.equal(await put({ 'if-match': '*' }, 4), 200)
    const { json } = await ask('GET', 'cond/k')
    t.equal(json.value, 4)
    t.equal((await ask('DELETE', 'cond/k', { headers: { 'if-match': first } })).status, 412)
    t.equal((await ask('DELETE', `cond/k?version=${json.version + 1}`)).status, 409)
    t.equal((await ask('DELETE', `cond/k?version=${json.version}`)).status, 204)
    t.equal((await ask('DELETE', 'cond/k', { headers: { 'if-match': `"${json.version}"` } })).status, 412)
    t.equal(await put({}, { value: 5, version: 0 }), 201)
    t.ok((await ask('GET', 'cond/k')).json.version > json.version, 'no version means two things')
  })

  await t.test('loses none of 100 increments at once, and creates a key once', async (t) => {
    const increment = async (index: number) => {
      for (let tries = 1; ; tries++) {
        const { status, json, headers } = await ask('GET', 'race/count')
        const value = status === 404 ? 1 : json.value + 1
        const byHeader: Record<string, string> =
          status === 404 ? { 'if-none-match': '*' } : { 'if-match': headers.etag as string }
        const sent =
          index % 2 === 0
            ? { body: JSON.stringify(value), headers: byHeader }
            : { body: { value, version: status === 404 ? 0 : json.version } }
        const put = await ask('PUT', 'race/count', sent)
        if (put.status < 300) return
        if (put.status !== 412 && put.status !== 409) throw new Error(JSON.stringify(put.json))
        await delay(Math.random() * 5 * tries)
      }
    }
    await Promise.all(Array.from({ length: 100 }, (_, index) => increment(index)))
    t.equal((await ask('GET', 'race/count')).json.value, 100)
    const made = await Promise.all(
      Array.from({ length: 20 }, () => ask('PUT', 'race/once', { body: '1', headers: { 'if-none-match': '*' } })),
    )
    t.strictSame(made.map(({ status }) => status).sort(), [201, ...Array.from({ length: 19 }, () => 412)])
  })

  await t.test('forgets a value in the very millisecond', async (t) => {
    const sent = await ask('PUT', 'ttl/k', { body: { value: 1, ttl: 'PT0.5S' } })
    t.equal(Date.parse(sent.json.expiresAt) - Date.parse(sent.json.updatedAt), 500)
    const cases: readonly (readonly [string, unknown, number])[] = [
      ['seconds', { value: 1, ttl: 90 }, 90_000],
      ['digits', { value: 1, ttl: '90' }, 90_000],
      ['iso', { value: 1, ttl: 'P1DT1H' }, 90_000_000],
      ['unit', { value: 1, ttl: '90m' }, 5_400_000],
    ]
    for (const [key, body, ttlMs] of cases) {
      const { json } = await ask('PUT', `ttl/${key}`, { body })
      t.equal(Date.parse(json.expiresAt) - Date.parse(json.updatedAt), ttlMs, key)
    }
    t.equal((await ask('PUT', 'ttl/query?ttl=PT2S', { body: '{"any":1}' })).json.expiresAt !== null, true)
    clock.now += 499
    t.equal((await ask('GET', 'ttl/k')).status, 200)
    clock.now += 1
    t.equal((await ask('GET', 'ttl/k')).status, 404)
    t.equal((await ask('DELETE', 'ttl/k')).status, 404)
    const keys = async () => ((await ask('GET', 'ttl')).json as { key: string }[]).map(({ key }) => key)
    t.strictSame(await keys(), ['digits', 'iso', 'query', 'seconds', 'unit'])
    const again = await ask('PUT', 'ttl/k', { body: { value: 2, version: 0 } })
    t.equal(again.status, 201, 'what is over is not there, though the bus may still have it')
    t.ok(again.json.version > sent.json.version)
    t.equal(again.json.createdAt, new Date(clock.now).toISOString())
    t.equal((await ask('PUT', 'ttl/k', { body: { value: 3, ttl: 1 } })).json.createdAt, again.json.createdAt)
    t.equal((await ask('PUT', 'ttl/k', { body: '4' })).json.expiresAt, null, 'without a time to live it stays')
    await ask('PUT', 'ttl/gone', { body: { value: 1, ttl: 1 } })
    const stored = { last_by_subj: `$KV.${workflowsBucket}.kv.ttl.gone` }
    while ((await bus.manager.direct.getMessage(`KV_${workflowsBucket}`, stored)) !== null) await delay(50)
    t.pass('and the bus forgets it, too')
  })

  await t.test('lists keys by name, with a prefix and in pages', async (t) => {
    const names = Array.from({ length: 25 }, (_, index) => `user/${String(index).padStart(3, '0')}`)
    for (const name of [...names, 'other', 'User/1']) {
      await ask('PUT', `list/${encodeURIComponent(name)}`, { body: '{"secret":"of no interest here"}' })
    }
    const all: string[] = []
    let path: string | null = 'list?prefix=user%2F&limit=10'
    let pages = 0
    while (path !== null) {
      const { json, headers }: Awaited<ReturnType<typeof ask>> = await ask('GET', path)
      t.equal(headers['x-total-count'], '25')
      all.push(...json.map(({ key }: { key: string }) => key))
      pages++
      path = /<\/api\/v1\/kv\/(.*)>; rel="next"/.exec(String(headers.link ?? ''))?.[1] ?? null
    }
    t.strictSame([all, pages], [names, 3])
    const { json } = await ask('GET', 'list?limit=2')
    t.strictSame(
      json.map(({ key, value }: { key: string; value?: unknown }) => [key, value]),
      [
        ['User/1', undefined],
        ['other', undefined],
      ],
    )
    t.strictSame((await ask('GET', 'nobody')).json, [])
  })

  await t.test('has everything when the bus was killed', async (t) => {
    const before = await ask('GET', 'race/count')
    await nats.kill()
    t.match(await ask('GET', 'race/count'), { status: 503, json: { code: 'http/unavailable' } })
    await nats.restart()
    for (let tries = 0; tries < 200 && (await ask('GET', 'race/count')).status !== 200; tries++) await delay(50)
    t.strictSame((await ask('GET', 'race/count')).json, before.json)
    const headers = { 'if-match': before.headers.etag as string }
    t.equal((await ask('PUT', 'race/count', { body: '101', headers })).status, 200)
    t.equal((await ask('PUT', 'race/count', { body: '102', headers })).status, 412)
  })

  t.strictSame(faults, [], 'nothing of it was a fault of ours')
})

t.test('the store below', async (t) => {
  const { bus } = await stage(t)

  await t.test('keeps any JSON under any key', async () => {
    const space = kvSpace(bus, { bucket: workflowsBucket })
    const key = fc.string({ minLength: 1, maxLength: 20, unit: 'grapheme' })
    await fc.assert(
      fc.asyncProperty(key, fc.jsonValue(), async (key, value) => {
        await space.put('any', key, { value, type: 'JSON' })
        const found = await space.get('any', key)
        const { entries } = await space.list('any', { prefix: key, limit: 1 })
        return JSON.stringify(found?.value) === JSON.stringify(value) && entries[0]?.key === key
      }),
      { numRuns: 60 },
    )
  })

  await t.test('has room for so many keys', async (t) => {
    const space = kvSpace(bus, { bucket: workflowsBucket, maxKeys: 3 })
    const put = (key: string, namespace = 'small') => space.put(namespace, key, { value: 1, type: 'NUMBER' })
    for (const key of ['a', 'b', 'c', 'a']) await put(key)
    await t.rejects(put('d'), KvInvalid)
    t.equal((await put('a')).created, false, 'those there are can be written')
    await put('d', 'another')
    const full = kvSpace(bus, { bucket: workflowsBucket, maxAllKeys: 1 })
    await t.rejects(full.put('new', 'k', { value: 1, type: 'NUMBER' }), KvInvalid)
  })

  await t.test('tasks read and write it, and no secret that they have opened gets in', async (t) => {
    const kv = taskKv(bus)
    t.equal(await kv.get('tasks', 'k'), null)
    const version = await kv.put('tasks', 'k', { n: 1 }, { version: 0 })
    t.strictSame(await kv.get('tasks', 'k'), { value: { n: 1 }, version })
    await t.rejects(kv.put('tasks', 'k', 2, { version: version + 1 }), { name: 'TaskFailure', kind: 'refused' })
    await t.rejects(kv.put('tasks', 'k', 'x'.repeat(70_000)), { name: 'TaskFailure', kind: 'refused' })
    const mask = new Mask()
    mask.add('open-sesame')
    const masked = maskedKv(kv, mask)
    await masked.put('tasks', 'door open-sesame', ['say open-sesame'], { ttlMs: 60_000 })
    t.strictSame(await kv.keys('tasks', ''), ['door ******', 'k'])
    t.strictSame((await masked.get('tasks', 'door open-sesame'))?.value, ['say ******'])
    t.equal(await masked.delete('tasks', 'door open-sesame'), true)
    t.equal(await kv.delete('tasks', 'door ******'), false)
  })

  await t.test('a conflict is a conflict', async (t) => {
    const space = kvSpace(bus, { bucket: workflowsBucket })
    const write = { value: 1, type: 'NUMBER' }
    await space.put('c', 'k', write)
    await t.rejects(space.put('c', 'k', { ...write, condition: 0 }), KvConflict)
    await t.rejects(space.put('c', 'none', { ...write, condition: 'any' }), KvConflict)
    await t.rejects(space.put('c', 'k', { ...write, value: undefined }), KvInvalid)
    await t.rejects(space.put('c', '\ud800', write), KvInvalid)
    await t.rejects(space.put('', 'k', write), KvInvalid)
    t.equal(await space.delete('c', 'none'), false)
  })
})
