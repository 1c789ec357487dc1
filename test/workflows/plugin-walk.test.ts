import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { tryPlugin } from '../../workers/workflows/try-plugin.ts'
import { openSockets } from './call-plugin.ts'
import { childrenOf, scratchFolders } from './left-behind.ts'
import { overHttp, overTcp } from './network-plugins.ts'

// What the plugins without a server do when they fail or are cancelled; those with one are in catalogue.test.ts.

t.setTimeout(120_000)

type Given = Record<string, unknown>

interface Walk {
  /** Properties that it refuses, and how it says so. */
  readonly wrong: readonly [Given, RegExp]
  /** Work that takes long. */
  readonly long: Given
  /** It hands over to the engine, or is done before it can be told to stop. */
  readonly atOnce?: true
}

const endless = '($f := function($n) { $f($n + 1) }; $f(0))'
const numbers = Array.from({ length: 100_000 }, (_, at) => ({ id: at, name: `n${at % 1_000}` }))
const items = numbers
const words = 'a word and another, '.repeat(200_000)

const walks: Readonly<Record<string, Walk>> = {
  'script.shell': { wrong: [{ script: 'exit 3' }, /ended with 3/], long: { script: 'sleep 1000 & sleep 1000' } },
  'script.python': {
    wrong: [{ script: 'raise ValueError("no")' }, /ValueError: no/],
    long: { script: 'while True: pass' },
  },
  'core.if': { wrong: [{}, /properties/], long: { condition: true }, atOnce: true },
  'core.switch': { wrong: [{}, /properties/], long: { value: 'a' }, atOnce: true },
  'core.foreach': { wrong: [{ items: 'no list' }, /items is no list/], long: { items: 1_000 }, atOnce: true },
  'core.parallel': { wrong: [{ concurrency: 0 }, /properties\.concurrency/], long: {}, atOnce: true },
  'core.wait': { wrong: [{}, /one of duration and until/], long: { duration: '1h' }, atOnce: true },
  'core.subflow': { wrong: [{}, /properties/], long: { flowId: 'other' }, atOnce: true },
  'core.approval': { wrong: [{ timeout: 'soon' }, /timeout/], long: {}, atOnce: true },
  'util.log': { wrong: [{ level: 'loud', message: '' }, /properties\.level/], long: { message: words }, atOnce: true },
  'util.set': {
    wrong: [{ values: {}, assert: [{ that: false, message: 'not so' }] }, /not so/],
    long: { values: { items } },
    atOnce: true,
  },
  'core.kv': {
    wrong: [{ operation: 'get' }, /properties\.key is needed/],
    long: { operation: 'put', key: 'k', value: 1 },
    atOnce: true,
  },
  'core.fail': { wrong: [{ message: 'as told' }, /as told/], long: { message: 'x', condition: false }, atOnce: true },
  'flow.map': {
    wrong: [{ items: [1], expression: '(' }, /properties\.expression/],
    long: { items: [1], expression: endless },
  },
  'flow.reduce': {
    wrong: [{ items: [1], expression: '(' }, /properties\.expression/],
    long: { items: [1], expression: endless },
  },
  'flow.group': { wrong: [{ items: [] }, /one of by and size/], long: { items: [1], by: endless } },
  'flow.unique': { wrong: [{ items: {}, by: '(' }, /properties/], long: { items: [1], by: endless } },
  'flow.flatten': { wrong: [{ items: 'no' }, /items/], long: { items: items.map((each) => [each]) } },
  'flow.lookup': {
    wrong: [{ items: [{}], key: 'a', table: {}, missing: 'fail' }, /./],
    long: { items: [{}], key: endless, table: {} },
  },
  'flow.limit': { wrong: [{ items: 'no list', count: 1 }, /items/], long: { items, count: 1 }, atOnce: true },
  'flow.merge': { wrong: [{}, /properties/], long: { lists: [[1], [1]], key: endless, mode: 'key' } },
  'flow.while': { wrong: [{}, /properties/], long: { condition: true }, atOnce: true },
  'transform.csv': { wrong: [{ text: '"a' }, /quote/i], long: { text: 'a,b\n'.repeat(500_000), maxRows: 1_000_000 } },
  'transform.xml': {
    wrong: [{ text: '<a>' }, /XML|closed|tag/i],
    long: { text: `<a>${'<b>x</b>'.repeat(200_000)}</a>` },
  },
  'transform.base64': { wrong: [{ operation: 'decode', text: '!' }, /base64/], long: { text: words } },
  'transform.hash': {
    wrong: [{ text: 'a', algorithm: 'crc32', key: 'k' }, /takes none/],
    long: { text: words.repeat(10) },
  },
  'transform.regex': {
    wrong: [{ text: 'a', pattern: '(' }, /pattern/],
    long: { text: words, pattern: '(a|o|e)+ ?w', operation: 'match' },
  },
  'transform.filter': { wrong: [{ items: [1] }, /properties/], long: { items: [1], expression: endless } },
  'transform.sort': {
    wrong: [{ items: [], by: [{ field: 'a', order: 'up' }] }, /properties\.by/],
    long: { items, by: [{ field: 'name' }] },
  },
  'transform.yaml': { wrong: [{ text: 'a: [' }, /YAML|flow/i], long: { text: '- a: b\n'.repeat(100_000) } },
  'transform.html': {
    wrong: [{ operation: 'text', text: '<a>', selector: '(' }, /selector/],
    long: { operation: 'text', text: `${'<div>'.repeat(100_000)}x` },
  },
  'transform.markdown': { wrong: [{}, /text or properties\.file/], long: { text: '*a* [b](c) '.repeat(100_000) } },
  'transform.aggregate': {
    wrong: [{ items: [], measures: [{ name: 'a', calculate: 'most' }] }, /properties\.measures/],
    long: { items, by: ['name'], measures: [{ name: 'n', calculate: 'count' }] },
  },
  'transform.join': {
    wrong: [{ left: [], right: [] }, /properties/],
    long: { left: items, right: items, leftKey: 'id', rightKey: 'id' },
  },
  'transform.compress': {
    wrong: [{ operation: 'unpack', text: 'x', format: 'zip' }, /zip/],
    long: { text: words.repeat(3), format: 'brotli', level: 11 },
  },
  'db.sqlite': {
    wrong: [{ sql: 'select from' }, /syntax error/],
    long: { sql: 'with recursive n(i) as (select 1 union all select i + 1 from n) select count(*) from n' },
  },
  'util.uuid': { wrong: [{ kind: 'v5' }, /properties\.name/], long: { count: 10_000 }, atOnce: true },
  'util.random': { wrong: [{ kind: 'choice', items: [] }, /items/], long: { kind: 'shuffle', items }, atOnce: true },
  'util.json': {
    wrong: [{ operation: 'query', value: 1, expression: '(' }, /expression/],
    long: { operation: 'query', value: 1, expression: endless },
  },
  'util.url': { wrong: [{ url: '::' }, /url/], long: { operation: 'encode', text: words }, atOnce: true },
  'util.template': {
    wrong: [{ text: '{% if %}' }, /properties|line/],
    long: { text: '{% for a in (1..1000000) %}{{ a }}{% endfor %}', data: {} },
  },
  'util.math': {
    wrong: [{ operation: 'evaluate', expression: '1 +' }, /expression/],
    long: { operation: 'statistics', values: items.map(({ id }) => id) },
  },
  'util.string': {
    wrong: [{ operation: 'replace', text: 'a' }, /search is needed/],
    long: { operation: 'title', text: words },
  },
  'util.datetime': {
    wrong: [{ operation: 'format', date: 'someday' }, /date/],
    long: { operation: 'now' },
    atOnce: true,
  },
  'util.crypto': {
    wrong: [{ operation: 'decrypt', text: 'x' }, /too short/],
    long: { operation: 'hash-password', password: 'word' },
    atOnce: true,
  },
}

