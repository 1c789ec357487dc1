import { createServer, type IncomingMessage } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { checkedInput } from '../../workers/workflows/checked-input.ts'
import type { TaskRun, TaskServices } from '../../workers/workflows/plugin.ts'

interface Seen {
  readonly line: string
  readonly headers: Readonly<Record<string, string | string[] | undefined>>
  readonly body: string
}

let answer: { status: number; body: string; headers?: Record<string, string> } = { status: 200, body: '{"ok":true}' }
let seen: Seen | null = null
const server = createServer(async (request, response) => {
  seen = { line: `${request.method} ${request.url}`, headers: request.headers, body: await textOf(request) }
  response.writeHead(answer.status, { 'Content-Type': 'application/json', ...answer.headers })
  response.end(answer.body)
})
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
t.teardown(() => server.close())
const here = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

async function textOf(request: IncomingMessage): Promise<string> {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  return Buffer.concat(chunks).toString('utf8')
}

async function call(id: string, properties: Record<string, unknown>, signal = new AbortController().signal) {
  const plugin = catalogue.find(({ manifest }) => manifest.id === id)!
  const input = checkedInput(plugin, { baseUrl: here, ...properties })
  const silent = () => undefined
  const given: TaskRun<unknown> = {
    input,
    signal,
    log: { debug: silent, info: silent, warn: silent, error: silent },
    idempotencyKey: 'e1/call',
    scratch: async () => '',
    services: { fetch: globalThis.fetch } as TaskServices,
    task: { executionId: 'e1', flowId: 'f', namespace: 'n', run: 'call', attempt: 1 },
  }
  seen = null
  const outputs = await plugin.run(given)
  return { outputs, request: seen as unknown as Seen }
}

const json = (value: unknown) => JSON.stringify(value)

