import t from 'tap'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { tryPlugin } from '../../workers/workflows/try-plugin.ts'

const find = (id: string) => catalogue.find(({ manifest }) => manifest.id === id)!
const call = async (id: string, properties: Record<string, unknown>, signal?: AbortSignal) =>
  (await tryPlugin(find(id), properties, signal === undefined ? {} : { signal })).outputs as Record<string, unknown>

const people = [
  { name: 'Ann', city: 'Rome', age: 30 },
  { name: 'Bob', city: 'Oslo', age: 40 },
  { name: 'Cid', city: 'Rome', age: 50 },
]
const [ann, bob, cid] = people

/** Plugin, properties, and what its outputs have to hold. */
const cases: readonly (readonly [string, Record<string, unknown>, Record<string, unknown>])[] = [
  ['flow.map', { items: people, expression: 'name' }, { items: ['Ann', 'Bob', 'Cid'], count: 3 }],
  ['flow.map', { items: people, expression: 'age * 2 + $index' }, { items: [60, 81, 102] }],
  ['flow.map', { items: '[1,2]', expression: '$ / $sum($items)' }, { items: [1 / 3, 2 / 3] }],
  ['flow.map', { items: [{ a: [{ b: 1 }, { b: 2 }] }, {}], expression: 'a.b' }, { items: [[1, 2], null] }],
  [
    'flow.map',
    { items: people, fields: { who: '$uppercase(name)', old: 'age > 35' } },
    {
      items: [
        { who: 'ANN', old: false },
        { who: 'BOB', old: true },
        { who: 'CID', old: true },
      ],
    },
  ],
  ['flow.map', { items: [ann], fields: { age: 'age + 1' }, extend: true }, { items: [{ ...ann, age: 31 }] }],
  ['flow.map', { items: [], expression: 'name' }, { items: [], count: 0 }],
  ['flow.reduce', { items: [1, 2, 3], expression: '$accumulator + $', initial: 0 }, { value: 6, count: 3 }],
  ['flow.reduce', { items: people, expression: '$accumulator & name', initial: '' }, { value: 'AnnBobCid' }],
  ['flow.reduce', { items: [], expression: '$accumulator', initial: { a: 1 } }, { value: { a: 1 } }],
  [
    'flow.group',
    { items: people, by: 'city' },
    {
      groups: [
        { key: 'Rome', items: [ann, cid], count: 2 },
        { key: 'Oslo', items: [bob], count: 1 },
      ],
      count: 2,
    },
  ],
  [
    'flow.group',
    { items: [1, 2, 3, 4, 5], size: 2 },
    {
      groups: [
        { key: 0, items: [1, 2], count: 2 },
        { key: 1, items: [3, 4], count: 2 },
        { key: 2, items: [5], count: 1 },
      ],
    },
  ],
  ['flow.group', { items: [1, '1', null, {}], by: '$' }, { count: 4 }],
  [
    'flow.unique',
    { items: [1, '1', 1, { a: 1, b: 2 }, { b: 2, a: 1 }] },
    { items: [1, '1', { a: 1, b: 2 }], count: 3, removed: 2 },
  ],
  ['flow.unique', { items: people, by: 'city' }, { items: [ann, bob] }],
  ['flow.unique', { items: people, by: 'city', keep: 'last' }, { items: [bob, cid] }],
  ['flow.flatten', { items: [[1, [2]], 3, []] }, { items: [1, [2], 3], count: 3 }],
  ['flow.flatten', { items: [[1, [2, [3]]]], depth: 3 }, { items: [1, 2, 3] }],
  ['flow.flatten', { items: [{ l: ['a'] }, { l: ['b', 'c'] }], expression: 'l' }, { items: ['a', 'b', 'c'] }],
  [
    'flow.lookup',
    { items: people, key: 'city', table: [{ id: 'Rome', in: 'IT' }], as: 'at' },
    {
      items: [
        { ...ann, at: { id: 'Rome', in: 'IT' } },
        { ...bob, at: null },
        { ...cid, at: { id: 'Rome', in: 'IT' } },
      ],
      found: 2,
      missing: ['Oslo'],
    },
  ],
  ['flow.lookup', { items: [{ n: 7 }], key: 'n', table: { 7: 'seven' } }, { items: [{ n: 7, match: 'seven' }] }],
  [
    'flow.lookup',
    {
      items: [{ n: '7' }, { n: 8 }],
      key: 'n',
      table: [
        { k: 7, v: 1 },
        { k: 7, v: 2 },
      ],
      tableKey: 'k',
      many: true,
    },
    {
      items: [
        {
          n: '7',
          match: [
            { k: 7, v: 1 },
            { k: 7, v: 2 },
          ],
        },
        { n: 8, match: [] },
      ],
    },
  ],
  [
    'flow.lookup',
    { items: ['a', 'b'], key: '$', table: '{"b":1}', missing: 'drop' },
    { items: [{ item: 'b', match: 1 }], count: 1 },
  ],
  ['flow.limit', { items: [1, 2, 3, 4], count: 2 }, { items: [1, 2], count: 2, total: 4, hasMore: true }],
  ['flow.limit', { items: [1, 2, 3, 4], count: 2, offset: 3 }, { items: [4], hasMore: false }],
  ['flow.limit', { items: [1, 2, 3, 4], count: 2, from: 'end', offset: 1 }, { items: [2, 3], hasMore: true }],
  ['flow.limit', { items: [1], count: 0, offset: 9, from: 'end' }, { items: [], total: 1 }],
  ['flow.merge', { lists: [[1], '[2,3]', []] }, { items: [1, 2, 3], count: 3 }],
  ['flow.merge', { lists: [[{ a: 1 }, { a: 2 }], [{ b: 1 }]], mode: 'zip' }, { items: [{ a: 1, b: 1 }, { a: 2 }] }],
  [
    'flow.merge',
    { lists: [[1, 2], ['x']], mode: 'zip' },
    {
      items: [
        [1, 'x'],
        [2, null],
      ],
    },
  ],
  [
    'flow.merge',
    {
      lists: [
        [{ id: 1, a: 1 }, { id: 2 }],
        [{ id: '2', b: 2 }, { id: 3 }, { id: 1, a: 9 }],
      ],
      mode: 'key',
      key: 'id',
    },
    { items: [{ id: 1, a: 9 }, { id: '2', b: 2 }, { id: 3 }] },
  ],
]

