import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { readPage } from '../../bus/page.ts'
import { workflowStage } from './stage.ts'

t.setTimeout(120_000)
const { ask, save, execute, inStatus, until, bus, faults } = await workflowStage(t)
const ended = ['SUCCESS', 'FAILED', 'CANCELLED', 'TIMED_OUT']
const isNoLateResult = (type: string) => type !== 'executions.task.late-result'

/** A server that answers when it is told to, and notes when somebody does not wait for that. */
async function gate(t: Pick<Tap, 'teardown'>) {
  const waiting: ServerResponse[] = []
  const asked: string[] = []
  const stopped: number[] = []
  const server = createServer((request, response) => {
    asked.push(request.url!)
    waiting.push(response)
    response.once('close', () => response.writableEnded || stopped.push(performance.now()))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const open = () => {
    for (const response of waiting.splice(0)) response.end('{}')
  }
  const reached = (count: number) => until(async () => (asked.length >= count ? true : null))
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked, stopped, open, reached }
}
type Tap = typeof t

t.test('a cancel that is answered is the end, whatever a task still finds out', async (t) => {
  const { url, asked, open, reached } = await gate(t)
  const flow = await save(`name: late
tasks:
  - { name: first, type: http.request, properties: { url: '${url}/first' } }
  - { name: second, type: http.request, properties: { url: '${url}/second' } }
`)
  for (let tries = 1; tries <= 10; tries++) {
    const id = await execute(flow)
    await reached(tries)
    // Both at the same time: whichever is first, an end is written once and nothing begins after it.
    const [cancelled] = await Promise.all([ask('POST', `/executions/${id}/cancel`), open()])
    const { execution, tasks } = (await ask('GET', `/executions/${id}`)).json
    if (cancelled.status === 200) {
      t.equal(execution.status, 'CANCELLED', 'the answer is what is read')
      t.notOk(tasks.some(({ status }: { status: string }) => status === 'RUNNING' || status === 'PENDING'))
    }
    open()
    const { json } = await ask('GET', `/executions/${id}/events?limit=1000`)
    const facts: string[] = json.flatMap((each: { facts: { type: string }[] }) => each.facts.map(({ type }) => type))
    const end = facts.indexOf('executions.execution.ended')
    t.ok(end > 0)
    t.same(facts.slice(end + 1).filter(isNoLateResult), [])
    asked.length = tries
  }
})

t.test('a cancel stops what runs at once, wherever it runs, and nothing comes after it', async (t) => {
  const { url, asked, stopped, reached } = await gate(t)
  const call = (name: string) => `{ name: ${name}, type: http.request, properties: { url: '${url}/${name}' } }`
  const flows = {
    'beside the decisions': `tasks: [${call('only')}]`,
    'from the queue': `tasks: [{ name: all, type: core.parallel, tasks: [${call('a')}, ${call('b')}, ${call('c')}] }]`,
    'in a loop': `tasks: [{ name: each, type: core.foreach, properties: { items: [1, 2, 3], concurrency: 3 }, tasks: [${call('x')}] }]`,
  }
  for (const [where, tasks] of Object.entries(flows)) {
    const flow = await save(`name: stops ${where}\n${tasks}\n`)
    const running = where === 'beside the decisions' ? 1 : 3
    const tookMs: number[] = []
    for (let tries = 0; tries < 5; tries++) {
      asked.length = 0
      stopped.length = 0
      const id = await execute(flow)
      await reached(running)
      const begun = performance.now()
      t.match(await ask('POST', `/executions/${id}/cancel`), { status: 200, json: { status: 'CANCELLED' } })
      await until(async () => (stopped.length === running ? true : null))
      tookMs.push(Math.round(Math.max(...stopped) - begun))
      const types = async () => {
        const { json } = await ask('GET', `/executions/${id}/events?limit=1000`)
        return json.flatMap((each: { facts: { type: string }[] }) => each.facts.map(({ type }) => type)) as string[]
      }
      const facts = await types()
      t.same(facts.slice(facts.indexOf('executions.execution.ended') + 1).filter(isNoLateResult), [])
    }
    t.comment(`${where}: stopped after ${tookMs.sort((left, right) => left - right).join(' ')} ms`)
  }
})

t.test('what a cancelled execution has started and waits for is cancelled with it', async (t) => {
  const { url, stopped, reached } = await gate(t)
  const nest = async (name: string, tasks: string, more = '') => await save(`name: ${name}\ntasks: [${tasks}]\n${more}`)
  const sub = (name: string, flowId: string, more = '') =>
    `{ name: ${name}, type: core.subflow${more}, properties: { flowId: ${flowId} } }`
  const tidy = 'finally: [{ name: tidy, type: util.log, properties: { message: tidy } }]\n'
  const inner = await nest('innermost', `{ name: call, type: http.request, properties: { url: '${url}/inner' } }`, tidy)
  const middle = await nest('middle', sub('next', inner))
  let calls = 0
  const childOf = (flowId: string): Promise<string> =>
    until(async () => {
      const { json } = await ask('GET', `/executions?flowId=${flowId}&limit=10`)
      return json.length === calls ? json[0].id : null
    })
  const cases = {
    'a cancel': [sub('down', middle), (id: string) => ask('POST', `/executions/${id}/cancel`), 'CANCELLED'],
    'a kill': [sub('down', middle), (id: string) => ask('POST', `/executions/${id}/kill`), 'CANCELLED'],
    'a time-out of its task': [sub('down', middle, ', timeout: 500ms'), async () => undefined, 'FAILED'],
    'a failure beside it': [
      `{ name: all, type: core.parallel, tasks: [${sub('down', middle)}, { name: no, type: core.approval }] }`,
      async (id: string) => {
        const gates = await until(async () => {
          const { json } = await ask('GET', `/approvals?executionId=${id}&status=PENDING`)
          return json.length > 0 ? json : null
        })
        return await ask('POST', `/approvals/${gates[0].id}/reject`)
      },
      'FAILED',
    ],
  } as const
  for (const [what, [task, end, status]] of Object.entries(cases)) {
    const id = await execute(await nest(what, task))
    await reached(++calls)
    await end(id)
    t.equal((await inStatus(id, ...ended)).execution.status, status, what)
    for (const flowId of [middle, inner]) await inStatus(await childOf(flowId), 'CANCELLED')
    const { tasks } = (await ask('GET', `/executions/${await childOf(inner)}`)).json
    t.match(
      tasks,
      [
        { taskName: 'call', status: 'CANCELLED' },
        { taskName: 'tidy', status: 'SUCCESS' },
      ],
      what,
    )
    await until(async () => (stopped.length === calls ? true : null))
  }
})

t.test('an edited flow changes nothing about an execution that is under way', async (t) => {
  const { url, asked, open, reached } = await gate(t)
  const yaml = (after: string) => `name: pinned
tasks:
  - { name: wait, type: http.request, properties: { url: '${url}/wait' } }
  - { name: ${after}, type: util.log, properties: { message: ${after} } }
`
  const flow = await save(yaml('old'))
  const id = await execute(flow)
  await reached(1)
  const { status } = await ask('PUT', `/flows/${flow}`, {
    body: { name: 'pinned', namespace: 'default', yamlContent: yaml('new') },
  })
  t.equal(status, 200)
  open()
  const names = (tasks: readonly { taskName: string }[]) => tasks.map(({ taskName }) => taskName)
  const before = await inStatus(id, ...ended)
  t.same([before.execution.status, before.execution.flowRevision ?? before.execution.revision], ['SUCCESS', 1])
  t.same(names(before.tasks), ['wait', 'old'])
  const next = await execute(flow)
  await reached(2)
  open()
  t.same(names((await inStatus(next, 'SUCCESS')).tasks), ['wait', 'new'])
  t.equal(asked.length, 2)
})

t.test('a flow with no place left', async (t) => {
  for (const [behavior, status] of [
    ['cancel', 'CANCELLED'],
    ['fail', 'FAILED'],
  ] as const) {
    t.test(`ends what is one too many as ${status}, and takes the next when there is one`, async (t) => {
      const { url, asked, open, reached } = await gate(t)
      const flow = await save(`name: limited-${behavior}
concurrency: { limit: 2, behavior: ${behavior} }
tasks:
  - { name: wait, type: http.request, properties: { url: '${url}/' } }
`)
      const two = [await execute(flow), await execute(flow)]
      await reached(2)
      const third = await inStatus(await execute(flow), ...ended)
      t.match(third, { execution: { status, error: /runs 2 times already/ } })
      t.equal(asked.length, 2, 'it has run nothing')
      open()
      for (const id of two) await inStatus(id, 'SUCCESS')
      const fourth = await execute(flow)
      await reached(3)
      open()
      await inStatus(fourth, 'SUCCESS')
    })
  }

  t.test('lets one that waits be paused, resumed and cancelled', async (t) => {
    const { url, asked, open, reached } = await gate(t)
    const flow = await save(`name: waiting
concurrency: 1
tasks:
  - { name: wait, type: http.request, properties: { url: '${url}/' } }
finally:
  - { name: tidy, type: util.log, properties: { message: tidy } }
`)
    const first = await execute(flow)
    await reached(1)
    const [cancelled, resumed] = [await execute(flow), await execute(flow)]
    for (const id of [cancelled, resumed]) {
      t.match((await ask('POST', `/executions/${id}/pause`)).json, { status: 'PAUSED' })
    }
    t.match((await ask('POST', `/executions/${cancelled}/cancel`)).json, { status: 'CANCELLED' })
    open()
    await inStatus(first, 'SUCCESS')
    t.equal((await inStatus(cancelled, 'CANCELLED')).execution.status, 'CANCELLED')
    // It has its turn, and starts nothing.
    await until(async () => ((await ask('GET', `/executions/${resumed}`)).json.execution.startedAt ? true : null))
    t.equal((await ask('GET', `/executions/${resumed}`)).json.execution.status, 'PAUSED')
    t.equal(asked.length, 1)
    await ask('POST', `/executions/${resumed}/resume`)
    await reached(2)
    open()
    await inStatus(resumed, 'SUCCESS')
  })
})

t.test('nothing was given up', async (t) => {
  t.same(faults, [])
  t.same(await readPage(bus, 'DEAD', { seq: 1, next_by_subj: 'dead.>', batch: 10 }), [])
})
