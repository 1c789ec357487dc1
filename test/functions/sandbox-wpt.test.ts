import { existsSync, readFileSync } from 'node:fs'
import t from 'tap'
import { stage } from './hosts-support.ts'

/**
 * Web Platform Tests' data for URLs, run inside the sandbox. The data is not part of this repository: put urltestdata.json,
 * setters_tests.json and toascii.json (web-platform-tests/wpt, url/resources) into `.busbar/wpt` to run them.
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