t.test('lists become what was asked for', async (t) => {
  for (const [id, properties, expected] of cases) {
    const outputs = await call(id, properties)
    for (const [name, value] of Object.entries(expected))
      t.same(outputs[name], value, `${id} ${JSON.stringify(properties)} ${name}`)
  }
})

t.test('what cannot be done is refused, and says where', async (t) => {
  const wrong: readonly (readonly [string, Record<string, unknown>, RegExp])[] = [
    ['flow.map', { items: 'no list', expression: 'a' }, /properties.items is no list/],
    ['flow.map', { items: [1] }, /needs one of expression and fields/],
    ['flow.map', { items: [1], expression: ' ' }, /properties.expression is empty/],
    ['flow.map', { items: [1], expression: 'a[' }, /^properties.expression: /],
    ['flow.map', { items: [1], fields: { x: '$nothing()' } }, /^properties.fields.x: /],
    ['flow.reduce', { items: '5', expression: '1' }, /properties.items/],
    ['flow.group', { items: [1], by: '$', size: 2 }, /needs one of by and size/],
    ['flow.group', { items: [1], size: 0 }, /properties.size/],
    ['flow.unique', { items: [1], keep: 'none' }, /properties.keep/],
    ['flow.lookup', { items: ['a'], key: '$', table: [], missing: 'fail' }, /Nothing is found for the key "a"/],
    ['flow.lookup', { items: ['a'], key: '$', table: 'no' }, /properties.table/],
    ['flow.limit', { items: [1], count: -1 }, /properties.count/],
    ['flow.merge', { lists: [[1]], mode: 'key', key: 'id' }, /properties.lists.0.0 is no object/],
    ['flow.merge', { lists: [[{}]], mode: 'key', key: 'id' }, /properties.lists.0.0 has no key/],
    ['flow.merge', { lists: [[1]], mode: 'key' }, /properties.key is needed/],
    ['flow.merge', { lists: [[1], 2] }, /properties.lists.1 is no list/],
    ['flow.flatten', { items: [1], more: 1 }, /properties/],
  ]
  for (const [id, properties, message] of wrong) await t.rejects(call(id, properties), { kind: 'refused', message })
})

t.test('an expression without an end is ended with its task', async (t) => {
  const controller = new AbortController()
  const endless = { items: [1], expression: '($f := function($x) { $f($x + 1) }; $f(0))' }
  const running = call('flow.map', endless, controller.signal)
  setTimeout(() => controller.abort(new Error('cancelled')), 300)
  await t.rejects(running, { message: 'cancelled' })
  t.same((await call('flow.map', { items: [1, 2], expression: '$ + 1' })).items, [2, 3], 'and others go on')
})

t.test('more expressions than threads have their turns, and one that waits can be cancelled', async (t) => {
  const slow = { items: [200_000], expression: '$sum([1..$])' }
  const controller = new AbortController()
  const first = Array.from({ length: 12 }, () => call('flow.map', slow))
  const cancelled = call('flow.map', slow, controller.signal)
  const last = call('flow.map', slow)
  controller.abort(new Error('cancelled'))
  await t.rejects(cancelled, { message: 'cancelled' })
  for (const each of [...first, last]) t.same((await each).items, [20_000_100_000])
})

t.test('a long list leaves the worker free', async (t) => {
  const items = Array.from({ length: 100_000 }, (_, index) => ({ id: index, group: index % 10 }))
  let turns = 0
  const timer = setInterval(() => turns++, 1)
  const controller = new AbortController()
  t.match(await call('flow.group', { items, by: 'group' }), { count: 10 })
  t.ok(turns > 1)
  clearInterval(timer)
  const running = call('flow.unique', { items }, controller.signal)
  setImmediate(() => controller.abort(new Error('cancelled')))
  await t.rejects(running, { message: 'cancelled' })
})