/** Properties, and the request that the service's reference asks for. */
const cases: readonly (readonly [string, Record<string, unknown>, string, Record<string, string>, string])[] = [
  [
    'saas.github',
    { operation: 'createIssue', owner: 'o', repo: 'r', title: 'T', labels: ['bug'], token: 't' },
    'POST /repos/o/r/issues',
    { authorization: 'Bearer t', accept: 'application/vnd.github+json', 'x-github-api-version': '2022-11-28' },
    json({ title: 'T', labels: ['bug'] }),
  ],
  [
    'saas.github',
    { operation: 'listIssues', owner: 'o', repo: 'r', state: 'all', labels: ['a', 'b'], token: 't' },
    'GET /repos/o/r/issues?state=all&labels=a%2Cb',
    { authorization: 'Bearer t' },
    '',
  ],
  [
    'saas.github',
    {
      operation: 'dispatchWorkflow',
      owner: 'o',
      repo: 'r',
      workflow: 'b.yml',
      ref: 'main',
      inputs: { a: 1 },
      token: 't',
    },
    'POST /repos/o/r/actions/workflows/b.yml/dispatches',
    {},
    json({ ref: 'main', inputs: { a: 1 } }),
  ],
  [
    'saas.jira',
    {
      operation: 'createIssue',
      project: 'OPS',
      issueType: 'Task',
      summary: 'S',
      description: 'a\n\nb',
      email: 'e',
      token: 't',
    },
    'POST /rest/api/3/issue',
    { authorization: `Basic ${Buffer.from('e:t').toString('base64')}`, 'content-type': 'application/json' },
    json({
      fields: {
        project: { key: 'OPS' },
        issuetype: { name: 'Task' },
        summary: 'S',
        description: {
          type: 'doc',
          version: 1,
          content: ['a', 'b'].map((text) => ({ type: 'paragraph', content: [{ type: 'text', text }] })),
        },
      },
    }),
  ],
  [
    'saas.jira',
    { operation: 'transition', key: 'OPS-1', transitionId: '31', email: 'e', token: 't' },
    'POST /rest/api/3/issue/OPS-1/transitions',
    {},
    json({ transition: { id: '31' } }),
  ],
  [
    'saas.notion',
    { operation: 'createPage', databaseId: 'd', properties: { N: 1 }, token: 't' },
    'POST /v1/pages',
    { 'notion-version': '2022-06-28', authorization: 'Bearer t' },
    json({ parent: { database_id: 'd' }, properties: { N: 1 } }),
  ],
  [
    'saas.notion',
    { operation: 'queryDatabase', databaseId: 'd', page_size: 5, token: 't' },
    'POST /v1/databases/d/query',
    {},
    json({ page_size: 5 }),
  ],
  [
    'saas.stripe',
    { operation: 'createPaymentIntent', amount: 10, currency: 'eur', metadata: { order: '6' }, secretKey: 'k' },
    'POST /v1/payment_intents',
    { 'idempotency-key': 'e1/call', 'content-type': 'application/x-www-form-urlencoded', authorization: 'Bearer k' },
    'amount=10&currency=eur&metadata%5Border%5D=6',
  ],
  [
    'saas.hubspot',
    { operation: 'update', object: 'contacts', id: '5', properties: { a: 'b' }, token: 't' },
    'PATCH /crm/v3/objects/contacts/5',
    { authorization: 'Bearer t' },
    json({ properties: { a: 'b' } }),
  ],
  [
    'saas.linear',
    { operation: 'addComment', id: 'i', body: 'b', apiKey: 'k' },
    'POST /graphql',
    { authorization: 'k' },
    json({
      query: 'mutation($input: CommentCreateInput!) { commentCreate(input: $input) { success comment { id url } } }',
      variables: { input: { issueId: 'i', body: 'b' } },
    }),
  ],
  [
    'saas.gitlab',
    { operation: 'createIssue', project: 'g/p', title: 'T', labels: ['a', 'b'], token: 't' },
    'POST /projects/g%2Fp/issues',
    { 'private-token': 't' },
    json({ title: 'T', labels: 'a,b' }),
  ],
  [
    'saas.asana',
    { operation: 'addComment', task: '1', comment: 'c', token: 't' },
    'POST /tasks/1/stories',
    { authorization: 'Bearer t' },
    json({ data: { text: 'c' } }),
  ],
  [
    'saas.trello',
    { operation: 'createCard', idList: 'l', name: 'n m', apiKey: 'k', token: 't' },
    'POST /cards?name=n+m&idList=l&key=k&token=t',
    {},
    '',
  ],
  [
    'saas.airtable',
    { operation: 'createRecords', baseId: 'app', table: 'My Table', records: [{ fields: {} }], token: 't' },
    'POST /v0/app/My%20Table',
    { authorization: 'Bearer t' },
    json({ records: [{ fields: {} }] }),
  ],
  [
    'saas.googlesheets',
    {
      operation: 'append',
      spreadsheetId: 's',
      range: 'A!1:2',
      values: [[1]],
      valueInputOption: 'RAW',
      accessToken: 't',
    },
    'POST /v4/spreadsheets/s/values/A!1%3A2:append?valueInputOption=RAW',
    { authorization: 'Bearer t' },
    json({ range: 'A!1:2', majorDimension: 'ROWS', values: [[1]] }),
  ],
  [
    'saas.salesforce',
    { operation: 'query', soql: 'SELECT Id FROM A', accessToken: 't' },
    'GET /services/data/v62.0/query?q=SELECT+Id+FROM+A',
    { authorization: 'Bearer t' },
    '',
  ],
  [
    'saas.zendesk',
    { operation: 'createTicket', subject: 's', comment: 'c', public: false, email: 'e', token: 't' },
    'POST /api/v2/tickets.json',
    { authorization: `Basic ${Buffer.from('e/token:t').toString('base64')}`, 'idempotency-key': 'e1/call' },
    json({ ticket: { subject: 's', comment: { body: 'c', public: false } } }),
  ],
  [
    'saas.shopify',
    { operation: 'setInventory', location_id: 1, inventory_item_id: 2, available: 3, accessToken: 't' },
    'POST /admin/api/2025-10/inventory_levels/set.json',
    { 'x-shopify-access-token': 't' },
    json({ location_id: 1, inventory_item_id: 2, available: 3 }),
  ],
  [
    'saas.sendgrid',
    { operation: 'send', from: 'a@x', to: ['b@x'], subject: 's', text: 't', apiKey: 'k' },
    'POST /v3/mail/send',
    { authorization: 'Bearer k' },
    json({
      personalizations: [{ to: [{ email: 'b@x' }] }],
      from: { email: 'a@x' },
      subject: 's',
      content: [{ type: 'text/plain', value: 't' }],
    }),
  ],
  [
    'saas.twilio',
    { operation: 'sendMessage', from: '+1', to: '+2', body: 'hi there', accountSid: 'AC1', authToken: 't' },
    'POST /2010-04-01/Accounts/AC1/Messages.json',
    { authorization: `Basic ${Buffer.from('AC1:t').toString('base64')}` },
    'To=%2B2&From=%2B1&Body=hi+there',
  ],
  [
    'saas.pagerduty',
    { operation: 'trigger', summary: 's', source: 'h', severity: 'error', dedupKey: 'd', routingKey: 'r' },
    'POST /v2/enqueue',
    { 'content-type': 'application/json' },
    json({
      routing_key: 'r',
      event_action: 'trigger',
      dedup_key: 'd',
      payload: { summary: 's', source: 'h', severity: 'error' },
    }),
  ],
]

