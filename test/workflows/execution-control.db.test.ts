import { createServer, type ServerResponse } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { readPage } from '../../bus/load.ts'
import { workflowStage } from './stage.ts'

const { ask, save, execute, inStatus, until, bus, faults } = await workflowStage(t)
const ended = ['SUCCESS', 'FAILED', 'CANCELLED', 'TIMED_OUT']

/** A server that answers when it is told to. */
async function gate(t: Pick<Tap, 'teardown'>) {
  const waiting: ServerResponse[] = []
  const asked: string[] = []
  const server = createServer((request, response) => {
    asked.push(request.url!)
    waiting.push(response)
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
  return { url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`, asked, open, reached }
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
    t.same(
      facts.slice(end + 1).filter((type) => type !== 'executions.task.late-result'),
      [],
    )
    asked.length = tries
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
