import { mkdtempSync, readFileSync, rmSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { parse } from 'yaml'
import { startRestGateway } from '../../gateways/rest/server.ts'
import { newPlugin } from '../../ops/plugin-new.ts'
import { ensureSample } from '../../ops/sample-database.ts'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { findProgram, scriptAccount } from '../../workers/workflows/plugins/core/script-account.ts'
import { tryPlugin } from '../../workers/workflows/try-plugin.ts'
import { testPostgres } from '../support/servers.ts'
import { workflowStage } from './stage.ts'

t.setTimeout(120_000)
const folder = mkdtempSync(join(tmpdir(), 'busbar-own-'))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

t.test('the tables of this platform by HTTP, as the page about plugins has it', async (t) => {
  const { url } = await ensureSample((await testPostgres(t)).url)
  const gateway = await startRestGateway({
    host: '127.0.0.1',
    port: 0,
    connection: { connectionString: url },
    schema: 'public',
    defaultPageSize: 100,
    maxPageSize: 1000,
    maxExpandDepth: 5,
    maxBodyBytes: 1_048_576,
    corsOrigins: ['*'],
    jwt: {},
    onObservation: () => undefined,
  })
  t.teardown(() => gateway.stop())
  const page = readFileSync(join(import.meta.dirname, '../../workers/workflows/plugins/README.md'), 'utf8')
  const http = catalogue.find(({ manifest }) => manifest.id === 'http.request')!
  const properties = (task: string) => {
    const { tasks } = parse(/```yaml\n([\s\S]*?)```/.exec(page)![1]!)
    const found = tasks.find(({ name }: { name: string }) => name === task).properties
    return { ...found, url: found.url.replace('http://localhost:20000', gateway.url) }
  }
  const ask = async (given: unknown) => (await tryPlugin(http, given)).outputs as { body: unknown[]; pages: number }
  const rows = properties('rows')
  const whole = await ask({ ...rows, query: { ...rows.query, limit: 1000 } })
  const paged = await ask({ ...rows, query: { ...rows.query, limit: 10 } })
  t.ok(whole.body.length > 20)
  t.same(paged.body, whole.body)
  t.equal(paged.pages, Math.ceil(whole.body.length / 10) + 1)
  t.match(await ask(properties('row')), { status_code: 201, body: { name: 'Western' } })
})

t.test('plugins in the engine', async (t) => {
  const stage = await workflowStage(t, { worker: { scripts: true, ownPlugins: [folder] } })
  const { ask, save, execute, inStatus, until } = stage
  const run = async (yaml: string, status: string, inputs: Record<string, unknown> = {}) =>
    await inStatus(await execute(await save(yaml), inputs), status)

  t.test('the examples of what needs nobody else run as they stand', async (t) => {
    const python = findProgram('python3', scriptAccount()) !== null
    await save('name: other\ntasks:\n  - name: a\n    type: util.log\n    properties: { message: a }\n')
    for (const { manifest } of catalogue) {
      const { id, category, example } = manifest
      if (!['Core', 'Flow Control', 'Transforms', 'Utility'].includes(category)) continue
      if (id === 'script.python' && !python) continue
      // The engine of this test has a port of its own.
      const yaml = example.replace('http://localhost:8080/healthz', `${stage.url}/healthz`)
      const { execution } = await run(yaml, 'SUCCESS')
      t.equal(execution.status, 'SUCCESS', id)
    }
  })

  t.test('plugins are found by words and category, and counted', async (t) => {
    const ids = async (query: string) =>
      (await ask('GET', `/plugins?${query}`)).json.map(({ id }: { id: string }) => id)
    t.same(await ids('category=flow%20control'), [
      'flow.flatten',
      'flow.group',
      'flow.limit',
      'flow.lookup',
      'flow.map',
      'flow.merge',
      'flow.reduce',
      'flow.unique',
      'flow.while',
    ])
    t.same(await ids('q=python&category=Core'), ['script.python'])
    t.same(await ids('q=Server-Sent%20events'), ['http.request'])
    t.same(await ids('q=no%20such%20plugin'), [])
    t.equal((await ask('GET', '/plugins?colour=red')).status, 400)
    const all = await ids('q=data')
    const paged: string[] = []
    for (let path: string | undefined = '/plugins?q=data&limit=4'; path !== undefined; ) {
      const { json, headers } = await ask('GET', path)
      t.equal(headers.get('x-total-count'), String(all.length))
      paged.push(...json.map(({ id }: { id: string }) => id))
      path = /<\/api\/v1([^>]+)>; rel="next"/.exec(headers.get('link') ?? '')?.[1]
    }
    t.ok(all.length > 4)
    t.same(paged, all)
    t.equal((await ask('GET', '/plugins?limit=0')).status, 400)
    const { json: counts } = await ask('GET', '/plugins/categories')
    t.match(counts.slice(0, 2), [
      { name: 'Core', count: 14 },
      { name: 'Flow Control', count: 9 },
    ])
    const { json: one } = await ask('GET', '/plugins/http')
    t.match(one, { id: 'http.request', category: 'Core', example: /type: http.request/, needs: /server/i })
    t.same(one.inputSchema.required, ['url'])
    t.equal((await ask('GET', '/plugins/nothing.here')).status, 404)
  })

  t.test('a wrong property is refused when the flow is saved', async (t) => {
    const cases: readonly (readonly [string, string, RegExp])[] = [
      ['http.request', 'url: http://x\n      methd: GET', /methd.*method/],
      ['http.request', 'method: GET', /url/],
      ['http.request', 'url: http://x\n      responseType: pdf', /responseType/],
      ['script.shell', 'script: ls\n      language: perl', /language/],
      ['script.python', 'args: 7', /args/],
      ['core.kv', 'operation: swap', /operation/],
      ['flow.limit', 'items: []\n      count: -1', /count/],
      ['util.set', 'assert: [{ if: 1 }]', /assert/],
    ]
    for (const [type, properties, message] of cases) {
      const yamlContent = `name: wrong\ntasks:\n  - name: a\n    type: ${type}\n    properties:\n      ${properties}\n`
      const { json } = await ask('POST', '/flows/validate', { body: { yamlContent } })
      t.equal(json.valid, false, type)
      t.match(JSON.stringify(json.errors), message)
    }
  })

  t.test('values go from task to task, and the store outlives executions', async (t) => {
    const server = createServer((request, response) => {
      response.writeHead(200, { 'Content-Type': 'application/json' })
      response.end(JSON.stringify({ orders: [{ price: 2 }, { price: 40 }], path: request.url }))
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.teardown(() => server.close())
    const flow = `name: chain
tasks:
  - name: fetch
    type: http.request
    properties:
      url: http://127.0.0.1:${(server.address() as AddressInfo).port}/orders
      responseType: json
  - name: prices
    type: flow.map
    properties:
      items: '{{ outputs.fetch.body.orders }}'
      expression: price
  - name: sum
    type: script.shell
    properties:
      stdin: '{{ outputs.prices.items | json }}'
      language: node
      script: |
        const chunks = []
        for await (const chunk of process.stdin) chunks.push(chunk)
        const total = JSON.parse(Buffer.concat(chunks)).reduce((one, other) => one + other, 0)
        console.log(JSON.stringify({ total }))
  - name: runs
    type: core.kv
    properties: { operation: increment, key: chain-runs }
outputs:
  total: '{{ outputs.sum.outputs.total }}'
  runs: '{{ outputs.runs.value }}'
`
    const id = await save(flow)
    for (const runs of [1, 2]) {
      const { execution } = await inStatus(await execute(id), 'SUCCESS')
      t.same(JSON.parse(execution.outputs), { total: 42, runs })
    }
  })

  t.test('a cancelled script ends with its execution', async (t) => {
    const id = await save(`name: endless
tasks:
  - name: wait
    type: script.shell
    properties: { script: 'echo here I am; sleep 987605' }
`)
    const executionId = await execute(id)
    await until(async () =>
      (await ask('GET', `/executions/${executionId}/logs`)).text.includes('here I am') ? true : null,
    )
    t.equal((await ask('POST', `/executions/${executionId}/cancel`)).status, 200)
    const { execution } = await inStatus(executionId, 'CANCELLED')
    t.equal(execution.status, 'CANCELLED')
  })

  t.test("a plugin of the users' own is listed without a restart, and runs", async (t) => {
    t.equal((await ask('GET', '/plugins/acme.greet')).status, 404)
    newPlugin('acme.greet', folder)
    await until(async () => ((await ask('GET', '/plugins/acme.greet')).status === 200 ? true : null))
    t.match((await ask('GET', '/plugins?category=custom')).json, [{ id: 'acme.greet', category: 'Custom' }])
    t.match((await ask('GET', '/plugins/categories')).json.at(-1), { name: 'Custom', count: 1 })
    const { json: manifest } = await ask('GET', '/plugins/acme.greet')
    const { execution, tasks } = await run(manifest.example, 'SUCCESS')
    t.equal(execution.status, 'SUCCESS')
    t.match(JSON.stringify(tasks), /Hello, Ann!/)
    rmSync(join(folder, 'acme-greet.ts'))
    await until(async () => ((await ask('GET', '/plugins/acme.greet')).status === 404 ? true : null))
  })

  t.same(stage.faults, [])
})
