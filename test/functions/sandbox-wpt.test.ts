import { existsSync, readdirSync, readFileSync } from 'node:fs'
import t from 'tap'
import { stage } from './hosts-support.ts'

/**
 * Web Platform Tests, run inside the sandbox. They are not part of this repository: put urltestdata.json, setters_tests.json and
 * toascii.json (web-platform-tests/wpt, url/resources) into `.busbar/wpt` to run those for URLs, and `encoding/**` with its `.any.js` files
 * and their `resources` into `.busbar/wpt/encoding` to run those for encodings.
 */
const folder = new URL('../../.busbar/wpt/', import.meta.url)
const files = ['urltestdata', 'setters_tests', 'toascii'] as const
const there = files.every((file) => existsSync(new URL(`${file}.json`, folder)))

type Item = Record<string, unknown>
const read = (file: (typeof files)[number]) => JSON.parse(readFileSync(new URL(`${file}.json`, folder), 'utf8'))
/** Lists have comments between the cases. */
const casesOf = (file: 'urltestdata' | 'toascii') => (read(file) as unknown[]).filter((one) => typeof one === 'object')

/** The share that has been reached; less is a fault. */
const floor = 1

const program = `
  const parts = ['href', 'protocol', 'username', 'password', 'host', 'hostname', 'port', 'pathname', 'search', 'hash']
  const differs = (url, wanted) => parts.concat('origin').find((part) => wanted[part] !== undefined && url[part] !== wanted[part])
  const checks = {
    urltestdata({ input, base, failure, ...wanted }) {
      let url
      try { url = new URL(input, base === null ? undefined : base) } catch (error) { return failure === true && error instanceof TypeError }
      return failure === undefined && differs(url, wanted) === undefined
    },
    setters_tests({ href, attribute, new_value, expected }) {
      const url = new URL(href)
      url[attribute] = new_value
      return differs(url, expected) === undefined
    },
    toascii({ input, output }) {
      const url = URL.parse('https://' + input + '/x')
      return url === null ? output === null : url.host === output && url.href === 'https://' + output + '/x'
    },
  }
  exports.handler = ({ file, cases }) => cases.map((one) => {
    try { return checks[file](one) } catch (error) { return String(error) } })`

t.test('Web Platform Tests for URL pass', { skip: !there && 'no data in .busbar/wpt' }, async (t) => {
  const { deploy, call } = await stage(t, { hosts: 1 })
  await deploy('wpt', program)
  const setters = Object.entries(read('setters_tests') as Record<string, Item[]>)
    .filter(([attribute]) => attribute !== 'comment')
    .flatMap(([attribute, cases]) => cases.map((one) => ({ ...one, attribute })))
  const suites = { urltestdata: casesOf('urltestdata'), setters_tests: setters, toascii: casesOf('toascii') }
  for (const [file, cases] of Object.entries(suites)) {
    const { value } = await call('wpt', { file, cases })
    const passed = (value as unknown[]).filter((one) => one === true).length
    t.comment(`${file}: ${passed} of ${cases.length} pass`)
    t.ok(cases.length > 0 && passed >= cases.length * floor, `${file}: ${passed} of ${cases.length}`)
  }
})

/** What the tests of encodings use of the suite's own harness; each result is a name, and true or what was wrong. */
const harness = `
  const results = []
  const shown = (value) => typeof value === 'string' ? JSON.stringify(value) : String(value)
  const fail = (text) => { throw new Error(text) }
  const test = (run, name) => { try { run({}); results.push([name, true]) } catch (error) { results.push([name, String(error)]) } }
  const assert_equals = (got, wanted) => Object.is(got, wanted) || fail(shown(got) + ' is not ' + shown(wanted))
  const assert_not_equals = (got, other) => Object.is(got, other) && fail(shown(got))
  const assert_true = (got) => assert_equals(got, true)
  const assert_false = (got) => assert_equals(got, false)
  const assert_array_equals = (got, wanted) => {
    assert_equals(got.length, wanted.length)
    wanted.forEach((each, at) => assert_equals(got[at], each)) }
  const assert_throws_js = (type, run) => {
    try { run() } catch (error) { return assert_equals(error.constructor, type) }
    fail('nothing was thrown') }
  const format_value = shown
  const setup = () => {}
  const subsetTest = (kind, ...given) => kind(...given)
  const createBuffer = (type, length) => new globalThis[type](length)`

const encodings = new URL('encoding/', folder)
const encodingFiles = existsSync(encodings)
  ? (readdirSync(encodings, { recursive: true }) as string[])
      .filter((file) => /^(?!streams).*[.]any[.]js$/.test(file))
      .sort()
  : []

/** The file behind the scripts of its own folder that it asks for. */
function withScripts(file: string): string {
  const url = new URL(file, encodings)
  const text = readFileSync(url, 'utf8')
  const scripts = [...text.matchAll(/^\/\/ META: script=(?!\/)(\S+)$/gm)].map(([, script = '']) => new URL(script, url))
  return [...scripts.map((script) => readFileSync(script, 'utf8')), text].join('\n;')
}

t.test(
  'Web Platform Tests for encodings pass',
  { skip: encodingFiles.length === 0 && 'no data in .busbar/wpt/encoding', timeout: 120_000 },
  async (t) => {
    const { deploy, call } = await stage(t, { hosts: 1 })
    let count = 0
    for (const file of encodingFiles) {
      await deploy('wpt', `${harness}\n;${withScripts(file)}\n;exports.handler = () => results`)
      const { value, message } = await call('wpt', null, { timeoutMs: 60_000 })
      // There is no shared memory.
      const results = ((value ?? []) as [string, true | string][]).filter(
        ([name]) => !name.includes('SharedArrayBuffer'),
      )
      t.ok(results.length > 0, `${file}: ${results.length} ${message ?? ''}`)
      t.same(
        results.filter(([, passed]) => passed !== true),
        [],
        file,
      )
      count += results.length
    }
    t.comment(`${count} tests`)
  },
)
