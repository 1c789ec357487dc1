import { createHmac, randomBytes } from 'node:crypto'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { readPage } from '../../bus/page.ts'
import { secretForms } from '../../workers/workflows/mask-forms.ts'
import { workflowStage } from './stage.ts'

t.setTimeout(120_000)

/** Unlike anything that a test or the platform writes by itself, with characters that every encoding treats in its own way. */
const secrets = {
  token: 'tk/9+Zq"w~ä<&>%-secret-token',
  password: "p@ss'w0rd with spaces?&=#-secret",
  hook: 'a-webhook-secret-of-some-length',
  later: 'another-token-that-came-later',
}

t.test('credentials', async (t) => {
  const secretKeys = [`test:${randomBytes(32).toString('base64')}`]
  const stage = await workflowStage(t, { secretKeys })
  const { save, execute, inStatus, until, bus, nats, faults } = stage
  const told: string[] = []
  const ask: typeof stage.ask = async (...asked) => {
    const answer = await stage.ask(...asked)
    told.push(answer.text, JSON.stringify([...answer.headers]))
    return answer
  }
  const create = async (body: Record<string, unknown>) => {
    const { status, json } = await ask('POST', '/credentials', { body })
    t.equal(status, 201, JSON.stringify(json))
    return json
  }
  const heard: { readonly authorization: string | undefined; readonly body: string }[] = []
  const server = createServer((request, response) => {
    const chunks: Buffer[] = []
    request.on('data', (chunk: Buffer) => chunks.push(chunk))
    request.on('end', () => {
      const { authorization } = request.headers
      const body = Buffer.concat(chunks).toString('utf8')
      heard.push({ authorization, body })
      const said = { authorization, body, base64: Buffer.from(body).toString('base64'), url: encodeURIComponent(body) }
      response.writeHead(request.url?.startsWith('/fail') ? 400 : 200, { 'content-type': 'application/json' })
      response.end(JSON.stringify(said))
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

  await t.test('are made, listed, changed and deleted, and never told', async (t) => {
    const made = await create({
      name: 'API',
      type: 'login',
      description: 'Of the shop',
      data: { user: 'shopkeeper', token: secrets.token },
    })
    t.match(made, {
      namespace: 'default',
      name: 'API',
      type: 'login',
      fields: ['user', 'token'],
      version: 1,
      createdBy: 'anonymous',
    })
    t.notOk('data' in made)
    await create({ name: 'PASSWORD', data: secrets.password })
    await create({ name: 'PASSWORD', namespace: 'team.b', data: secrets.later })
    const one = await ask('GET', `/credentials/${made.id}`)
    t.strictSame(one.json, made)
    const names = async (query: string) =>
      ((await ask('GET', `/credentials${query}`)).json as { name: string; namespace: string }[]).map(
        ({ name, namespace }) => `${namespace}/${name}`,
      )
    t.strictSame(await names(''), ['team.b/PASSWORD', 'default/PASSWORD', 'default/API'])
    t.strictSame(await names('?namespace=default'), ['default/PASSWORD', 'default/API'])
    t.strictSame(await names('?type=login'), ['default/API'])
    t.strictSame(await names('?q=shop'), ['default/API'])
    t.strictSame(await names('?q=pass&limit=1'), ['team.b/PASSWORD'])
    const first = await ask('GET', '/credentials?limit=2')
    t.equal(first.headers.get('x-total-count'), '3')
    const next = /<\/api\/v1(.*)>; rel="next"/.exec(first.headers.get('link')!)![1]!
    t.match((await ask('GET', next)).json, [{ name: 'API' }])
    const { json: same } = await ask('PUT', `/credentials/${made.id}`, { body: { description: 'Of the shop' } })
    t.strictSame(same, made, 'what changes nothing is no new version')
    const { json: described } = await ask('PUT', `/credentials/${made.id}`, { body: { description: 'Shop' } })
    t.match(described, { version: 2, description: 'Shop', fields: ['user', 'token'], createdAt: made.createdAt })
    const spare = await create({ name: 'SPARE', data: 'spare-text' })
    t.equal((await ask('PUT', `/credentials/${spare.id}`, { body: { name: 'API' } })).status, 409)
    t.equal(
      (await ask('PUT', `/credentials/${spare.id}`, { body: { name: 'MOVED', namespace: 'team.b' } })).status,
      200,
    )
    t.match(await names('?namespace=team.b'), ['team.b/MOVED', 'team.b/PASSWORD'])
    await create({ name: 'SPARE', data: 'the name is free' })
    t.equal((await ask('DELETE', `/credentials/${spare.id}`)).status, 204)
    for (const method of ['GET', 'PUT', 'DELETE']) {
      const { status, json } = await ask(method, `/credentials/${spare.id}`, method === 'PUT' ? { body: {} } : {})
      t.match([status, json], [404, { code: 'workflows/credential-not-found' }], method)
    }
    await create({ name: 'MOVED', namespace: 'team.b', data: 'free, too' })
  })

  await t.test('have one name in a namespace, however many ask for it at once', async (t) => {
    const body = { name: 'RACE', data: 'whoever comes first' }
    const answers = await Promise.all(Array.from({ length: 12 }, () => ask('POST', '/credentials', { body })))
    t.strictSame(answers.map(({ status }) => status).sort(), [201, ...Array.from({ length: 11 }, () => 409)])
    t.match(answers.find(({ status }) => status === 409)!.json, { code: 'workflows/credential-exists' })
  })

  await t.test('name what is wrong with them, and never quote it', async (t) => {
    const many = Object.fromEntries(Array.from({ length: 65 }, (_, index) => [`f${index}`, 'x']))
    const cases: readonly (readonly [unknown, string])[] = [
      [{ data: 'x' }, 'name'],
      [{ name: 'lower', data: 'x' }, 'name'],
      [{ name: '_A', data: 'x' }, 'name'],
      [{ name: 'A'.repeat(101), data: 'x' }, 'name'],
      [{ name: 7, data: 'x' }, 'name'],
      [{ name: 'A' }, 'data'],
      [{ name: 'A', data: '' }, 'data'],
      [{ name: 'A', data: {} }, 'data'],
      [{ name: 'A', data: ['x'] }, 'data'],
      [{ name: 'A', data: null }, 'data'],
      [{ name: 'A', data: { 'no-field': secrets.token } }, 'data'],
      [{ name: 'A', data: { field: { deep: secrets.token } } }, 'data.field'],
      [{ name: 'A', data: { pin: 1234 } }, 'data.pin'],
      [{ name: 'A', data: many }, 'data'],
      [{ name: 'A', data: secrets.token.repeat(2_000) }, 'data'],
      [{ name: 'A', data: 'x', namespace: 'a/b' }, 'namespace'],
      [{ name: 'A', data: 'x', type: 'a b' }, 'type'],
      [{ name: 'A', data: 'x', description: 'd'.repeat(1_001) }, 'description'],
      [{ name: 'A', data: 'x', secret: secrets.token }, 'secret'],
    ]
    for (const [body, field] of cases) {
      const { status, json } = await ask('POST', '/credentials', { body })
      t.match([status, json], [400, { details: { field, reason: /./ } }], JSON.stringify(body).slice(0, 60))
    }
    for (const query of ['?limit=0', '?cursor=!', '?name=A', '?namespace=a/b']) {
      t.equal((await ask('GET', `/credentials${query}`)).status, 400, query)
    }
    const answer = await fetch(`${stage.url}/api/v1/credentials`, {
      method: 'POST',
      headers: { 'Content-Type': 'application/json' },
      body: '{"name": "A", "data": not-to-be-told}',
    })
    t.equal(answer.status, 400)
    t.notMatch(await answer.text(), /not-to/)
  })

  await t.test('are opened in the worker alone, and masked in whatever a task says', async (t) => {
    const flow = await save(`name: use-them
tasks:
  - name: call
    type: http.request
    properties:
      url: ${url}/ok
      method: POST
      auth: { type: basic, username: '\${API.user}', password: '\${API.token}' }
      headers: { Content-Type: text/plain }
      body: 'here: \${PASSWORD}'
  - name: say
    type: util.log
    properties: { message: 'token \${API.token} and \${PASSWORD}, not $\${PASSWORD}' }
  - name: keep
    type: core.kv
    properties: { operation: put, key: found, value: { it: '\${PASSWORD}' } }
  - name: each
    type: core.foreach
    properties: { items: ['\${PASSWORD}', plain] }
    tasks:
      - { name: tell, type: util.log, properties: { message: 'got {{ item }}' } }
outputs: { body: '{{ outputs.call.body }}', said: '{{ outputs.say.message }}' }
`)
    const id = await execute(flow)
    const { execution } = await inStatus(id, 'SUCCESS', 'FAILED')
    t.equal(execution.status, 'SUCCESS', JSON.stringify(execution))
    const basic = Buffer.from(`shopkeeper:${secrets.token}`).toString('base64')
    t.strictSame(heard, [{ authorization: `Basic ${basic}`, body: `here: ${secrets.password}` }])
    const outputs = JSON.parse(execution.outputs)
    t.equal(outputs.body.body, 'here: ******')
    t.equal(outputs.said, 'token ****** and ******, not ${PASSWORD}')
    t.strictSame((await ask('GET', '/kv/default/found')).json.value, { it: '******' })
    for (const path of ['', '/tasks', '/logs', '/logs?format=text', '/events'])
      await ask('GET', `/executions/${id}${path}`)
  })

  await t.test('are masked in tasks that have the same value from elsewhere', async (t) => {
    const handed = 'a-word-that-is-handed-around'
    await create({ name: 'HANDED', type: 'token', data: handed })
    const flow = await save(`name: from-elsewhere
inputs:
  given: { type: string, default: none }
tasks:
  - { name: ask, type: util.log, properties: { message: '\${HANDED}' } }
  - { name: say, type: util.log, properties: { message: 'was given {{ inputs.given }}' } }
outputs: { said: '{{ outputs.say.message }}' }
`)
    const id = await execute(flow, { given: handed })
    const { execution } = await inStatus(id, 'SUCCESS', 'FAILED')
    t.match(execution, { status: 'SUCCESS', outputs: JSON.stringify({ said: 'was given ******' }) })
    const { json: lines } = await stage.ask('GET', `/executions/${id}/logs`)
    t.match(JSON.stringify(lines), /was given \*{6}"/)
    t.notMatch(JSON.stringify(lines), handed)
  })

  await t.test('are masked in errors, and a missing one fails the task by its name alone', async (t) => {
    const failing = async (name: string, properties: string, type = 'util.log') => {
      const flow = await save(`name: ${name}\ntasks: [{ name: go, type: ${type}, properties: ${properties} }]\n`)
      const id = await execute(flow)
      const { execution } = await inStatus(id, 'SUCCESS', 'FAILED')
      t.equal(execution.status, 'FAILED', name)
      await ask('GET', `/executions/${id}/logs`)
      await ask('GET', `/executions/${id}/events`)
      return (await ask('GET', `/executions/${id}`)).text
    }
    const loud = await failing(
      'loud',
      `{ url: '${url}/fail?q=\${PASSWORD}', method: POST, body: '\${API.token}' }`,
      'http.request',
    )
    t.match(loud, /400/)
    t.match(loud, /\*{6}/)
    t.match(
      await failing('missing', "{ message: '${NOBODY}' }"),
      /There is no credential NOBODY in the namespace default/,
    )
    t.match(
      await failing('elsewhere', "{ message: '${MOVED}' }"),
      /There is no credential MOVED/,
      'of another namespace',
    )
    t.match(await failing('field', "{ message: '${API.length}' }"), /The credential API has no field length/)
    t.match(
      await failing('of-text', "{ message: '${PASSWORD.length}' }"),
      /The credential PASSWORD has no field length/,
    )
  })

  await t.test('that are not there are told of when a flow is validated', async (t) => {
    const flow = (text: string, more = '') =>
      `name: f\nnamespace: team.b\n${more}tasks: [{ name: go, type: util.log, properties: { message: '${text}' } }]\n`
    const validated = async (yamlContent: string) =>
      (await ask('POST', '/flows/validate', { body: { yamlContent } })).json
    t.strictSame(await validated(flow('${PASSWORD}')), { valid: true, errors: [] })
    t.strictSame(await validated(flow('${API.token} $${NONE}', "variables: { v: '${PASSWORD}' }\n")), {
      valid: true,
      errors: [],
      warnings: [
        { path: 'go.properties', message: 'names the credential API, which the namespace team.b does not have' },
        {
          path: 'variables',
          message: 'names the credential PASSWORD, which is opened in the properties of tasks alone',
        },
      ],
    })
  })

  await t.test('are what they are now when a task runs', async (t) => {
    const flow = await save(
      `name: now\ntasks: [{ name: call, type: http.request, properties: { url: '${url}/ok', auth: { type: bearer, token: '\${CHANGING}' } } }]\n`,
    )
    const { id } = await create({ name: 'CHANGING', data: { token: 'the-first-of-them' } })
    const run = async () => {
      heard.length = 0
      await inStatus(await execute(flow), 'SUCCESS')
      return heard[0]?.authorization
    }
    t.equal(await run(), 'Bearer the-first-of-them', 'a single field is the credential')
    await ask('PUT', `/credentials/${id}`, { body: { data: secrets.later } })
    t.equal(await run(), `Bearer ${secrets.later}`)
  })

  await t.test('check the signatures of webhooks', async (t) => {
    const { id } = await create({ name: 'HOOK', data: { secret: secrets.hook, other: 'not this one' } })
    const flowId = await save('name: hooked\ntasks: [{ name: say, type: util.log, properties: { message: hi } }]\n')
    const key = 'a-key-of-this-webhook-1'
    const config = { key, secret: '${HOOK.secret}', signatureHeader: 'X-Hub-Signature-256', tolerance: 0 }
    t.equal((await ask('POST', '/triggers', { body: { flowId, type: 'webhook', name: 'hook', config } })).status, 201)
    const fire = async (secret: string) => {
      const signature = createHmac('sha256', secret).update('{"n":1}').digest('hex')
      const headers = { 'X-Hub-Signature-256': `sha256=${signature}` }
      return (await ask('POST', `/webhook/${key}`, { body: { n: 1 }, headers })).status
    }
    t.equal(await fire(secrets.hook), 200)
    t.equal(await fire('not the secret'), 401)
    await ask('DELETE', `/credentials/${id}`)
    t.equal(await fire(secrets.hook), 401, 'without the credential nothing is right')
  })

  await t.test('the key-value store is in templates, and tasks and people share it', async (t) => {
    await ask('PUT', '/kv/default/greeting', { body: { text: 'Hello' } })
    await ask('PUT', '/kv/default/a%20name.of%2Fits%20own', { body: '3' })
    const flow = await save(`name: keeper
tasks:
  - name: say
    type: util.log
    properties: { message: '{{ kv.greeting.text }} {{ kv["a name.of/its own"] | plus: 1 }}{{ kv.nothing }}' }
  - name: count
    type: core.kv
    properties: { operation: increment, key: runs }
outputs: { said: '{{ outputs.say.message }}', runs: '{{ kv.runs }}' }
`)
    await Promise.all(Array.from({ length: 10 }, async () => inStatus(await execute(flow), 'SUCCESS')))
    const { execution } = await inStatus(await execute(flow), 'SUCCESS')
    t.strictSame(JSON.parse(execution.outputs), { said: 'Hello 4', runs: 11 })
    t.equal((await ask('GET', '/kv/default/runs')).json.value, 11)
  })

  await t.test('are there when the bus was killed', async (t) => {
    const before = (await ask('GET', '/credentials')).json
    await nats.kill()
    await nats.restart()
    await until(async () => ((await ask('GET', '/credentials')).status === 200 ? true : null))
    t.strictSame((await ask('GET', '/credentials')).json, before)
    heard.length = 0
    const flow = await save(
      `name: after\ntasks: [{ name: call, type: http.request, properties: { url: '${url}/ok', auth: { type: bearer, token: '\${CHANGING}' } } }]\n`,
    )
    await inStatus(await execute(flow), 'SUCCESS')
    t.match(heard, [{ authorization: `Bearer ${secrets.later}` }])
  })

  await t.test('are nowhere to be found: in no message of any stream, in no answer', async (t) => {
    const texts = [...told]
    for await (const { config } of bus.manager.streams.list()) {
      for (let sequence = 0; ; ) {
        const page = await readPage(bus, config.name, { seq: sequence + 1, batch: 200 })
        if (page.length === 0) break
        for (const { seq, data, header } of page) {
          sequence = seq
          texts.push(Buffer.from(data).toString('utf8'), JSON.stringify([...(header as Iterable<unknown>)]))
        }
      }
    }
    t.ok(texts.length > 500, `${texts.length} texts`)
    for (const [name, secret] of Object.entries(secrets)) {
      // In the midst of base64 a fragment can be anything: the longer ones count.
      const forms = [...secretForms(secret)].filter((form) => form.length >= 12)
      const found = texts.find((text) => forms.some((form) => text.includes(form)))
      t.equal(found?.slice(0, 2_000), undefined, name)
    }
  })
  t.strictSame(faults, [])
})

t.test('without keys there are none', async (t) => {
  const { ask, save, execute, inStatus } = await workflowStage(t)
  const { status, json } = await ask('POST', '/credentials', { body: { name: 'A', data: 'x' } })
  t.match([status, json], [501, { code: 'workflows/secrets-off' }])
  t.strictSame((await ask('GET', '/credentials')).json, [])
  const flow = await save("name: f\ntasks: [{ name: go, type: util.log, properties: { message: '${A}' } }]\n")
  t.match(JSON.stringify(await inStatus(await execute(flow), 'FAILED')), /There is no credential A/)
})
