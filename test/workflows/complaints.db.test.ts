import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { workflowStage } from './stage.ts'

/** What users of other engines complain of, and what has to be so here: see also `complaints.bus.test.ts`. */

const { ask, save, execute, inStatus, until, faults } = await workflowStage(t)
const ended = ['SUCCESS', 'FAILED', 'CANCELLED', 'TIMED_OUT']

/** A server that keeps what it was asked, says no to some paths and nothing to others. */
async function shop(t: Pick<Tap, 'teardown'>) {
  const called: string[] = []
  const [broken, silent] = [new Set<string>(), new Set<string>()]
  const server = createServer(({ url = '' }, response) => {
    called.push(url)
    if (broken.has(url)) response.writeHead(400)
    if (!silent.has(url)) response.end(JSON.stringify({ path: url }))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => {
    server.closeAllConnections()
    server.close()
  })
  const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`
  return { url, called, broken, silent }
}
type Tap = typeof t

const call = (name: string, url: string) => `{ name: ${name}, type: http.request, properties: { url: '${url}' } }`
const retried = async (id: string) => (await ask('POST', `/executions/${id}/retry`)).json.executionId as string

t.test('a for-each that failed part-way goes on where it was', async (t) => {
  for (const [onFailure, then] of [
    ['cancel', ['/ship/2', '/pay/3', '/ship/3', '/pay/4', '/ship/4', '/after']],
    ['wait', ['/ship/2', '/pay/3', '/ship/3', '/pay/4', '/ship/4', '/after']],
    ['continue', ['/ship/2', '/ship/4', '/after']],
  ] as const) {
    const { url, called, broken } = await shop(t)
    const flow = await save(`name: orders-${onFailure}
tasks:
  - name: each
    type: core.foreach
    properties: { items: [1, 2, 3, 4], onFailure: ${onFailure} }
    tasks:
      - ${call('pay', `${url}/pay/{{ item }}`)}
      - ${call('ship', `${url}/ship/{{ item }}?paid={{ outputs.pay.status_code }}`).replace('?paid', '?paid')}
  - ${call('after', `${url}/after`)}
outputs:
  shipped: '{{ outputs.each.iterations | map: "ship" | map: "body" | map: "path" | join: " " }}'
  paid: '{{ outputs.each.iterations | map: "pay" | map: "status_code" | join: " " }}'
`)
    const paths = () => called.splice(0).map((path) => path.replace('?paid=200', ''))
    broken.add('/ship/2?paid=200').add('/ship/4?paid=200')
    const id = await execute(flow)
    await inStatus(id, 'FAILED')
    t.ok(paths().includes('/pay/2'))
    // It fails once more, and goes on once more: nothing is forgotten between.
    const second = await retried(id)
    await inStatus(second, 'FAILED')
    const again = paths()
    t.notOk(again.includes('/pay/1') || again.includes('/pay/2') || again.includes('/ship/1'), again.join())
    broken.clear()
    const third = await retried(second)
    const { execution } = await inStatus(third, ...ended)
    t.equal(execution.status, 'SUCCESS')
    t.same(paths(), then, onFailure)
    t.same(JSON.parse(execution.outputs), {
      shipped: [1, 2, 3, 4].map((item) => `/ship/${item}?paid=200`).join(' '),
      paid: '200 200 200 200',
    })
  }
})

t.test('so do loops in loops, loops with a condition, and one that was cancelled', async (t) => {
  const { url, called, broken, silent } = await shop(t)
  const nested = await save(`name: nested
tasks:
  - name: outer
    type: core.foreach
    properties: { items: [a, b, c] }
    tasks:
      - ${call('open', `${url}/open/{{ item }}`)}
      - name: inner
        type: core.foreach
        properties: { items: [1, 2, 3] }
        tasks:
          - ${call('do', `${url}/do/{{ parent.item }}{{ item }}`)}
      - name: maybe
        type: core.if
        properties: { condition: true }
        then:
          - ${call('one', `${url}/one/{{ item }}`)}
          - ${call('two', `${url}/two/{{ item }}`)}
`)
  broken.add('/do/b2')
  const first = await execute(nested)
  await inStatus(first, 'FAILED')
  called.length = 0
  broken.clear()
  broken.add('/two/b')
  const second = await retried(first)
  await inStatus(second, 'FAILED')
  t.same(called.splice(0), ['/do/b2', '/do/b3', '/one/b', '/two/b'])
  broken.clear()
  await inStatus(await retried(second), 'SUCCESS')
  const rest = ['/open/c', '/do/c1', '/do/c2', '/do/c3', '/one/c', '/two/c']
  t.same(called.splice(0), ['/two/b', ...rest])

  const rounds = await save(`name: rounds
tasks:
  - name: loop
    type: flow.while
    properties: { condition: '{% assign rounds = outputs["loop"]["iterations"] | size %}{{ rounds < 4 }}' }
    tasks:
      - ${call('read', `${url}/read/{{ index }}`)}
      - ${call('write', `${url}/write/{{ index }}`)}
`)
  broken.add('/write/2')
  const stopped = await execute(rounds)
  await inStatus(stopped, 'FAILED')
  called.length = 0
  broken.clear()
  await inStatus(await retried(stopped), 'SUCCESS')
  t.same(called.splice(0), ['/write/2', '/read/3', '/write/3'])

  const flow = await save(`name: cut-off
tasks:
  - name: each
    type: core.foreach
    properties: { items: [1, 2, 3], concurrency: 1 }
    tasks:
      - ${call('get', `${url}/get/{{ item }}`)}
      - ${call('put', `${url}/put/{{ item }}`)}
`)
  silent.add('/put/2')
  const cut = await execute(flow)
  await until(async () => (called.includes('/put/2') ? true : null))
  await ask('POST', `/executions/${cut}/cancel`)
  await inStatus(cut, 'CANCELLED')
  called.length = 0
  silent.clear()
  await inStatus(await retried(cut), 'SUCCESS')
  t.same(called, ['/put/2', '/get/3', '/put/3'])
})

t.test('any task can be the first one again, with the flow as it was and as it is', async (t) => {
  const { url, called, broken } = await shop(t)
  const yaml = (path: string) => `name: mended
tasks:
  - ${call('a', `${url}/a`)}
  - ${call('b', `${url}/${path}`)}
  - ${call('c', `${url}/c`)}
`
  broken.add('/wrong')
  const flow = await save(yaml('wrong'))
  const failed = await execute(flow)
  await inStatus(failed, 'FAILED')
  await ask('PUT', `/flows/${flow}`, { body: { yamlContent: yaml('right') } })
  const restart = async (id: string, body: Record<string, unknown>) => {
    called.length = 0
    const { json } = await ask('POST', `/executions/${id}/restart`, { body })
    const { execution } = await inStatus(json.executionId, ...ended)
    return {
      id: json.executionId as string,
      status: execution.status,
      revision: execution.revision,
      called: [...called],
    }
  }
  t.match(await restart(failed, { fromTask: 'b', revision: 'original' }), { status: 'FAILED', called: ['/wrong'] })
  const mended = await restart(failed, { fromTask: 'b', revision: 'latest' })
  t.match(mended, { status: 'SUCCESS', called: ['/right', '/c'] })
  t.match(await restart(mended.id, { fromTask: 'c' }), { status: 'SUCCESS', called: ['/c'] })
  t.match(await restart(failed, { fromTask: 'a', revision: 'latest' }), { called: ['/a', '/right', '/c'] })
  const replayed = (await ask('POST', `/executions/${failed}/replay`, { body: { revision: 'latest' } })).json
  await inStatus(replayed.executionId, 'SUCCESS')
})

t.test(
  'a task in a loop can be the first one again from an iteration on, and what is before it is not run again',
  async (t) => {
    const { url, called, broken } = await shop(t)
    const restart = async (id: string, fromTask: string) => {
      called.length = 0
      const { status, json } = await ask('POST', `/executions/${id}/restart`, { body: { fromTask } })
      if (status !== 202) return { status, error: json.error as string, hint: json.hint, called: [...called] }
      const { execution } = await inStatus(json.executionId, ...ended)
      return {
        id: json.executionId as string,
        status: execution.status,
        outputs: execution.outputs,
        called: [...called],
      }
    }
    const flow = await save(`name: shipping
tasks:
  - ${call('list', `${url}/list`)}
  - name: each
    type: core.foreach
    properties: { items: [a, b, c], onFailure: continue }
    tasks:
      - ${call('pay', `${url}/pay/{{ item }}`)}
      - name: parts
        type: core.foreach
        properties: { items: [1, 2, 3] }
        tasks:
          - ${call('pack', `${url}/pack/{{ parent.item }}{{ item }}`)}
          - ${call('load', `${url}/load/{{ outputs.pack.body.path }}`)}
      - ${call('ship', `${url}/ship/{{ item }}?{{ outputs.parts.iterations | map: "pack" | map: "body" | map: "path" | join: "," }}`)}
  - ${call('after', `${url}/after`)}
outputs:
  paid: '{{ outputs.each.iterations | map: "pay" | map: "body" | map: "path" | join: " " }}'
`)
    const ship = (item: string) => `/ship/${item}?${[1, 2, 3].map((part) => `/pack/${item}${part}`).join(',')}`
    const parts = (item: string, from = 1) =>
      [1, 2, 3].slice(from - 1).flatMap((part) => [`/pack/${item}${part}`, `/load//pack/${item}${part}`])
    const all = (item: string) => [`/pay/${item}`, ...parts(item), ship(item)]
    const first = await execute(flow)
    await inStatus(first, 'SUCCESS')
    t.same(called, ['/list', ...all('a'), ...all('b'), ...all('c'), '/after'])
    const { tasks } = (await ask('GET', `/executions/${first}`)).json
    t.ok(
      tasks.some(({ run }: { run: string }) => run === 'each[1].parts[1].load'),
      'keys are those of the list',
    )
    const paid = { status: 'SUCCESS', outputs: '{"paid":"/pay/a /pay/b /pay/c"}' }
    const shipped = await restart(first, 'each[1].ship')
    t.match(shipped, paid)
    t.same(shipped.called, [ship('b'), ...all('c'), '/after'])
    const loaded = await restart(first, 'each[1].parts[1].load')
    t.match(loaded, paid)
    t.same(loaded.called, ['/load//pack/b2', ...parts('b', 3), ship('b'), ...all('c'), '/after'])
    t.same((await restart(first, 'each[2].parts')).called, [...parts('c'), ship('c'), '/after'])
    t.same((await restart(first, 'each')).called, [...all('a'), ...all('b'), ...all('c'), '/after'])
    // What the restarted one has run itself can be restarted in turn.
    t.same((await restart(loaded.id!, 'each[2].ship')).called, [ship('c'), '/after'])
    t.match(await restart(shipped.id!, 'each[0].ship'), {
      status: 409,
      error: /has not run each\[0\] itself/,
      hint: `Restart the execution ${first} from there.`,
    })
    for (const [from, error] of [
      ['ship', /each\[0\]\.ship, or a whole loop/],
      ['load', /each\[0\]\.parts\[0\]\.load/],
      ['each[0].load', /each\[0\]\.parts\[0\]\.load/],
      ['each[0].parts.load', /each\[0\]\.parts\[0\]\.load/],
      ['each.ship', /each\[0\]\.ship/],
      ['each[0]', /does not say where/],
      ['list[0].ship', /does not say where/],
      ['each[3].ship', /never began/],
      ['each[0].parts[7].load', /never began/],
      ['each[0].none', /no task/],
    ] as const) {
      t.match(await restart(first, from), { status: 400, error }, from)
      t.same(called, [], 'nothing is run')
    }
    broken.add(ship('a')).add(ship('b'))
    const failed = await execute(flow)
    await inStatus(failed, 'FAILED')
    broken.clear()
    const mended = await restart(failed, 'each[2].ship')
    t.same(
      mended.called.sort(),
      [ship('a'), ship('b'), ship('c'), '/after'].sort(),
      'earlier failures are mended as well',
    )
    t.match(mended, paid)

    const rounds = await save(`name: counting
tasks:
  - name: loop
    type: flow.while
    properties: { condition: '{% assign rounds = outputs["loop"]["iterations"] | size %}{{ rounds < 3 }}' }
    tasks:
      - ${call('read', `${url}/read/{{ index }}`)}
      - ${call('write', `${url}/write/{{ index }}`)}
`)
    const counted = await execute(rounds)
    await inStatus(counted, 'SUCCESS')
    t.same((await restart(counted, 'loop[1].write')).called, ['/write/1', '/read/2', '/write/2'])
  },
)

