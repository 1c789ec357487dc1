import fc from 'fast-check'
import t from 'tap'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { pluginProblems } from '../../workers/workflows/check-plugin.ts'
import { type Given, pluginsOf, type Right, type Wrong } from './plugin-cases.ts'
import { problemsOf, runExample } from './plugin-example.ts'

t.setTimeout(120_000)
const { call, give, refuse } = pluginsOf('util')

const right: Right = [
  // RFC 9562, appendix A.
  [
    'uuid',
    { kind: 'v5', namespace: 'dns', name: 'www.example.com' },
    { id: '2ed6657d-e927-568b-95e1-2665a8aea6a2', kind: 'v5' },
  ],
  [
    'uuid',
    { operation: 'inspect', id: 'C232AB00-9414-11EC-B3C8-9F6BDECED846' },
    { kind: 'v1', at: '2022-02-22T19:22:22.000Z' },
  ],
  [
    'uuid',
    { operation: 'inspect', id: '1EC9414C-232A-6B00-B3C8-9F6BDECED846' },
    { kind: 'v6', at: '2022-02-22T19:22:22.000Z' },
  ],
  [
    'uuid',
    { operation: 'inspect', id: '017F22E2-79B0-7CC3-98C4-DC0C0C07398F' },
    { kind: 'v7', at: '2022-02-22T19:22:22.000Z' },
  ],
  ['uuid', { operation: 'inspect', id: '919108f7-52d1-4320-9bac-f847db4148a8' }, { kind: 'v4', at: null }],
  [
    'uuid',
    { operation: 'inspect', id: '01ARZ3NDEKTSV4RRFFQ69G5FAV' },
    { kind: 'ulid', at: '2016-07-30T23:54:10.259Z' },
  ],
  ['uuid', { operation: 'inspect', id: 'nothing' }, { kind: null, at: null }],
  [
    'uuid',
    { count: 3 },
    { kind: 'v4', ids: { length: 3 }, id: /^[0-9a-f]{8}-[0-9a-f]{4}-4[0-9a-f]{3}-[89ab][0-9a-f]{3}-[0-9a-f]{12}$/ },
  ],
  ['uuid', { kind: 'nanoid', alphabet: 'ab', length: 10 }, { id: /^[ab]{10}$/ }],
  ['random', { min: 4, max: 4, count: 2 }, { values: [4, 4] }],
  ['random', { kind: 'choice', items: ['a', 'b', 'c'], weights: [0, 1, 0], count: 2 }, { values: ['b', 'b'] }],
  ['random', { kind: 'bytes', length: 4, encoding: 'hex', count: 2 }, { values: [/^[0-9a-f]{8}$/, /^[0-9a-f]{8}$/] }],
  ['random', { kind: 'string', alphabet: 'ü', length: 3 }, { value: 'üüü' }],
  ['random', { kind: 'password', length: 4 }, { value: /^(?=.*[a-z])(?=.*[A-Z])(?=.*[2-9])(?=.*[^a-zA-Z0-9]).{4}$/ }],
  // A seed gives the same in every version: SHA-256 of it and a counter.
  ['random', { seed: 'x', count: 5, min: 1, max: 6 }, { values: [5, 1, 6, 3, 2] }],
  ['random', { seed: 'x', kind: 'shuffle', items: [1, 2, 3, 4, 5] }, { value: [1, 4, 5, 2, 3] }],
]

t.test('what comes out of what', (t) => give(t, right))

const wrong: Wrong = [
  ['uuid', { kind: 'v5', name: 'x', namespace: 'nonsense' }, /properties.namespace is neither/],
  ['uuid', { kind: 'v5' }, /properties.name is needed for v5/],
  ['uuid', { operation: 'inspect' }, /properties.id is needed/],
  ['random', { min: 5, max: 1 }, /no integer from/],
  ['random', { min: -9e15, max: 9e15 }, /further apart/],
  ['random', { kind: 'choice', items: [] }, /properties.items is empty/],
  ['random', { kind: 'choice', items: [1], weights: [1, 2] }, /has 2 numbers for 1 items/],
  ['random', { kind: 'sample', items: [1], count: 2 }, /2 cannot be drawn from 1/],
  ['random', { kind: 'password', seed: 'x' }, /properties.seed/],
  ['random', { kind: 'string', count: 100_000, length: 65_536 }, /more than 1000000/],
]

