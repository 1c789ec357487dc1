import t from 'tap'
import { testRedis } from '../support/redis.ts'
import { callPlugin, failure } from './call-plugin.ts'

t.setTimeout(60_000)
const redis = await testRedis(t, { password: 'secret' })
const url = redis.url.replace('//', '//:secret@')
const call = (id: 'db.redis', properties: Record<string, unknown>, options = {}) =>
  callPlugin(id, { url, ...properties }, options)

t.test('db.redis: operations, in order', async (t) => {
  const members = [{ member: 'a', score: 1 }, { member: 'b', score: 2.5 }] // biome-ignore format: pairs
  const steps: readonly (readonly [Record<string, unknown>, unknown])[] = [
    [{ operation: 'get', key: 's' }, null],
    [{ operation: 'set', key: 's', value: { a: 'ü' }, ttlMs: 60_000 }, true],
    [{ operation: 'set', key: 's', value: 'x', onlyIf: 'absent' }, false],
    [{ operation: 'get', key: 's' }, '{"a":"ü"}'],
    [{ operation: 'expire', key: 's', ttlMs: 1_000_000 }, true],
    [{ operation: 'expire', key: 'none', ttlMs: 1 }, false],
    [{ operation: 'timeToLive', key: 'none' }, -2],
    [{ operation: 'increment', key: 'n', by: 5, ttlMs: 60_000 }, 5],
    [{ operation: 'increment', key: 'n' }, 6],
    [{ operation: 'increment', key: 'n', by: -0.5 }, 5.5],
    [{ operation: 'exists', keys: ['n', 's', 'none'] }, 2],
    [{ operation: 'delete', keys: ['n', 's', 'none'] }, 2],
    [{ operation: 'hashSet', key: 'h', fields: { a: 1, b: [true] } }, 2],
    [{ operation: 'hashSet', key: 'h', field: 'c', value: 'x' }, 1],
    [{ operation: 'hashGet', key: 'h', field: 'b' }, '[true]'],
    [{ operation: 'hashIncrement', key: 'h', field: 'a', by: 2 }, 3],
    [{ operation: 'hashDelete', key: 'h', field: 'c' }, 1],
    [
      { operation: 'hashGetAll', key: 'h' },
      { a: '3', b: '[true]' },
    ],
    [{ operation: 'push', key: 'l', values: ['b', 'c'] }, 2],
    [{ operation: 'push', key: 'l', value: 'a', side: 'left' }, 3],
    [{ operation: 'range', key: 'l' }, ['a', 'b', 'c']],
    [{ operation: 'pop', key: 'l' }, 'c'],
    [{ operation: 'setAdd', key: 'm', values: ['a', 1] }, 2],
    [{ operation: 'setHas', key: 'm', value: 1 }, true],
    [{ operation: 'setRemove', key: 'm', value: 1 }, 1],
    [{ operation: 'setMembers', key: 'm' }, ['a']],
    [{ operation: 'sortedAdd', key: 'z', members }, 2],
    [{ operation: 'sortedRange', key: 'z', descending: true }, [{ member: 'b', score: 2.5 }, { member: 'a', score: 1 }]], // biome-ignore format: pairs
    [{ operation: 'sortedRemove', key: 'z', values: ['a'] }, 1],
    [{ operation: 'publish', channel: 'c', value: 'x' }, 0],
    [{ operation: 'command', command: ['STRLEN', 's'] }, 0],
    [{ operation: 'scan', match: 'z*' }, ['z']],
  ]
  for (const [properties, value] of steps) {
    t.same(await call('db.redis', properties), { value }, JSON.stringify(properties))
  }
  const nine = await call('db.redis', {
    operation: 'command',
    command: ['SET', 'in-another', 1],
    url: `${url}/9`,
  })
  t.same([nine.value, (await call('db.redis', { operation: 'get', key: 'in-another' })).value], ['OK', null])
})

t.test('db.redis: what it refuses', async (t) => {
  for (const command of ['flushall', 'CONFIG', 'Shutdown', 'monitor', 'SUBSCRIBE', 'eval', 'DEBUG'])
    await t.rejects(
      call('db.redis', { operation: 'command', command: [command] }),
      failure('refused', /is not for tasks/),
    )
  await t.rejects(
    call('db.redis', { operation: 'get' }),
    failure('refused', /properties\.key is needed for the operation get/),
  )
  await t.rejects(call('db.redis', { operation: 'push', key: 'h', value: 1 }), failure('refused', /WRONGTYPE/))
  await t.rejects(call('db.redis', { operation: 'increment', key: 'h', ttlMs: 1 }), failure('refused', /WRONGTYPE/))
  await t.rejects(
    call('db.redis', { operation: 'hashGetAll', key: 'h', maxBytes: 3 }),
    failure('refused', /larger than 3 bytes/),
  )
})
