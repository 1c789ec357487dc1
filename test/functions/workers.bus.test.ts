import t from 'tap'
import { freePort } from '../../ops/local/child.ts'
import { client, platform } from './platform.ts'

t.setTimeout(120_000)
t.jobs = 1

t.test('several workers', async (t) => {
  const place = await platform(t)
  const aliasPort = await freePort()
  const { call } = await place.gateway({ aliasPort })
  await place.worker()
  await place.worker()

  await t.test('run what was deployed last, whichever of them has the call', async (t) => {
    const older = new Set<string>()
    for (let version = 1; version <= 30; version++) {
      const code = `const loaded = Math.random(); export const handler = () => [${version}, loaded]`
      await call('POST', '/deploy', { id: 'versions', code })
      const answers = await Promise.all(Array.from({ length: 8 }, () => call('POST', '/invoke/versions', '{}')))
      for (const { status, body } of answers) {
        t.match([status, body], [200, [version, Number]], `version ${version}`)
        older.add(String((body as [number, number])[1]))
      }
    }
    t.ok(older.size > 30, `${older.size} isolates: more than one worker had calls`)
  })

  await t.test('are behind the second port of a gateway as well', async (t) => {
    const other = client(`http://127.0.0.1:${aliasPort}`)
    t.match(await other('GET', '/health'), { status: 200, body: { status: 'healthy' } })
    t.match(await other('POST', '/invoke/versions', '{}'), { status: 200, body: [30, Number] })
    t.match(await other('POST', '/invoke/none', '{}'), { status: 404, body: { error: /not found/i } })
    const second = await place.gateway({ aliasPort })
    t.match(await second.call('GET', '/health'), { status: 200 }, 'one that finds it taken serves its own')
  })

  await t.test('share the store of a function, which no other function sees', async (t) => {
    const code = `export async function handler({ name, args }, { kv }) { return (await kv[name](...args)) ?? null }`
    for (const id of ['one', 'two']) await call('POST', '/deploy', { id, code })
    const ask = async (id: string, name: string, ...args: unknown[]) => {
      const { status, body } = await call('POST', `/invoke/${id}`, { name, args })
      return status === 200 ? body : { status, ...(body as object) }
    }
    t.equal(await ask('one', 'get', 'a'), null)
    const value = { text: 'ä\u0000 "', list: [1, null, { deep: true }] }
    for (const key of ['a', 'a.b', 'b c', 'ключ', '*', '>', '..']) await ask('one', 'put', key, { ...value, key })
    for (const key of ['a', 'a.b', 'b c', 'ключ', '*', '>', '..']) {
      t.strictSame(await ask('one', 'get', key), { ...value, key }, key)
      t.equal(await ask('two', 'get', key), null, `${key} is the first one's`)
    }
    t.match(await ask('one', 'list', {}), { keys: ['*', '..', '>', 'a', 'a.b', 'b c', 'ключ'], cursor: null })
    const page = (await ask('one', 'list', { prefix: 'a', limit: 1 })) as { keys: string[]; cursor: string }
    t.strictSame(page.keys, ['a'])
    t.match(await ask('one', 'list', { prefix: 'a', limit: 1, cursor: page.cursor }), { keys: ['a.b'], cursor: null })
    await ask('one', 'delete', 'a')
    await ask('one', 'delete', '*')
    t.equal(await ask('one', 'get', 'a'), null)
    t.match(await ask('one', 'list', {}), { keys: ['..', '>', 'a.b', 'b c', 'ключ'] }, 'a pattern is a key like others')
    await ask('one', 'put', 'short', 1, { expirationTtl: 1 })
    t.equal(await ask('one', 'get', 'short'), 1)
    while ((await ask('one', 'get', 'short')) !== null) await new Promise((again) => setTimeout(again, 50))
    for (const [args, reason] of [
      [['', 1], /key must be a string that is not empty/],
      [['k'.repeat(513), 1], /key is a text of 1 to 512 bytes/],
      [['big', 'x'.repeat(70_000)], /at most 65536 bytes/],
      [['k', 1, { expirationTtl: -1 }], /number of seconds above 0/],
    ] as const) {
      t.match(await ask('one', 'put', ...args), { status: 500, error: reason })
    }
    t.match(await ask('one', 'list', { limit: 'x' }), { status: 500, error: /limit is a whole number from 1/ })
    t.match(await ask('one', 'list', { prefix: {} }), { status: 500, error: /prefix and cursor are texts/ })
    await call('DELETE', '/delete/one')
    await call('POST', '/deploy', { id: 'one', code })
    for (let keys: string[] = ['?']; keys.length > 0; )
      keys = ((await ask('one', 'list', {})) as { keys: string[] }).keys
    t.strictSame(await ask('one', 'get', 'a.b'), null, 'a deleted function leaves nothing to the next of its name')
  })
})