for (const [id, properties, line, headers, body] of cases) {
  t.test(`${id} ${properties.operation} sends what the reference asks for`, async (t) => {
    answer = { status: 200, body: '{"ok":true}' }
    const { outputs, request } = await call(id, properties)
    t.equal(request.line, line)
    t.match(request.headers, headers)
    t.equal(request.body, body)
    t.same(outputs, { status: 200, body: { ok: true } })
  })
}

const saas = catalogue.filter(({ manifest }) => manifest.category === 'SaaS')

t.test('there are seventeen, and each is tried above', async (t) => {
  t.equal(saas.length, 17)
  t.same(
    saas.map(({ manifest }) => manifest.id).filter((id) => !cases.some(([tried]) => tried === id)),
    [],
  )
})

t.test('failures', async (t) => {
  const issue = { operation: 'createIssue', owner: 'o', repo: 'r', title: 'T', token: 'secret-token' }
  t.test('a refusal is final and tells what the service says', async (t) => {
    answer = { status: 422, body: '{"message":"Validation Failed"}' }
    await t.rejects(call('saas.github', issue), {
      kind: 'refused',
      message: 'GitHub answered 422: {"message":"Validation Failed"}',
    })
  })
  for (const status of [429, 500, 503]) {
    t.test(`${status} can be tried again`, async (t) => {
      answer = { status, body: 'slow down' }
      await t.rejects(call('saas.github', issue), { message: /^GitHub answered /, ...{ kind: 'unavailable' } })
    })
  }
  t.test('a field that the operation needs is named', async (t) => {
    await t.rejects(call('saas.github', { ...issue, title: undefined }), {
      kind: 'refused',
      message: 'properties.title is needed for the operation createIssue',
    })
  })
  t.test('an unknown operation does not pass the schema', async (t) => {
    await t.rejects(call('saas.github', { ...issue, operation: 'nonsense' }))
  })
  t.test('a cancelled call ends', async (t) => {
    const controller = new AbortController()
    const silent = createServer(() => undefined)
    await new Promise<void>((resolve) => silent.listen(0, '127.0.0.1', resolve))
    t.teardown(() => silent.close())
    const baseUrl = `http://127.0.0.1:${(silent.address() as AddressInfo).port}`
    const calling = call('saas.github', { ...issue, baseUrl }, controller.signal)
    controller.abort(new Error('cancelled'))
    await t.rejects(calling, { message: 'cancelled' })
  })
})
