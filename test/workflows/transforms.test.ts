import t from 'tap'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { pluginProblems } from '../../workers/workflows/check-plugin.ts'
import { callPlugin } from './call-plugin.ts'
import { type Given, pluginsOf } from './plugin-cases.ts'
import { problemsOf, runExample } from './plugin-example.ts'

t.setTimeout(120_000)
const { call } = pluginsOf('transform')

const transforms = catalogue.filter(({ manifest }) => manifest.category === 'Transforms')

/** What some need beside what most take. */
const only: Readonly<Record<string, Given>> = {
  'transform.html': { fields: { a: 'a' } },
  'transform.aggregate': { measures: [{ name: 'n', calculate: 'count' }], by: ['$string($)'] },
  'transform.sort': { by: [{ field: '$' }] },
  'transform.join': { leftKey: 'a' },
}

t.test('every plugin', async (t) => {
  t.equal(transforms.length, 13)
  for (const plugin of transforms) {
    const { id } = plugin.manifest
    t.same(pluginProblems(plugin), [], `${id} is complete`)
    const problems = problemsOf(id, { nonsense: 1 }).join('\n')
    t.match(problems, /nonsense is no property of the plugin/, `${id} refuses what it does not know`)
    t.ok(Object.keys(await runExample(id)).length > 0, `${id} runs its example`)
  }
  t.match(problemsOf('transform.csv', { operation: 'stringyfy' }), [/must be one of parse, stringify; perhaps/])
  t.match(problemsOf('transform.sort', { items: [], by: [{ order: 'ascending' }] }), [/by\[0\] needs field/])
  t.match((await runExample('transform.xml')).write, { text: /<item sku="b">Salt<\/item>/ })
  t.match((await runExample('transform.compress')).unpack, {
    files: [{ name: 'a.txt', text: 'first' }, { text: 'second' }],
  })
})

t.test('a task that is cancelled ends at once, whatever it is at', async (t) => {
  // Each of these would go on for minutes.
  const long: readonly [string, Given][] = [
    ['html', { operation: 'text', text: `${'<div>'.repeat(100_000)}x` }],
    ['filter', { items: [1], expression: '($f := function($n) { $f($n + 1) }; $f(0))' }],
  ]
  for (const [name, properties] of long) {
    const controller = new AbortController()
    const running = call(name, properties, controller.signal)
    setTimeout(() => controller.abort(new Error('cancelled')), 200)
    await t.rejects(running, { message: 'cancelled' }, name)
  }
  for (const { manifest } of transforms) {
    const given = {
      text: '<a/>',
      items: [1],
      expression: '$',
      left: [],
      right: [],
      leftKey: 'a',
      pattern: 'a',
      measures: [],
    }
    const names = Object.keys((manifest.inputSchema as unknown as { properties: object }).properties)
    const properties = Object.fromEntries(Object.entries(given).filter(([name]) => names.includes(name)))
    const before = callPlugin(
      manifest.id,
      { ...properties, ...only[manifest.id] },
      { signal: AbortSignal.abort(new Error('before')) },
    )
    await t.rejects(before, { message: 'before' }, manifest.id)
  }
})