t.test('with those that have a server, it is all of them', async (t) => {
  const all = [...Object.keys(walks), ...overHttp, ...overTcp]
  t.same(all.sort(), catalogue.map(({ manifest }) => manifest.id).sort())
})

const pluginOf = (id: string) => catalogue.find(({ manifest }) => manifest.id === id)!

t.test('what is wrong is refused for good, by name', async (t) => {
  for (const [
    id,
    {
      wrong: [properties, message],
    },
  ] of Object.entries(walks)) {
    const told = await tryPlugin(pluginOf(id), properties).then(
      () => 'done',
      (error) => error,
    )
    t.match(told, { name: 'TaskFailure', kind: 'refused', message }, id)
  }
})

t.test('a cancelled task stops, and leaves no process, file or connection', async (t) => {
  const before = { folders: scratchFolders(), sockets: openSockets(), children: childrenOf(process.pid) }
  const left = () =>
    scratchFolders().filter((each) => !before.folders.includes(each)).length +
    Math.max(0, openSockets() - before.sockets) +
    childrenOf(process.pid).filter((each) => !before.children.includes(each)).length
  for (const [id, { long, atOnce }] of Object.entries(walks)) {
    const stopping = new AbortController()
    const settled = tryPlugin(pluginOf(id), long, { signal: stopping.signal }).then(
      () => 'done',
      (error) => (error === stopping.signal.reason ? 'cancelled' : `failed: ${error.message}`),
    )
    // It has begun: what it starts is there, or on its way.
    for (let turns = 0; turns < 3; turns++) await new Promise((resolve) => setImmediate(resolve))
    stopping.abort(new Error('cancelled'))
    t.equal(await Promise.race([settled, delay(10_000).then(() => 'goes on')]), atOnce ? 'done' : 'cancelled', id)
    for (let tries = 0; left() > 0 && tries < 2_000; tries++) await delay(5)
    t.equal(left(), 0, `${id} leaves nothing behind`)
  }
})
