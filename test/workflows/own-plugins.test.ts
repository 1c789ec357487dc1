import { mkdirSync, mkdtempSync, readFileSync, realpathSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { newPlugin } from '../../ops/plugin-new.ts'
import { readFlow } from '../../schemas/workflows/flow-yaml.ts'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { pluginProblems } from '../../workers/workflows/check-plugin.ts'
import { type OwnPluginObservation, OwnPlugins } from '../../workers/workflows/own-plugins.ts'
import { tryPlugin } from '../../workers/workflows/try-plugin.ts'
import { startBusbar } from '../support/command.ts'

// Each command is a process that has to begin, on a machine that is busy with other tests.
t.setTimeout(120_000)
const root = realpathSync(mkdtempSync(join(tmpdir(), 'busbar-own-')))
t.teardown(() => rmSync(root, { recursive: true, force: true }))

/** The users' own plugins of these sources, beside those of the platform. */
async function open(t: Tap, sources: readonly string[]) {
  const plugins = new Map(catalogue.map((plugin) => [plugin.manifest.id, plugin]))
  const observed: OwnPluginObservation[] = []
  const published: { ids: string[]; gone: readonly string[] }[] = []
  let fails = 0
  const own = new OwnPlugins({
    sources,
    plugins,
    publish: async (all, gone) => {
      if (fails-- > 0) throw new Error('away')
      published.push({ ids: all.map(({ manifest }) => manifest.id), gone })
    },
    onObservation: (observation) => {
      observed.push(observation)
    },
  })
  const until = async (look: () => boolean) => {
    for (let tries = 0; tries < 1_000 && !look(); tries++) await delay(20)
  }
  t.teardown(() => own.stop())
  const failPublishing = (times: number) => {
    fails = times
  }
  return { own, plugins, observed, published, until, failPublishing }
}

type Tap = { teardown: (work: () => Promise<void>) => void }

const plugin = (id: string, text: string, more = '') => `
import { definePlugin, Type } from 'busbar/plugin'
export const one = definePlugin({
  id: '${id}', name: 'One', category: 'Custom', description: 'Says ${text}.',
  input: Type.Object({}, { additionalProperties: false }),
  output: Type.Object({ text: Type.String({ description: 'It', examples: ['a'] }) }),
  example: 'name: e\\ntasks:\\n  - name: a\\n    type: ${id}\\n',
  run: async () => ({ text: '${text}' }),
  ${more}
})
`

t.test('the built-in plugins are held to what is asked of the users own', async (t) => {
  for (const each of catalogue) t.same(pluginProblems(each), [], each.manifest.id)
})

t.test('the flow of the page about plugins can be saved', async (t) => {
  const page = readFileSync(join(import.meta.dirname, '../../workers/workflows/plugins/README.md'), 'utf8')
  const manifests = catalogue.map(({ manifest }) => manifest)
  const known = { all: () => manifests, find: (type: string) => manifests.find(({ id }) => id === type) }
  const flows = [...page.matchAll(/```yaml\n([\s\S]*?)```/g)].map(([, yaml]) => yaml!)
  t.equal(flows.length, 1)
  for (const yaml of flows) t.same(readFlow(yaml, known).problems, [])
})

t.test('files of a folder come, change and go', async (t) => {
  const folder = join(root, 'coming')
  const { own, plugins, observed, published, until, failPublishing } = await open(t, [folder])
  await own.start()
  t.equal(plugins.size, catalogue.length, 'a folder that is not there yet has none')
  newPlugin('acme.greet', folder)
  await until(() => plugins.has('acme.greet'))
  t.same((await tryPlugin(plugins.get('acme.greet')!, { name: 'Ann' })).outputs, { text: 'Hello, Ann!' })
  await until(() => published.length > 0)
  t.same(published.at(-1), { ids: ['acme.greet'], gone: [] })

  failPublishing(2)
  const path = join(folder, 'one.mjs')
  writeFileSync(path, plugin('acme.one', 'first'))
  await until(() => published.length > 1)
  t.same(published.at(-1)?.ids.sort(), ['acme.greet', 'acme.one'], 'told again until it is heard')
  writeFileSync(path, plugin('acme.one', 'second time'))
  await until(() => plugins.get('acme.one')?.manifest.description === 'Says second time.')
  t.same((await tryPlugin(plugins.get('acme.one')!, {})).outputs, { text: 'second time' })

  writeFileSync(path, 'this is no JavaScript')
  await until(() => observed.some(({ type }) => type === 'plugin-refused'))
  t.equal(plugins.get('acme.one')?.manifest.description, 'Says second time.', 'a broken file changes nothing')
  rmSync(path)
  await until(() => !plugins.has('acme.one'))
  await until(() => published.at(-1)?.gone.length === 1)
  t.same(published.at(-1), { ids: ['acme.greet'], gone: ['acme.one'] })
})

t.test('what cannot be offered is refused, and the others are there', async (t) => {
  const folder = join(root, 'refused')
  mkdirSync(folder)
  const files: Record<string, string> = {
    'a-good.mjs': plugin('acme.good', 'yes'),
    'b-same.mjs': plugin('acme.good', 'again'),
    'c-taken.mjs': plugin('util.log', 'mine'),
    'd-category.mjs': plugin('acme.core', 'x', "category: 'Core',"),
    'e-example.mjs': plugin(
      'acme.example',
      'x',
      "example: 'name: x\\ntasks:\\n  - name: a\\n    type: acme.nothing\\n',",
    ),
    'f-words.mjs': plugin('acme.words', 'x', 'input: Type.Object({ a: Type.String() }),'),
    'g-none.mjs': 'export const nothing = 1',
    'h-throws.mjs': "throw new Error('at once')",
    '_helper.mjs': 'throw new Error("not looked at")',
    'x.test.mjs': 'throw new Error("not looked at")',
    'notes.txt': 'not looked at',
  }
  for (const [name, text] of Object.entries(files)) writeFileSync(join(folder, name), text)
  const { own, plugins, observed } = await open(t, [folder, 'busbar-no-such-package'])
  await own.start()
  t.equal(plugins.size, catalogue.length + 1)
  t.same((await tryPlugin(plugins.get('acme.good')!, {})).outputs, { text: 'yes' })
  const refused = observed.flatMap((each) => (each.type === 'plugin-refused' ? [String(each.error)] : []))
  t.match(refused, [
    /another file has this id/,
    /a plugin of the platform has this id/,
    /category has to be Custom/,
    /example, line 4: .*no plugin acme.nothing/i,
    /input.a has no description; input.a has no examples; input allows additional properties/,
    /exports nothing that definePlugin gives/,
    /at once/,
    /busbar-no-such-package/,
  ])
})

t.test('an npm package is one, too', async (t) => {
  const place = join(root, 'project')
  const home = join(place, 'node_modules', 'busbar-plugin-acme')
  mkdirSync(home, { recursive: true })
  writeFileSync(
    join(home, 'package.json'),
    '{ "name": "busbar-plugin-acme", "type": "module", "exports": "./index.js" }',
  )
  writeFileSync(join(home, 'index.js'), plugin('acme.packed', 'from a package'))
  const before = process.cwd()
  t.teardown(() => process.chdir(before))
  process.chdir(place)
  const { own, plugins, observed } = await open(t, ['busbar-plugin-acme'])
  await own.start()
  t.same(
    observed.map(({ type }) => type),
    ['plugin-added'],
  )
  t.same((await tryPlugin(plugins.get('acme.packed')!, {})).outputs, { text: 'from a package' })
})

t.test('the command writes a plugin whose tests pass', async (t) => {
  const folder = join(root, 'written')
  const written = await startBusbar(['plugin', 'new', 'acme.say-hello', '--folder', folder]).finished
  t.match(written, { code: 0, stdout: new RegExp(`${join(folder, 'acme-say-hello.ts')}\\n`) })
  const tested = await startBusbar(['plugin', 'test', folder]).finished
  t.match(tested, { code: 0, stdout: /pass 3\b/ })
  writeFileSync(
    join(folder, 'bad.test.mjs'),
    "import { test } from 'node:test'; test('no', () => { throw new Error() })",
  )
  t.match(await startBusbar(['plugin', 'test', folder]).finished, { code: 1 })
  const cases: readonly (readonly [string, RegExp])[] = [
    ['acme.say-hello', /is there already/],
    ['Greet', /cannot be the id/],
    ['http.request', /is a plugin of the platform/],
    ['core.sleep', /is a plugin of the platform/],
  ]
  for (const [id, message] of cases) t.throws(() => newPlugin(id, folder), { name: 'OperatorError', message })
})