t.test('what is refused, and why', (t) => refuse(t, wrong))

const utilities = catalogue.filter(({ manifest }) => manifest.category === 'Utility')

t.test('every plugin', async (t) => {
  t.equal(utilities.length, 9)
  for (const plugin of utilities) {
    const { id } = plugin.manifest
    t.same(pluginProblems(plugin), [], `${id} is complete`)
    const problems = problemsOf(id, { nonsense: 1 }).join('\n')
    t.match(problems, /nonsense is no property of the plugin/, `${id} refuses what it does not know`)
    t.ok(Object.keys(await runExample(id)).length > 0, `${id} runs its example`)
  }
  t.match(problemsOf('util.crypto', { operation: 'encode' }), [/must be one of encrypt, decrypt/])
  t.match(problemsOf('util.uuid', { count: 0 }), [/count must be >= 1/])
  t.match(problemsOf('util.datetime', { holidays: ['Christmas'] }), [/holidays\[0\] must match pattern/])
  t.match((await runExample('util.template')).letter, { text: 'Dear Ann, ALIEN BRAZIL ' })
  t.match((await runExample('util.crypto')).check, { valid: true, claims: { sub: 'ann' } })
})

t.test('a task that is cancelled ends at once, whatever it is at', async (t) => {
  const long: readonly [string, Given][] = [
    ['json', { operation: 'query', value: 1, expression: '($f := function($n) { $f($n + 1) }; $f(0))' }],
    ['json', { operation: 'validate', value: `${'a'.repeat(50)}!`, schema: { pattern: '^(a+)+$' } }],
  ]
  for (const [name, properties] of long) {
    const controller = new AbortController()
    const running = call(name, properties, controller.signal)
    setTimeout(() => controller.abort(new Error('cancelled')), 200)
    await t.rejects(running, { message: 'cancelled' }, name)
  }
})

t.test('ids', async (t) => {
  for (const kind of ['v7', 'ulid']) {
    const ids = (await call('uuid', { kind, count: 5_000 })).ids as string[]
    t.same(ids, ids.toSorted(), `${kind} is in the order of time`)
    t.equal(new Set(ids).size, 5_000)
    const { at } = await call('uuid', { operation: 'inspect', id: ids[0] })
    t.ok(Math.abs(Date.parse(String(at)) - Date.now()) < 60_000, `${kind} tells when it was made`)
  }
})

t.test('chance', async (t) => {
  const counts = new Map<unknown, number>()
  const { values } = await call('random', { min: 1, max: 6, count: 60_000, seed: 'fair' })
  for (const value of values as number[]) counts.set(value, (counts.get(value) ?? 0) + 1)
  t.same([...counts.keys()].sort(), [1, 2, 3, 4, 5, 6])
  const chi = [...counts.values()].reduce((sum, count) => sum + (count - 10_000) ** 2 / 10_000, 0)
  // The 99.9th percentile of five degrees of freedom; the seed makes it the same each time.
  t.ok(chi < 20.5, `chi square is ${chi}`)
  await fc.assert(
    fc.asyncProperty(fc.integer(), fc.nat(), fc.string(), async (min, span, seed) => {
      const asked = { min, max: min + span, seed, count: 5 }
      const drawn = (await call('random', asked)).values as number[]
      const inside = drawn.every((value) => Number.isInteger(value) && value >= min && value <= min + span)
      return inside && JSON.stringify(drawn) === JSON.stringify((await call('random', asked)).values)
    }),
  )
  await fc.assert(
    fc.asyncProperty(fc.array(fc.integer(), { minLength: 1 }), async (items) => {
      const { value } = await call('random', { kind: 'shuffle', items })
      return JSON.stringify((value as number[]).toSorted()) === JSON.stringify(items.toSorted())
    }),
  )
})