t.test('what has taken too long says so', async (t) => {
  const flow = await save(`name: late
timeout: 300ms
tasks: [{ name: wait, type: core.wait, properties: { duration: 1h } }]
finally: [{ name: tidy, type: util.log, properties: { message: 'bye' } }]
`)
  const id = await execute(flow)
  const { execution } = await inStatus(id, ...ended)
  t.match(execution, { status: 'TIMED_OUT', error: 'The execution was not through after 300 ms' })
  const late = await ask('POST', `/executions/${id}/cancel`)
  t.match(late, { status: 409, json: { details: { status: 'TIMED_OUT' } } })
  for (const [from, status] of [
    ['2026-01-01', 200],
    ['2026-01-01T00:00:00Z', 200],
    ['2026-01-01T00:00:00.5%2B02:00', 200],
    ['2026-02-30', 400],
    ['2026-02-30T00:00:00Z', 400],
    ['2026-01-01T00:00:00', 400],
    ['5', 400],
  ] as const) {
    t.equal((await ask('GET', `/executions?from=${from}`)).status, status, from)
  }
})

t.test('totals are what happened', async (t) => {
  const { text } = await ask('GET', '/metrics')
  const value = (name: string) =>
    Number(
      text
        .split('\n')
        .find((line) => line.startsWith(`${name} `))
        ?.split(' ')
        .at(-1),
    )
  const counted = async (status: string) =>
    Number((await ask('GET', `/executions?status=${status}&limit=1`)).headers.get('x-total-count'))
  for (const status of ['SUCCESS', 'FAILED', 'CANCELLED']) {
    t.equal(value(`busbar_workflows_executions{status="${status}"}`), await counted(status))
    t.equal(value(`busbar_workflows_executions_total{status="${status}"}`), await counted(status))
    t.equal(value(`busbar_workflows_execution_duration_seconds_count{status="${status}"}`), await counted(status))
  }
  t.ok(value('busbar_workflows_tasks_total{type="http.request",status="FAILED"}') >= 5)
})

t.test('nothing was given up', async (t) => t.same(faults, []))
