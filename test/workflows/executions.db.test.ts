import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import WebSocket from 'ws'
import { publish } from '../../bus/publish.ts'
import { logSubject } from '../../bus/subject.ts'
import { workflowStage } from './stage.ts'

const stage = await workflowStage(t)
const { ask, save, execute, inStatus, until, faults, url, bus } = stage

const ended = ['SUCCESS', 'FAILED', 'CANCELLED', 'TIMED_OUT'] as const

const three = await save(`name: three
inputs:
  who: { type: string, default: you }
tasks:
  - name: first
    type: util.log
    properties: { message: 'Hello {{ inputs.who }}' }
  - name: second
    type: util.log
    properties: { message: 'I said {{ outputs["first"]["message"] }}', level: warn }
outputs:
  said: '{{ outputs.second.message }}'
`)

t.test('an execution is accepted, runs, and is told as the specification writes it', async (t) => {
  const { status, json } = await ask('POST', `/flows/${three}/execute`)
  t.match({ status, json }, { status: 200, json: { status: 'QUEUED', tasksTotal: 2 } })
  const { execution, tasks } = await inStatus(json.executionId, ...ended)
  t.match(execution, { id: json.executionId, flowId: three, status: 'SUCCESS', tasksTotal: 2, tasksExecuted: 2 })
  t.match(execution.startedAt, /^\d{4}-\d\d-\d\dT[\d:.]+Z$/)
  t.type(execution.durationMs, 'number')
  t.same(JSON.parse(execution.outputs), { said: 'I said Hello you' })
  t.match(
    tasks.map(({ taskName, taskType, status, outputs }: Record<string, string>) => ({
      taskName,
      taskType,
      status,
      outputs: JSON.parse(outputs!),
    })),
    [
      { taskName: 'first', taskType: 'util.log', status: 'SUCCESS', outputs: { message: 'Hello you' } },
      { taskName: 'second', status: 'SUCCESS', outputs: { message: 'I said Hello you' } },
    ],
  )
})

t.test('lists are filtered, paged and counted', async (t) => {
  const ids = [await execute(three), await execute(three)]
  for (const id of ids) await inStatus(id, 'SUCCESS')
  const { json, headers } = await ask('GET', `/executions?flowId=${three}&status=SUCCESS&limit=2`)
  t.same(
    json.map(({ id }: { id: string }) => id),
    ids.toReversed(),
    'newest first',
  )
  t.equal(headers.get('x-total-count'), '3')
  const next = /<\/api\/v1([^>]+)>; rel="next"/.exec(headers.get('link')!)![1]!
  t.equal((await ask('GET', next)).json.length, 1)
  t.same((await ask('GET', '/executions?status=FAILED')).json, [])
  for (const [query = '', field = ''] of [
    ['status=DONE', 'status'],
    ['limit=0', 'limit'],
    ['cursor=x', 'cursor'],
    ['from=yesterday', 'from'],
    ['nonsense=1', 'nonsense'],
    ['limit=1&limit=2', 'limit'],
  ]) {
    const { status, json } = await ask('GET', `/executions?${query}`)
    t.match({ status, json }, { status: 400, json: { details: { field } } }, query)
  }
  t.match(await ask('GET', '/executions/none'), { status: 404, json: { code: 'workflows/execution-not-found' } })
})

t.test('the history is told, and the state at any point of it', async (t) => {
  const id = await execute(three)
  await inStatus(id, 'SUCCESS')
  const { json: events } = await ask('GET', `/executions/${id}/events`)
  t.equal(events[0].facts[0].type, 'executions.execution.created')
  t.equal(events.at(-1).facts.at(-1).type, 'executions.execution.ended')
  t.match((await ask('GET', `/executions/${id}/events?at=${events[0].sequence}`)).json, { status: 'QUEUED' })
  t.match((await ask('GET', `/executions/${id}/events?at=${events.at(-1).sequence}`)).json, { status: 'SUCCESS' })
  t.equal((await ask('GET', `/executions/none/events`)).status, 404)
})

