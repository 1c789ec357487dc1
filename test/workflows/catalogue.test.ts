import { execFileSync } from 'node:child_process'
import { once } from 'node:events'
import { createServer as createHttpServer } from 'node:http'
import { type AddressInfo, createServer, type Server, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { tasksOf } from '../../schemas/workflows/flow-plan.ts'
import { readFlow } from '../../schemas/workflows/flow-yaml.ts'
import { pluginCategories } from '../../schemas/workflows/plugin-manifest.ts'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { pluginProblems } from '../../workers/workflows/check-plugin.ts'
import { isPassing } from '../../workers/workflows/passing-faults.ts'
import type { Plugin, TaskServices } from '../../workers/workflows/plugin.ts'
import { trialServices, tryPlugin } from '../../workers/workflows/try-plugin.ts'
import { overHttp, overTcp } from './network-plugins.ts'

t.setTimeout(120_000)

const manifests = catalogue.map(({ manifest }) => manifest)
const known = { all: () => manifests, find: (type: string) => manifests.find(({ id }) => id === type) }

/** Names of the specification's source, and those it leaves to us. */
const ids = {
  Core: 'http.request script.shell script.python util.set util.log core.if core.switch core.foreach core.parallel core.wait core.subflow core.approval core.kv core.fail',
  'Flow Control':
    'flow.map flow.reduce flow.group flow.unique flow.flatten flow.lookup flow.limit flow.merge flow.while',
  Transforms:
    'transform.csv transform.xml transform.base64 transform.hash transform.regex transform.filter transform.sort transform.yaml transform.html transform.markdown transform.aggregate transform.join transform.compress',
  Databases: 'db.postgres db.mysql db.sqlite db.redis db.mongodb',
  Protocol:
    'slack.message discord.message telegram.message smtp.send graphql.query rss.read teams.message ftp.transfer mqtt.publish websocket.send',
  SaaS: 'saas.github saas.jira saas.notion saas.stripe saas.hubspot saas.linear saas.gitlab saas.asana saas.trello saas.airtable saas.googlesheets saas.salesforce saas.zendesk saas.shopify saas.sendgrid saas.twilio saas.pagerduty',
  AI: 'ai.openai ai.anthropic ai.gemini ai.ollama ai.embeddings ai.image',
  Utility: 'util.uuid util.random util.json util.url util.template util.math util.string util.datetime util.crypto',
}

t.test('exactly the 83, in their categories', async (t) => {
  for (const [category, names] of Object.entries(ids)) {
    const found = manifests.filter((manifest) => manifest.category === category).map(({ id }) => id)
    t.same(found.sort(), names.split(' ').sort(), category)
  }
  t.equal(catalogue.length, 83)
  t.same(Object.keys(pluginCategories).sort(), Object.keys(ids).sort())
})

t.test(
  'each says what it is, of every property too, and its example can be saved and refuses what it does not know',
  async (t) => {
    for (const plugin of catalogue) {
      const { id, example } = plugin.manifest
      t.same(pluginProblems(plugin), [], id)
      const wrong = example.replace(
        new RegExp(`(type: ${id.replace('.', '\\.')}\\n(?:\\s+[^\\n]*\\n)*?\\s+properties:)([ \\n])`),
        (all, before: string, after: string) => {
          const block = after === '\n' && !/properties: *\{/.test(all)
          return block ? `${before}\n${' '.repeat(6)}no_such_property: 1\n` : `${before} `
        },
      )
      const { problems } = readFlow(wrong.replace(/properties: \{/, 'properties: { no_such_property: 1,'), known)
      t.match(
        problems,
        [{ line: Number, column: Number, message: /no_such_property|no property|is no key|not/ }],
        `${id} with another property`,
      )
    }
  },
)

/** Places of properties of a schema, nested ones too, for which something does not hold. */
function places(schema: unknown, place: string, holds: (property: Schema) => boolean): readonly string[] {
  if (typeof schema !== 'object' || schema === null) return []
  const { properties = {}, patternProperties = {}, additionalProperties, items, anyOf = [] } = schema as Schema
  const own = Object.entries(properties).flatMap(([name, property]) => [
    ...(holds(property) ? [] : [`${place}.${name}`]),
    ...places(property, `${place}.${name}`, holds),
  ])
  const parts = [additionalProperties, items, ...anyOf, ...Object.values(patternProperties)]
  return [...own, ...parts.flatMap((each) => places(each, place, holds))]
}

interface Schema {
  readonly description?: string
  readonly default?: unknown
  readonly examples?: readonly unknown[]
  readonly properties?: Readonly<Record<string, Schema>>
  readonly patternProperties?: Readonly<Record<string, Schema>>
  readonly additionalProperties?: unknown
  readonly items?: unknown
  readonly anyOf?: readonly unknown[]
}

t.test('every property of every schema, nested ones too, has a description, a default and an example', async (t) => {
  for (const { id, inputSchema, outputSchema } of manifests) {
    const lacking = (holds: (property: Schema) => boolean) => [
      ...places(inputSchema, 'input', holds),
      ...places(outputSchema, 'output', holds),
    ]
    t.same(
      lacking(({ description = '' }) => description.trim() !== ''),
      [],
      `${id}: descriptions`,
    )
    t.same(
      lacking((property) => property.default !== undefined),
      [],
      `${id}: defaults`,
    )
    t.same(
      lacking(({ examples = [] }) => examples.length > 0),
      [],
      `${id}: examples`,
    )
  }
})

t.test('null is what is not given: it may be left out or said, but where a property is required', async (t) => {
  const check = (type: string, properties: unknown) =>
    readFlow(JSON.stringify({ name: 'f', tasks: [{ name: 'a', type, properties }] }), known).problems.map(
      ({ path, message }) => `${path} ${message}`,
    )
  const hash = pluginOf('transform.hash')
  t.same(check('transform.hash', { text: 'abc', key: null, file: null }), [])
  t.match((await tryPlugin(hash, { text: 'abc', key: null, file: null })).outputs, { digest: /^ba7816bf/ })
  t.match(check('transform.hash', { text: 1.5, algorithm: null }), [/text must be string/, /algorithm must be/])
  t.match(check('smtp.send', { url: null, from: 'a@b', to: ['c@d'], subject: 's' }), [
    /url must be string, not nothing/,
  ])
  t.match(check('ftp.transfer', { url: 'sftp://a', operation: 'list', path: '/', tls: { verify: true, ca: null } }), [])
  t.match(check('transform.html', { text: 'a', fields: { a: { selector: 'a', attribute: null, nonsense: 1 } } }), [
    /fields/,
  ])
  await t.rejects(tryPlugin(hash, { text: 'abc', algorithm: null }), {
    kind: 'refused',
    message: /properties\.algorithm/,
  })
  // Where any value can be meant, null is one.
  const kv = await tryPlugin(pluginOf('core.kv'), { operation: 'put', key: 'k', value: null })
  t.match(kv.outputs, { value: null, version: 1 })
})

t.test('a library is loaded when it is used first', async (t) => {
  const script = `
    import { registerHooks } from 'node:module'
    const seen = new Set()
    registerHooks({
      load(url, context, next) {
        const [, name] = /\\/node_modules\\/((?:@[^/]+\\/)?[^/]+)\\//.exec(url) ?? []
        if (name !== undefined) seen.add(name)
        return next(url, context)
      },
    })
    await import(${JSON.stringify(new URL('../../workers/workflows/catalogue.ts', import.meta.url).href)})
    console.log(JSON.stringify([...seen].sort()))`
  const told = execFileSync(process.execPath, ['--input-type=module', '-e', script], { encoding: 'utf8' })
  // Of schemas and of templates, which every flow has.
  t.same(JSON.parse(told), ['fastest-levenshtein', 'liquidjs', 'lru-cache', 'typebox'])
})

/** What the example gives its plugin. */
function propertiesOf({ manifest }: Plugin): Record<string, unknown> {
  const { plan } = readFlow(manifest.example, known)
  const tasks = tasksOf(plan!.tasks, plan!.errors, plan!.finally)
  return { ...[...tasks].find(({ type }) => type === manifest.id)!.properties }
}

const pluginOf = (id: string) => catalogue.find(({ manifest }) => manifest.id === id)!

/** Requests of a plugin go to a server of ours, whatever they are for. */
function redirected(port: number): Partial<TaskServices> {
  const { fetch: real } = trialServices()
  const there = (input: string | URL | Request) => {
    const url = new URL(input instanceof Request ? input.url : input)
    url.protocol = 'http:'
    url.hostname = '127.0.0.1'
    url.port = String(port)
    return url
  }
  return { fetch: ((input, init) => real(there(input), init)) as TaskServices['fetch'] }
}

/** Runs it against a port: what its example says, but for where. */
function run(id: string, port: number, signal?: AbortSignal) {
  const given = propertiesOf(pluginOf(id))
  const webhook = 'webhookUrl' in given ? { webhookUrl: `http://127.0.0.1:${port}/hook` } : {}
  const place = overTcp.includes(id) && {
    url: String(given.url).replace(/(localhost|127\.0\.0\.1):\d+/, `127.0.0.1:${port}`),
  }
  const once = id === 'http.request' ? { retries: 0 } : {}
  const properties = { ...given, ...webhook, ...once, ...place }
  const services = overTcp.includes(id) ? {} : redirected(port)
  return tryPlugin(pluginOf(id), properties, { services, ...(signal && { signal }) })
}

async function listening(server: Server): Promise<number> {
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  return (server.address() as AddressInfo).port
}

t.test('a peer that is not there is a failure that can be tried again', async (t) => {
  const server = createServer()
  const port = await listening(server)
  server.close()
  await once(server, 'close')
  for (const id of [...overHttp, ...overTcp]) {
    const told = await run(id, port).then(
      () => 'done',
      (error) => (isPassing(error) ? 'unavailable' : error.kind),
    )
    t.equal(told, 'unavailable', id)
  }
})

t.test('a peer that refuses is a failure that is final', async (t) => {
  const server = createHttpServer((_request, response) => {
    response.writeHead(403, { 'Content-Type': 'application/json' })
    response.end('{"message":"no"}')
  })
  const port = await listening(server)
  t.teardown(() => server.close())
  for (const id of overHttp.filter((each) => each !== 'http.request')) {
    await t.rejects(run(id, port), { name: 'TaskFailure', kind: 'refused' }, id)
  }
})

t.test('a cancelled task stops, and lets go of its peer', async (t) => {
  const sockets = new Set<Socket>()
  const server = createServer((socket) => {
    sockets.add(socket)
    socket.on('error', () => undefined)
    socket.on('close', () => sockets.delete(socket))
    socket.resume()
  })
  const port = await listening(server)
  t.teardown(() => server.close())
  for (const id of [...overHttp, ...overTcp]) {
    const stopping = new AbortController()
    const running = run(id, port, stopping.signal)
    const settled = running.then(
      () => 'succeeded',
      () => 'stopped',
    )
    for (let tries = 0; sockets.size === 0 && tries < 1_000; tries++) await delay(5)
    t.ok(sockets.size > 0, `${id} is connected`)
    stopping.abort(new Error('cancelled'))
    // The longest that is promised is a second; what does not listen would hang for half a minute.
    t.equal(await Promise.race([settled, delay(10_000).then(() => 'goes on')]), 'stopped', `${id} stops`)
    for (let tries = 0; sockets.size > 0 && tries < 500; tries++) await delay(5)
    t.equal(sockets.size, 0, `${id} has let go`)
  }
})
