import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { connectBus } from '../../bus/connect.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { startWorkflowGateway } from '../../gateways/workflows/server.ts'
import { startProjector } from '../../projections/projector.ts'
import { workflowProjection } from '../../projections/workflows/projection.ts'
import { startWorkflowWorker } from '../../workers/workflows/worker.ts'
import { testNats, testPostgres } from '../support/servers.ts'

const uuid = /^[0-9a-f-]{36}$/
const yaml = (name: string, message = 'Hello') =>
  `name: ${name}\ninputs: { who: { type: string, default: you } }\ntasks:\n  - name: greet\n    type: util.log\n    properties: { message: '${message} {{ inputs.who }}' }\noutputs: { said: '{{ outputs.greet.message }}' }\n`
const slow = 'name: slow\ntasks: [{ name: pause, type: core.wait, properties: { duration: 1h } }]\n'

t.test('flows over HTTP', async (t) => {
  const [nats, postgres] = await Promise.all([testNats(t), testPostgres(t)])
  const bus = await connectBus({ url: nats.url, name: 'test' })
  await reconcileStreams(bus, streamSpecs())
  const faults: unknown[] = []
  const onObservation = (observation: { readonly type: string; readonly error?: unknown }) => {
    if (observation.type === 'request-fault') faults.push(observation.error)
  }
  const connection = { connectionString: postgres.url }
  const options = { host: '127.0.0.1', port: 0, connection, poolSize: 4, statementTimeoutMs: 10_000 }
  const start = () =>
    startWorkflowGateway({ ...options, bus, maxBodyBytes: 10_485_760, corsOrigins: ['*'], onObservation })
  const gateway = await start()
  const other = await start()
  const worker = await startWorkflowWorker({ bus, egress: { allow: ['loopback'], deny: [] }, onObservation })
  const projected = Promise.withResolvers<void>()
  const projector = startProjector({
    bus,
    connection,
    projection: workflowProjection,
    onObservation: ({ type }) => {
      if (type === 'projection-running') projected.resolve()
    },
  })
  await projected.promise
  t.teardown(async () => {
    await gateway.stop()
    await other.stop()
    await worker.stop()
    await projector.stop()
    await bus.close()
  })

  interface Ask {
    readonly body?: unknown
    readonly type?: string
    readonly headers?: Readonly<Record<string, string>>
    readonly at?: string
  }
  const ask = async (method: string, path: string, { body, type, headers, at = gateway.url }: Ask = {}) => {
    const sent = body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }
    const content = body === undefined ? {} : { 'Content-Type': type ?? 'application/json' }
    const response = await fetch(`${at}${path}`, { method, headers: { ...content, ...headers }, ...sent })
    const text = await response.text()
    const json = response.headers.get('content-type')?.includes('json') && text !== '' ? JSON.parse(text) : null
    return { status: response.status, headers: response.headers, text, json }
  }
  const api = (path: string) => `/api/v1${path}`
  const create = async (name: string, namespace = 'default') => {
    const { status, json } = await ask('POST', api('/flows'), { body: { name, namespace, yamlContent: yaml(name) } })
    t.equal(status, 201)
    return json.id as string
  }

  /** Manifests come over the bus. */
  const known = async (at: string) => {
    for (let tries = 0; tries < 500; tries++) {
      const { json } = await ask('GET', api('/plugins/flow.while'), { at })
      if (json.id !== undefined) return
      await sleep(10)
    }
    throw new Error('the gateway does not hear of plugins')
  }
  await Promise.all([known(gateway.url), known(other.url)])

  await t.test('plugins are listed, searched, counted and found under other names', async (t) => {
    const all = await ask('GET', api('/plugins'))
    t.equal(all.headers.get('x-total-count'), String(all.json.length))
    t.match((await ask('GET', api('/plugins?q=runs+CONDITION&category=core'))).json, [{ id: 'core.if' }])
    for (const [word, id] of [
      ['docker', 'script.shell'],
      ['kafka', 'mqtt.publish'],
      ['git.clone', 'ftp.transfer'],
    ] as const)
      t.ok(
        (await ask('GET', api(`/plugins?q=${word}`))).json.some((each: { id: string }) => each.id === id),
        word,
      )
    t.strictSame((await ask('GET', api('/plugins?category=nothing'))).json, [])
    const categories = (await ask('GET', api('/plugins/categories'))).json
    t.match(categories[0], { name: 'Core' })
    t.equal(categories.length, 8)
    for (const id of ['util.log', 'log', 'LOG'])
      t.match((await ask('GET', api(`/plugins/${id}`))).json, { id: 'util.log' })
    t.strictSame((await ask('GET', api('/plugins/core.foreach'))).json.inputSchema.required, ['items'])
    t.match(await ask('GET', api('/plugins/none.such')), { status: 404, json: { code: 'workflows/plugin-not-found' } })
  })

  await t.test('a flow is created, read, changed, listed and deleted', async (t) => {
    const created = await ask('POST', api('/flows'), {
      body: { name: 'hello', namespace: 'team.a', yamlContent: yaml('hello') },
    })
    t.match(created, {
      status: 201,
      json: { id: uuid, name: 'hello', namespace: 'team.a', revision: 1, enabled: true, yamlContent: yaml('hello') },
    })
    const { id, createdAt } = created.json
    t.equal(created.headers.get('location'), `/api/v1/flows/${id}`)
    t.strictSame(
      (await ask('GET', api(`/flows/${id}`), { at: other.url })).json,
      created.json,
      'at another gateway, too',
    )
    const changed = await ask('PUT', api(`/flows/${id}`), { body: { yamlContent: yaml('hello', 'Hi') } })
    t.match(changed, { status: 200, json: { id, revision: 2, namespace: 'team.a', createdAt } })
    t.match((await ask('PUT', api(`/flows/${id}`), { body: { yamlContent: yaml('hello', 'Hi') } })).json, {
      revision: 2,
    })
    const listed = await ask('GET', api('/flows?namespace=team.a&q=Hi'))
    t.strictSame(listed.json, [changed.json], 'the list says what the flow says')
    t.equal(listed.headers.get('x-total-count'), '1')
    t.equal((await ask('DELETE', api(`/flows/${id}`))).status, 204)
    for (const [method, path] of [
      ['GET', ''],
      ['DELETE', ''],
      ['PUT', ''],
      ['POST', '/execute'],
      ['GET', '/export'],
      ['GET', '/revisions'],
      ['POST', '/enable'],
    ]) {
      const body = method === 'PUT' ? { body: { name: 'x' } } : {}
      const gone = await ask(method!, api(`/flows/${id}${path}`), body)
      t.match(gone, { status: 404, json: { code: 'workflows/flow-not-found' } }, `${method} ${path}`)
    }
    t.strictSame((await ask('GET', api('/flows?namespace=team.a'))).json, [])
  })

  await t.test('lists have pages, newest first', async (t) => {
    const ids = []
    for (const name of ['p1', 'p2', 'p3']) ids.unshift(await create(name, 'pages'))
    const first = await ask('GET', api('/flows?namespace=pages&limit=2'))
    t.equal(first.headers.get('x-total-count'), '3')
    const next = /^<([^>]+)>; rel="next"$/.exec(first.headers.get('link') ?? '')?.[1]
    const second = await ask('GET', next!)
    t.strictSame(
      [...first.json, ...second.json].map(({ id }) => id),
      ids,
    )
    t.equal(second.headers.get('link'), null)
    t.match(await ask('GET', api('/flows?limit=0')), { status: 400, json: { details: { field: 'limit' } } })
    t.match(await ask('GET', api('/flows?page=2')), { status: 400, json: { details: { field: 'page' } } })
  })

  await t.test('a namespace has a name once, whoever asks at the same time', async (t) => {
    const body = { name: 'once', namespace: 'names', yamlContent: yaml('once') }
    const answers = await Promise.all(
      Array.from({ length: 12 }, (_, index) =>
        ask('POST', api('/flows'), { body, at: index % 2 === 0 ? gateway.url : other.url }),
      ),
    )
    t.equal(answers.filter(({ status }) => status === 201).length, 1)
    t.equal(answers.filter(({ status, json }) => status === 409 && json.code === 'workflows/flow-exists').length, 11)
    const { id } = answers.find(({ status }) => status === 201)!.json
    const twin = await create('twin', 'names')
    t.equal(await create('once', 'elsewhere').then((found) => typeof found), 'string', 'another namespace has its own')
    t.equal((await ask('PUT', api(`/flows/${twin}`), { body: { name: 'once' } })).status, 409)
    t.match(await ask('PUT', api(`/flows/${id}`), { body: { name: 'first' } }), {
      status: 200,
      json: { name: 'first' },
    })
    t.match(await ask('PUT', api(`/flows/${twin}`), { body: { name: 'once' } }), {
      status: 200,
      json: { name: 'once' },
    })
    await ask('DELETE', api(`/flows/${twin}`))
    await create('once', 'names')
  })

  await t.test('a text with mistakes is refused with every one of them', async (t) => {
    const yamlContent = 'name: bad\ntasks:\n  - { name: a, type: util.lgo }\n  - { name: a, type: log }\n'
    const errors = [
      { path: 'tasks[0].type', line: 3, column: 22 },
      { path: 'tasks[1]', line: 4, column: 5 },
      { path: 'tasks[1].name', line: 4, column: 13 },
    ]
    const told = await ask('POST', api('/flows/validate'), { body: { yamlContent } })
    t.match(told, { status: 200, json: { valid: false, errors } })
    t.equal(told.json.errors.length, 3)
    const valid = await ask('POST', api('/flows/validate'), { body: yaml('x'), type: 'application/yaml' })
    t.strictSame(valid.json, { valid: true, errors: [] })
    const refused = await ask('POST', api('/flows'), { body: { name: 'bad', yamlContent } })
    t.match(refused, { status: 400, json: { code: 'workflows/invalid-flow', details: { errors } } })
    for (const [body, field] of [
      [{}, 'yamlContent'],
      [{ yamlContent: 5 }, 'yamlContent'],
      [{ yamlContent: yaml('x'), namespace: 'a/b' }, 'namespace'],
      [{ yamlContent: yaml('x'), name: '' }, 'name'],
      [{ yamlContent: yaml('x'), yaml: '' }, 'yaml'],
    ] as const) {
      t.match(await ask('POST', api('/flows'), { body }), { status: 400, json: { details: { field } } })
    }
  })

  await t.test('revisions are kept, compared and restored', async (t) => {
    const id = await create('story')
    await ask('PUT', api(`/flows/${id}`), { body: { yamlContent: yaml('story', 'Bye') } })
    const revisions = (await ask('GET', api(`/flows/${id}/revisions`))).json
    t.match(revisions, [{ revision: 2 }, { revision: 1, yamlContent: yaml('story') }])
    t.match((await ask('GET', api(`/flows/${id}/revisions/1`))).json, { revision: 1, yamlContent: yaml('story') })
    const diff = await ask('GET', api(`/flows/${id}/revisions/2/diff`))
    t.match(diff.headers.get('content-type'), /^text\/x-diff/)
    t.match(diff.text, /^--- revision 1\n\+\+\+ revision 2\n@@ /)
    t.match(diff.text, /\n-.*Hello.*\n\+.*Bye/)
    t.match((await ask('GET', api(`/flows/${id}/revisions/1/diff?from=2`))).text, /\n-.*Bye.*\n\+.*Hello/)
    t.match((await ask('GET', api(`/flows/${id}/revisions/1/diff`))).text, /\+name: story/)
    const restored = await ask('POST', api(`/flows/${id}/revisions/1/restore`))
    t.match(restored, { status: 200, json: { revision: 3, yamlContent: yaml('story') } })
    t.match((await ask('GET', api(`/flows/${id}/revisions/3`))).json, { restoredFrom: 1 })
    t.match(await ask('GET', api(`/flows/${id}/revisions/9`)), { status: 404 })
    const large = `${yaml('story')}# ${'x'.repeat(20_000)}\n`
    await ask('PUT', api(`/flows/${id}`), { body: large, type: 'application/yaml' })
    const page = await ask('GET', api(`/flows/${id}/revisions?limit=3`))
    const told = { yamlContent: null, truncated: true, sizeBytes: large.length }
    t.match(page.json, [{ revision: 4, ...told }, { revision: 3, yamlContent: yaml('story') }, { revision: 2 }])
    t.equal(page.headers.get('x-total-count'), '4')
    const [, next] = /<([^>]+)>; rel="next"/.exec(page.headers.get('link')!)!
    t.match((await ask('GET', next!)).json, [{ revision: 1 }])
    t.match((await ask('GET', api('/flows?q=story'))).json, [{ id, ...told }])
    t.equal((await ask('GET', api(`/flows/${id}`))).json.yamlContent, large)
    t.equal((await ask('GET', api(`/flows/${id}/revisions/4`))).json.yamlContent, large)
    t.match(await ask('GET', api(`/flows/${id}/revisions/x`)), { status: 400, json: { details: { field: 'rev' } } })
  })

  await t.test('what is exported can be imported', async (t) => {
    const id = await create('travels', 'from')
    const { json: exported } = await ask('GET', api(`/flows/${id}/export`))
    t.match(exported, { version: 1, name: 'travels', namespace: 'from', yamlContent: yaml('travels') })
    t.match(await ask('POST', api('/flows/import'), { body: exported }), { status: 409 })
    const moved = await ask('POST', api('/flows/import'), { body: { ...exported, namespace: 'to' } })
    t.match(moved, { status: 201, json: { namespace: 'to', revision: 1 } })
    const again = { ...exported, yamlContent: yaml('travels', 'Later') }
    const over = await ask('POST', api('/flows/import?overwrite=true'), { body: again })
    t.match(over, { status: 200, json: { id, revision: 2 } })
  })

  await t.test('a flow is executed, with inputs, once for a key, and not while it is disabled', async (t) => {
    const id = await create('run')
    const accepted = await ask('POST', api(`/flows/${id}/execute`))
    t.match(accepted, { status: 200, json: { executionId: uuid, status: 'QUEUED', tasksTotal: 1 } })
    const body = { inputs: { who: 'Ann' } }
    const done = await ask('POST', api(`/flows/${id}/execute?wait=30`), { body })
    t.match(done.json, { status: 'SUCCESS', outputs: '{"said":"Hello Ann"}', error: null })
    const key = { headers: { 'Idempotency-Key': 'order-7' } }
    const keyed = await Promise.all([1, 2, 3].map(() => ask('POST', api(`/flows/${id}/execute`), { body, ...key })))
    t.equal(new Set(keyed.map(({ json }) => json.executionId)).size, 1)
    const own = await ask('POST', api(`/flows/${id}/execute`), { body: { executionId: 'my-own' } })
    t.match(own.json, { executionId: 'my-own' })
    const foreign = await create('another')
    t.match(await ask('POST', api(`/flows/${foreign}/execute`), { body: { executionId: 'my-own' } }), { status: 409 })
    for (const [wrong, expected] of [
      [{ body: { inputs: { whom: 'x' } } }, { code: 'workflows/invalid-input' }],
      [{ body: { inputs: [] } }, { details: { field: 'inputs' } }],
      [{ body: { input: {} } }, { details: { field: 'input' } }],
      [{ body: { executionId: 'a b' } }, { details: { field: 'executionId' } }],
      [{ headers: { 'Idempotency-Key': 'ä' } }, { details: { field: 'Idempotency-Key' } }],
    ] as const) {
      t.match(await ask('POST', api(`/flows/${id}/execute`), wrong), { status: 400, json: expected })
    }
    t.match((await ask('POST', api(`/flows/${id}/disable`))).json, { enabled: false, revision: 1 })
    t.match((await ask('GET', api('/flows?enabled=false'))).json, [{ id, enabled: false }])
    t.match(await ask('POST', api(`/flows/${id}/execute`)), { status: 409, json: { code: 'workflows/flow-disabled' } })
    t.match((await ask('POST', api(`/flows/${id}/enable`))).json, { enabled: true })
    t.match(await ask('POST', api(`/flows/${id}/execute`)), { status: 200 })
  })

  await t.test('who waits for what takes longer is told that it was accepted', async (t) => {
    const { json } = await ask('POST', api('/flows'), { body: slow, type: 'application/yaml' })
    const accepted = await ask('POST', api(`/flows/${json.id}/execute?wait=1`))
    t.match(accepted, { status: 200, json: { executionId: uuid, status: 'QUEUED', tasksTotal: 1 } })
    t.match(await ask('POST', api(`/flows/${json.id}/execute?wait=999`)), { status: 400 })
  })

  await t.test('the flow language has a JSON Schema, and health and metrics have two places', async (t) => {
    const schema = await ask('GET', api('/flows/schema.json'))
    t.match(schema.json, { $schema: /2020-12/, $defs: { 'util.log': { properties: { type: { const: 'util.log' } } } } })
    for (const prefix of ['', '/api/v1']) {
      t.match(await ask('GET', `${prefix}/healthz`), { status: 200, json: { status: 'ok' } })
      t.match(await ask('GET', `${prefix}/readyz`), {
        status: 200,
        json: { status: 'ready', database: 'ok', bus: 'ok', projection: 'ok' },
      })
      const { text, headers } = await ask('GET', `${prefix}/metrics`)
      t.match(headers.get('content-type'), /^text\/plain; version=0\.0\.4/)
      t.match(text, /^busbar_workflows_executions\{status="SUCCESS"\} [1-9]/m)
      t.match(text, /^busbar_workflows_tasks\{status="\w+"\} [1-9]/m)
      t.match(text, /^busbar_workflows_consumer_lag\{stream="COMMANDS",consumer="[\w-]+"\} \d/m)
      for (const line of [
        /^# TYPE busbar_workflows_executions_total counter$/m,
        /^busbar_workflows_executions_total\{status="SUCCESS"\} [1-9]/m,
        /^busbar_workflows_tasks_total\{type="util.log",status="SUCCESS"\} [1-9]/m,
        /^# TYPE busbar_workflows_execution_duration_seconds histogram$/m,
        /^busbar_workflows_execution_duration_seconds_bucket\{status="SUCCESS",le="0.01"\} \d/m,
        /^busbar_workflows_execution_duration_seconds_bucket\{status="SUCCESS",le="\+Inf"\} [1-9]/m,
        /^busbar_workflows_task_duration_seconds_count\{type="util.log"\} [1-9]/m,
        /^busbar_workflows_task_duration_seconds_sum\{type="util.log"\} [\d.e-]+$/m,
        /^busbar_workflows_projection_lag_messages\{stream="EVT_EXECUTIONS"\} \d+$/m,
        /^busbar_workflows_projection_lag_seconds\{stream="EVT_WORKFLOWS"\} [\d.]+$/m,
        /^busbar_dead_letters 0$/m,
      ]) {
        t.match(text, line)
      }
      t.match(text, /^process_resident_memory_bytes \d+$/m)
    }
    t.match(await ask('PATCH', api('/flows')), { status: 405 })
  })

  await t.test('it is not ready without its database, and is again with it', async (t) => {
    await postgres.kill()
    // A connection's own server may answer once more.
    const isAway = async () => ((await ask('GET', '/readyz')).json as { database: string }).database === 'away'
    while (!(await isAway())) await sleep(10)
    t.match(await ask('GET', '/readyz'), { status: 503, json: { status: 'not-ready', database: 'away', bus: 'ok' } })
    t.match(await ask('GET', '/healthz'), { status: 200 })
    await postgres.restart()
    t.match(await ask('GET', '/readyz'), { status: 200 })
  })

  t.strictSame(faults, [], 'nothing of this is a fault of ours')
})