t.test('logs', async (t) => {
  const id = await execute(three, { who: 'Ann' })
  await inStatus(id, 'SUCCESS')
  const lines = await until(async () => {
    const { json } = await ask('GET', `/executions/${id}/logs`)
    return json.length === 2 ? json : null
  })
  t.match(lines, [
    { level: 'info', taskName: 'first', executionId: id, message: 'Hello Ann' },
    { level: 'warn', taskName: 'second', message: 'I said Hello Ann' },
  ])
  t.equal((await ask('GET', `/executions/${id}/logs?level=warn`)).json.length, 1)
  const { text, headers } = await ask('GET', `/executions/${id}/logs?format=text`)
  t.match(text, /^\S+Z INFO {2}\[first\] Hello Ann\n\S+Z WARN {2}\[second\] I said Hello Ann\n$/)
  t.match(headers.get('content-disposition'), /attachment; filename="[0-9a-f-]+\.log"/)
  t.equal((await ask('GET', `/executions/${id}/logs?level=loud`)).status, 400)
  t.equal((await ask('GET', '/executions/none/logs')).status, 404)
  t.same((await ask('GET', `/executions/${id}/logs?level=error`)).json, [])

  t.test('more than fits into a page, piece by piece', async (t) => {
    const line = { ...lines[0], level: 'error' }
    for (let batch = 0; batch < 40; batch++) {
      const said = ['a', 'b'].map((word) => ({ ...line, message: `${word} ${batch}` }))
      await publish(bus, { subject: logSubject('execution', id), body: JSON.stringify({ lines: said }) })
    }
    const { json, headers } = await ask('GET', `/executions/${id}/logs?level=error`)
    t.equal(json.length, 80)
    t.match([json[0], json[79]], [{ message: 'a 0' }, { message: 'b 39' }])
    t.equal(headers.get('content-length'), null, 'nothing waits until all is there')
    t.equal((await ask('GET', `/executions/${id}/logs?format=text&level=error`)).text.split('\n').length, 81)
  })

  t.test('over a WebSocket what there is, what comes, and the end', async (t) => {
    const flow = await save(`name: talk
tasks:
  - name: before
    type: util.log
    properties: { message: before }
  - name: gate
    type: core.approval
  - name: after
    type: util.log
    properties: { message: after }
`)
    const talking = await execute(flow)
    await inStatus(talking, 'RUNNING')
    const socket = new WebSocket(`${url.replace('http', 'ws')}/api/v1/executions/${talking}/logs`)
    const heard: string[] = []
    const closed = new Promise<number>((resolve) => socket.on('close', resolve))
    socket.on('message', (data) => heard.push(JSON.parse(String(data)).message))
    await until(async () => (heard.length === 1 ? true : null))
    const gates = await until(async () => {
      const { json } = await ask('GET', `/approvals?status=PENDING&executionId=${talking}`)
      return json.length === 1 ? json : null
    })
    await ask('POST', `/approvals/${gates[0].id}/approve`, { body: {} })
    t.equal(await closed, 1000)
    t.same(heard, ['before', 'after'])
  })

  t.test('as server-sent events, to the end', async (t) => {
    const response = await fetch(`${url}/api/v1/executions/${id}/logs`, { headers: { Accept: 'text/event-stream' } })
    const text = await response.text()
    t.match(text, /event: log\ndata: \{"timestamp".*"message":"Hello Ann"\}\n/)
    t.match(text, /event: end\ndata: \{\}\n\n$/)
  })
})

/** A server that answers when it is told to: what a running task waits for. */
async function slowServer(t: Pick<Tap, 'teardown'>) {
  let aborted = 0
  const server = createServer((request) => {
    request.socket.on('close', () => {
      aborted++
    })
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.closeAllConnections())
  t.teardown(() => server.close())
  return { address: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, aborted: () => aborted }
}

t.test('cancelling aborts what runs', async (t) => {
  const server = await slowServer(t)
  const flow = await save(`name: hang
inputs: { url: { type: string, required: true } }
tasks:
  - name: call
    type: graphql.query
    properties: { url: '{{ inputs.url }}', query: '{ a }' }
`)
  const id = await execute(flow, { url: server.address })
  await inStatus(id, 'RUNNING')
  const cancelled = await ask('POST', `/executions/${id}/cancel`)
  t.match(cancelled, { status: 200, json: { executionId: id, status: 'CANCELLED' } })
  const { tasks } = (await ask('GET', `/executions/${id}`)).json
  t.match(tasks, [{ taskName: 'call', status: 'CANCELLED' }])
  await until(async () => (server.aborted() > 0 ? true : null))
  t.match(await ask('POST', `/executions/${id}/cancel`), { status: 409, json: { code: 'workflows/execution-ended' } })
  t.equal((await ask('POST', '/executions/none/cancel')).status, 404)
})

t.test('a cancelled flow tidies up, a killed one does not', async (t) => {
  const flow = await save(`name: tidy
tasks:
  - name: wait
    type: core.wait
    properties: { duration: 1h }
finally:
  - name: clean
    type: util.log
    properties: { message: clean }
`)
  const id = await execute(flow)
  await inStatus(id, 'RUNNING')
  t.equal((await ask('POST', `/executions/${id}/cancel`)).json.status, 'RUNNING')
  const { tasks } = await inStatus(id, 'CANCELLED')
  t.match(tasks, [
    { taskName: 'wait', status: 'CANCELLED' },
    { taskName: 'clean', status: 'SUCCESS' },
  ])
  const other = await execute(flow)
  await inStatus(other, 'RUNNING')
  t.equal((await ask('POST', `/executions/${other}/kill`)).json.status, 'CANCELLED')
  t.equal((await inStatus(other, 'CANCELLED')).tasks.length, 1)
})

t.test('a paused execution starts nothing', async (t) => {
  const flow = await save(`name: pausing
tasks:
  - name: gate
    type: core.approval
  - name: next
    type: util.log
    properties: { message: x }
`)
  const id = await execute(flow)
  const [gate] = await until(async () => {
    const { json } = await ask('GET', `/approvals?status=PENDING&executionId=${id}`)
    return json.length === 1 ? json : null
  })
  t.equal((await ask('POST', `/executions/${id}/pause`)).json.status, 'PAUSED')
  await ask('POST', `/approvals/${gate.id}/approve`, { body: { comment: 'fine' } })
  await until(async () => {
    const { json } = await ask('GET', `/executions/${id}`)
    return json.tasks[0].status === 'SUCCESS' ? json : null
  })
  t.equal((await ask('GET', `/executions/${id}`)).json.execution.status, 'PAUSED')
  t.equal((await ask('POST', `/executions/${id}/resume`)).json.status, 'RUNNING')
  await inStatus(id, 'SUCCESS')
  t.equal((await ask('POST', `/executions/${id}/pause`)).status, 409)
})

t.test('approvals are decided once', async (t) => {
  const flow = await save(`name: asks
tasks:
  - name: gate
    type: core.approval
    properties: { message: 'Deploy?', role: admin }
`)
  const id = await execute(flow)
  const [gate] = await until(async () => {
    const { json } = await ask('GET', `/approvals?status=PENDING&executionId=${id}`)
    return json.length === 1 ? json : null
  })
  t.match(gate, { executionId: id, taskName: 'gate', status: 'PENDING', message: 'Deploy?', role: 'admin' })
  t.match((await ask('GET', `/approvals/${gate.id}`)).json, { id: gate.id, status: 'PENDING' })
  const answers = await Promise.all([
    ask('POST', `/approvals/${gate.id}/approve`, { body: { comment: 'go' } }),
    ask('POST', `/approvals/${gate.id}/reject`, { body: { comment: 'no' } }),
  ])
  t.same(answers.map(({ status }) => status).sort(), [200, 409])
  const [won] = answers.filter(({ status }) => status === 200)
  const { execution } = await inStatus(id, ...ended)
  t.equal(execution.status, won!.json.status === 'APPROVED' ? 'SUCCESS' : 'FAILED')
  t.match((await ask('GET', `/approvals/${gate.id}`)).json, { status: won!.json.status, decidedBy: 'anonymous' })
  t.equal((await ask('GET', '/approvals/nonsense')).status, 404)
})

t.test(
  'a loop that is through is not run again, what tidies up is, and what was left out for a failure is',
  async (t) => {
    const called: string[] = []
    let isUp = false
    const server = createServer((request, response) => {
      called.push(request.url!)
      if (request.url === '/last' && !isUp) response.writeHead(400)
      response.end('{}')
    })
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    t.teardown(() => server.close())
    const flow = await save(`name: goes-on
inputs: { url: { type: string, required: true } }
tasks:
  - name: each
    type: core.foreach
    properties: { items: [1, 2, 3] }
    tasks:
      - { name: pay, type: http.request, properties: { url: '{{ inputs.url }}/pay/{{ item }}', method: POST } }
  - name: both
    type: core.parallel
    properties: { onFailure: continue }
    tasks:
      - { name: last, type: http.request, properties: { url: '{{ inputs.url }}/last' } }
      - { name: after, type: http.request, dependsOn: [last], properties: { url: '{{ inputs.url }}/after' } }
    finally:
      - { name: sweep, type: http.request, properties: { url: '{{ inputs.url }}/sweep' } }
finally:
  - { name: tidy, type: http.request, properties: { url: '{{ inputs.url }}/tidy' } }
outputs:
  paid: '{{ outputs.each.iterations | size }}'
  first: '{{ outputs.each.iterations[0].pay.status_code }}'
`)
    const address = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
    const id = await execute(flow, { url: address })
    await inStatus(id, 'FAILED')
    t.same(called.splice(0), ['/pay/1', '/pay/2', '/pay/3', '/last', '/sweep', '/tidy'])
    isUp = true
    const { json } = await ask('POST', `/executions/${id}/retry`)
    const { execution } = await inStatus(json.executionId, ...ended)
    t.equal(execution.status, 'SUCCESS')
    t.same(called, ['/last', '/after', '/sweep', '/tidy'])
    t.match((await ask('GET', `/executions/${json.executionId}`)).json.execution.outputs, '"paid":3,"first":200')
  },
)

t.test('what has failed is tried again from there, as another execution', async (t) => {
  const flow = await save(`name: breaks
inputs: { url: { type: string, required: true } }
tasks:
  - name: done
    type: util.log
    properties: { message: once }
  - name: call
    type: graphql.query
    properties: { url: '{{ inputs.url }}', query: '{ a }' }
`)
  let isUp = false
  const server = createServer((_request, response) => {
    if (isUp) response.end('{"data":{"a":1}}')
    else response.writeHead(400).end('no')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const inputs = { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}` }
  const id = await execute(flow, inputs)
  const { execution } = await inStatus(id, ...ended)
  t.match(execution, { status: 'FAILED', failedTask: 'call', error: 'The GraphQL endpoint answered 400: no' })
  isUp = true
  const { status, json } = await ask('POST', `/executions/${id}/retry`)
  t.match({ status, json }, { status: 202, json: { status: 'QUEUED', tasksTotal: 2 } })
  const again = await inStatus(json.executionId, ...ended)
  t.match(again.execution, { status: 'SUCCESS', origin: { executionId: id, kind: 'retry' } })
  const { json: lines } = await ask('GET', `/executions/${json.executionId}/logs`)
  t.same(lines, [], 'what had succeeded was not run again')
  t.match(await ask('POST', `/executions/${json.executionId}/retry`), { status: 409 })

  t.test('or from any task on, or with other inputs', async (t) => {
    const restarted = await ask('POST', `/executions/${json.executionId}/restart`, { body: { fromTask: 'done' } })
    await inStatus(restarted.json.executionId, 'SUCCESS')
    await until(async () => {
      const { json: lines } = await ask('GET', `/executions/${restarted.json.executionId}/logs`)
      return lines.length === 1 ? lines : null
    })
    t.match(await ask('POST', `/executions/${id}/restart`, { body: { fromTask: 'none' } }), {
      status: 400,
      json: { details: { field: 'fromTask' } },
    })
    isUp = false
    const replayed = await ask('POST', `/executions/${json.executionId}/replay`, { body: { inputs } })
    await inStatus(replayed.json.executionId, 'FAILED')
    t.match(await ask('POST', `/executions/${id}/replay`, { body: { inputs: { nonsense: 1 } } }), {
      status: 400,
      json: { code: 'workflows/invalid-input' },
    })
    const key = { headers: { 'Idempotency-Key': 'k1' } }
    const [one, two] = [
      await ask('POST', `/executions/${id}/retry`, key),
      await ask('POST', `/executions/${id}/retry`, key),
    ]
    t.equal(one.json.executionId, two.json.executionId, 'one key, one repetition')
  })

  t.test('but not while its flow is off, nor when that is gone', async (t) => {
    const verbs = ['retry', 'restart', 'replay']
    const again = () => Promise.all(verbs.map((verb) => ask('POST', `/executions/${id}/${verb}`)))
    await ask('POST', `/flows/${flow}/disable`)
    for (const answer of await again()) t.match(answer, { status: 409, json: { code: 'workflows/flow-disabled' } })
    await ask('DELETE', `/flows/${flow}`)
    for (const answer of await again()) t.match(answer, { status: 404, json: { code: 'workflows/flow-not-found' } })
  })
})

t.test('sub-flows, loops and branches', async (t) => {
  const flow = await save(`name: family
inputs: { list: { type: array, default: [1, 2, 3] } }
tasks:
  - name: each
    type: core.foreach
    properties: { items: '{{ inputs.list }}', concurrency: 2 }
    tasks:
      - name: check
        type: core.if
        properties: { condition: '{{ item > 1 }}' }
        then:
          - name: child
            type: core.subflow
            properties: { flowId: '{% if item == 2 %}three{% else %}${three}{% endif %}', inputs: { who: 'n{{ item }}' } }
          - name: named
            type: core.subflow
            properties: { flowId: three, namespace: default }
  - name: sum
    type: util.log
    properties: { message: '{{ outputs.each.iterations | size }} items' }
outputs:
  text: '{{ outputs.sum.message }}'
`)
  const id = await execute(flow)
  const { execution } = await inStatus(id, ...ended)
  t.match(execution, { status: 'SUCCESS', outputs: '{"text":"3 items"}' })
  const children = (await ask('GET', `/executions?relatedTo=${id}`)).json
  t.equal(children.length, 4, 'by id and by name')
  t.ok(children.every(({ parent }: { parent: { executionId: string } }) => parent.executionId === id))
})

t.test('of iterations that are through, gates and large outputs are found', async (t) => {
  const large = JSON.stringify({ text: 'y'.repeat(1_200_000) })
  const server = createServer((_request, response) => response.setHeader('Content-Type', 'application/json').end(large))
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const flow = await save(`name: loops
tasks:
  - name: each
    type: core.foreach
    properties: { items: [1] }
    tasks:
      - { name: gate, type: core.approval }
      - { name: big, type: http.request, properties: { url: 'http://127.0.0.1:${(server.address() as AddressInfo).port}' } }
  - { name: last, type: core.approval }
`)
  const id = await execute(flow)
  const gateOf = (taskName: string) =>
    until(async () => {
      const { json } = await ask('GET', `/approvals?status=PENDING&executionId=${id}`)
      return json[0]?.taskName === taskName ? json[0] : null
    })
  const gate = await gateOf('gate')
  const decided = await ask('POST', `/approvals/${gate.id}/approve`, { body: { comment: 'go' } })
  const time = /^\d{4}-\d\d-\d\dT[\d:.]+Z$/
  t.match(decided, { status: 200, json: { status: 'APPROVED', decidedAt: time } })
  const last = await gateOf('last')
  const told = await ask('GET', `/approvals/${gate.id}`)
  t.match(told, { status: 200, json: { taskName: 'gate', status: 'APPROVED', comment: 'go' } })
  t.equal(told.json.decidedAt, decided.json.decidedAt)
  const outputs = await ask('GET', `/executions/${id}/tasks/${encodeURIComponent('each[0].big')}/outputs`)
  t.equal(outputs.status, 200)
  t.equal(outputs.json.body.text.length, 1_200_000)
  t.equal((await ask('GET', `/executions/${id}/tasks/none/outputs`)).status, 404)
  const page = await ask('GET', `/approvals?executionId=${id}&limit=1`)
  t.match(page.json, [{ id: last.id, status: 'PENDING' }])
  t.equal(page.headers.get('x-total-count'), '2')
  const next = /<\/api\/v1([^>]+)>; rel="next"/.exec(page.headers.get('link')!)![1]!
  t.match((await ask('GET', next)).json, [{ id: gate.id }])
  const { flowId, namespace } = (await ask('GET', `/executions/${id}`)).json.execution
  const { requestedAt } = page.json[0]
  const later = new Date(Date.parse(requestedAt) + 1).toISOString()
  for (const [filter, count] of [
    [`namespace=${namespace}&flowId=${flowId}`, '2'],
    [`flowId=${flowId}&q=LAST`, '1'],
    [`flowId=${flowId}&q=100%25`, '0'],
    [`flowId=${flowId}&from=${requestedAt}`, '1'],
    [`flowId=${flowId}&to=${requestedAt}`, '1'],
    [`flowId=${flowId}&from=${later}`, '0'],
    ['flowId=another', '0'],
    [`flowId=${flowId}&namespace=another`, '0'],
  ] as const) {
    t.equal((await ask('GET', `/approvals?${filter}`)).headers.get('x-total-count'), count, filter)
  }
  t.match(await ask('GET', '/approvals?from=soon'), { status: 400, json: { details: { field: 'from' } } })
  t.match(await ask('GET', '/approvals?status=DONE'), { status: 400, json: { details: { field: 'status' } } })
  await ask('POST', `/approvals/${last.id}/approve`)
  await inStatus(id, 'SUCCESS')
})

t.test('texts that no database holds', async (t) => {
  const body = { yamlContent: 'name: "a\\0"\ntasks: [{ name: a, type: util.log, properties: { message: x } }]\n' }
  for (const [method, path, sent, field] of [
    ['POST', `/flows/${three}/execute`, { labels: { 'a\0': 'b' } }, 'labels'],
    ['POST', `/flows/${three}/execute`, { labels: { a: 'b\ud800' } }, 'labels.a'],
    ['POST', '/flows', { name: 'n\0', yamlContent: 'x' }, 'name'],
    ['POST', '/triggers', { flowId: three, type: 'manual', name: 'n\0' }, 'name'],
    ['GET', '/executions?q=%00', undefined, 'q'],
  ] as const) {
    const answer = await ask(method, path, { ...(sent !== undefined && { body: sent }) })
    t.match(answer, { status: 400, json: { details: { field } } }, `${method} ${path} ${field}`)
  }
  t.match(await ask('POST', '/flows', { body }), { status: 400, json: { details: { errors: [{ path: 'name' }] } } })
  t.equal((await ask('GET', '/executions/%00')).status, 400)
  const id = await execute(three, { who: 'a\0b' })
  const { execution } = await inStatus(id, 'SUCCESS')
  t.same(JSON.parse(execution.outputs), { said: 'I said Hello a\ufffdb' })
})

t.test('tasks of the longest names run inside of one another', async (t) => {
  const name = (depth: number) => `t${depth}`.padEnd(100, 'x')
  const nested = (depth: number, indent: string): string => {
    if (depth === 8) return `${indent}- { name: ${name(8)}, type: util.log, properties: { message: x } }\n`
    return `${indent}- name: ${name(depth)}\n${indent}  type: core.parallel\n${indent}  tasks:\n${nested(depth + 1, `${indent}    `)}`
  }
  const id = await execute(await save(`name: deep\ntasks:\n${nested(0, '  ')}`))
  const { tasks } = await inStatus(id, ...ended)
  t.equal(tasks.length, 9)
  t.ok(tasks.every(({ status }: { status: string }) => status === 'SUCCESS'))
})

t.test('a trigger of the longest name starts its flow', async (t) => {
  const name = '毎'.repeat(100)
  const trigger = await ask('POST', '/triggers', { body: { flowId: three, type: 'manual', name } })
  const fired = await ask('POST', `/triggers/${trigger.json.id}/fire`)
  t.match([trigger.status, fired.status], [201, /^20/])
  t.match((await inStatus(fired.json.executionId, 'SUCCESS')).execution, { trigger: { name }, actor: /^trigger:毎+…$/ })
})

t.test('no request was a fault of ours, and nothing was given up', async (t) => {
  t.same(faults, [])
})

type Tap = typeof t
