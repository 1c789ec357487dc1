import { randomBytes, randomUUID } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import fastify from 'fastify'
import pg from 'pg'
import t from 'tap'
import { append } from '../../bus/append.ts'
import { connectBus } from '../../bus/connect.ts'
import { listDead } from '../../bus/dead.ts'
import { publish } from '../../bus/publish.ts'
import { eventSubject } from '../../bus/subject.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { healthRoutes } from '../../gateways/workflows/health.ts'
import { openPositions, projectionLag } from '../../projections/positions.ts'
import { type ProjectionObservation, schemaOf, startProjector } from '../../projections/projector.ts'
import { type ApprovalStatus, findApproval, listApprovals } from '../../projections/workflows/approvals-read.ts'
import {
  findExecution,
  idleExecutions,
  listExecutions,
  tasksOfExecution,
} from '../../projections/workflows/executions-read.ts'
import { listFlows } from '../../projections/workflows/flows-read.ts'
import { workflowProjection } from '../../projections/workflows/projection.ts'
import { execution } from '../../schemas/workflows/execution.ts'
import { decideAnswer, decidePause, decideResume } from '../../schemas/workflows/execution-decide.ts'
import { FlowRevised, flow as flowAggregate } from '../../schemas/workflows/flow.ts'
import { testNats, testPostgres } from '../support/servers.ts'
import { flow, sequence, task } from './plans.ts'
import { block, items, Simulation } from './simulation.ts'

t.test('read models of executions', async (t) => {
  const [nats, postgres] = await Promise.all([testNats(t), testPostgres(t)])
  const bus = await connectBus({ url: nats.url, name: 'test' })
  await reconcileStreams(bus, streamSpecs())
  const connection = { connectionString: postgres.url }
  const database = new pg.Pool({ ...connection, max: 2 })
  const observed: ProjectionObservation[] = []
  const onObservation = (observation: ProjectionObservation) => void observed.push(observation)
  const positions = openPositions(bus, database, workflowProjection)
  let projector = startProjector({ bus, connection, projection: workflowProjection, onObservation })
  t.teardown(async () => {
    await projector.stop()
    positions.close()
    await database.end()
    await bus.close()
  })

  const stored = new Map<string, { readonly from: number; readonly expectedSequence: number }>()
  /** Stores what a simulated execution has decided since, as so many messages. */
  const store = async (run: Simulation, id: string): Promise<number> => {
    const subject = eventSubject('executions', 'execution', id)
    let { from, expectedSequence } = stored.get(id) ?? { from: 0, expectedSequence: 0 }
    for (; from < run.facts.length; from += 3) {
      const message = { id: randomUUID(), facts: run.facts.slice(from, from + 3) }
      const { events } = execution
      const appended = await append(bus, { stream: 'EVT_EXECUTIONS', subject, expectedSequence, events, message })
      expectedSequence = appended.sequence
    }
    stored.set(id, { from: run.facts.length, expectedSequence })
    t.equal(await positions.passed('EVT_EXECUTIONS', expectedSequence, 10_000), true)
    return expectedSequence
  }
  const begin = (id: string, ...args: ConstructorParameters<typeof Simulation>) => {
    return new Simulation(args[0], { ...args[1], executionId: id, tasksTotal: 2 }).begin()
  }

  t.test('what has ended has its times, its tasks and their outputs', async (t) => {
    const run = begin('done', flow(sequence(task('a'), task('b'))))
    run.now += 10
    run.succeed('a', { x: 1 })
    run.now += 10
    run.fail('b')
    await store(run, 'done')
    t.match(await findExecution(database, 'done'), {
      id: 'done',
      status: 'FAILED',
      tasksTotal: 2,
      tasksExecuted: 2,
      createdAt: '1970-01-01T00:00:01.000Z',
      startedAt: '1970-01-01T00:00:01.000Z',
      finishedAt: '1970-01-01T00:00:01.020Z',
      durationMs: 20,
      failure: { task: 'b', message: 'b failed' },
    })
    t.match(await tasksOfExecution(database, 'done', { limit: 10, offset: 0 }), [
      { taskName: 'a', taskType: 'util.log', status: 'SUCCESS', outputs: { json: { x: 1 } } },
      { taskName: 'b', status: 'FAILED', failure: { message: 'b failed' } },
    ])
  })

  t.test('a loop has a row for each task of each item', async (t) => {
    const each = task('each', { blocks: { tasks: [task('inner')] } })
    const run = begin('loop', flow([each]))
    run.open('each', items(3, 3))
    for (const index of [0, 1]) run.succeed(`each[${index}].inner`)
    await store(run, 'loop')
    const rows = await tasksOfExecution(database, 'loop', { limit: 10, offset: 0 })
    t.same(
      rows.map(({ run, status }) => [run, status]),
      [
        ['each', 'RUNNING'],
        ['each[0].inner', 'SUCCESS'],
        ['each[1].inner', 'SUCCESS'],
        ['each[2].inner', 'RUNNING'],
      ],
    )
  })

  t.test('an end cancels what was live', async (t) => {
    const group = task('all', { blocks: { tasks: [task('a'), task('b')] } })
    const run = begin('cut', flow([group]))
    run.open('all', block('tasks'))
    run.fail('all.a')
    await store(run, 'cut')
    const rows = await tasksOfExecution(database, 'cut', { limit: 10, offset: 0 })
    t.same(
      rows.map(({ status }) => status),
      ['FAILED', 'FAILED', 'CANCELLED'],
    )
  })

  t.test('open gates are listed until they are answered', async (t) => {
    const run = begin('gate', flow([task('ask')]))
    run.open('ask', { kind: 'pause', until: 9e12, question: { message: 'Go?', role: 'admin', onTimeout: 'fail' } })
    await store(run, 'gate')
    const now = new Date(1_000)
    const ids = async (status: ApprovalStatus | undefined, limit = 10, cursor?: string) => {
      const page = await listApprovals(
        database,
        { now, ...(status && { status }) },
        { limit, ...(cursor && { cursor }) },
      )
      return { ids: page.rows.map(({ executionId }) => executionId), total: page.total, next: page.next }
    }
    t.match((await listApprovals(database, { now, status: 'PENDING' }, { limit: 10 })).rows, [
      { executionId: 'gate', run: 'ask', question: { message: 'Go?' }, answer: null, status: 'PENDING' },
    ])
    const answered = begin('gate2', flow([task('ask')]))
    answered.open('ask', { kind: 'pause', until: null, question: { message: 'Go?', role: 'admin', onTimeout: 'fail' } })
    answered.add(decideAnswer(answered.state, { run: 'ask', answer: 'approved', by: 'bob', comment: '' }, 1))
    answered.send({ type: 'nudge' })
    await store(answered, 'gate2')
    t.match(await ids('PENDING'), { ids: ['gate'], total: 1, next: null })
    t.match(await ids('APPROVED', 1), { ids: ['gate2'], total: 1, next: null }, 'looked for before the page is cut')
    t.match(await ids('EXPIRED'), { ids: [], total: 0 })
    const first = await ids(undefined, 1)
    t.match(first, { ids: ['gate2'], total: 2 })
    t.match(await ids(undefined, 1, first.next!), { ids: ['gate'], total: 2, next: null })
    t.match(await findApproval(database, { executionId: 'gate2', run: 'ask', now }), {
      status: 'APPROVED',
      answer: { by: 'bob', at: '1970-01-01T00:00:00.001Z' },
    })
    t.equal(await findApproval(database, { executionId: 'gate2', run: 'none', now }), null)
  })

  t.test('the list is newest first, filtered and paged', async (t) => {
    const page = await listExecutions(database, {}, { limit: 2 })
    t.same(
      page.rows.map(({ id }) => id),
      ['gate2', 'gate'],
    )
    t.equal(page.total, 5)
    const rest = await listExecutions(database, {}, { limit: 10, cursor: page.next! })
    t.same(
      rest.rows.map(({ id }) => id),
      ['cut', 'loop', 'done'],
    )
    t.equal(rest.next, null)
    t.same(
      (await listExecutions(database, { statuses: ['FAILED'], text: 'b failed' }, { limit: 9 })).rows.map(
        ({ id }) => id,
      ),
      ['done'],
    )
    const idle = async (limit: number, after: string | null = null) => {
      const { executions, next } = await idleExecutions(database, { idleMs: -60_000, limit, after })
      return { ids: executions.map(({ id }) => id), next }
    }
    t.same(await idle(10), { ids: ['loop', 'gate'], next: null })
    const first = await idle(1)
    t.same(first.ids, ['loop'])
    t.same((await idle(1, first.next)).ids, ['gate'])
  })

  t.test('tables that are dropped are filled again, with the same content', async (t) => {
    const before = await listExecutions(database, {}, { limit: 100 })
    const tasks = await tasksOfExecution(database, 'loop', { limit: 10, offset: 0 })
    await projector.stop()
    await database.query(`drop schema ${schemaOf(workflowProjection)} cascade`)
    projector = startProjector({ bus, connection, projection: workflowProjection, onObservation })
    const { state } = await bus.manager.streams.info('EVT_EXECUTIONS')
    const anew = openPositions(bus, database, workflowProjection)
    t.teardown(() => anew.close())
    t.equal(await anew.passed('EVT_EXECUTIONS', state.last_seq, 10_000), true)
    t.same(await listExecutions(database, {}, { limit: 100 }), before)
    t.same(await tasksOfExecution(database, 'loop', { limit: 10, offset: 0 }), tasks)
  })

  t.test('one of two projectors writes; the other takes over', async (t) => {
    const second = startProjector({ bus, connection, projection: workflowProjection, onObservation })
    t.teardown(() => second.stop())
    await projector.stop()
    const run = begin('after', flow([]))
    await store(run, 'after')
    t.match(await findExecution(database, 'after'), { status: 'SUCCESS' })
  })

  t.test('what PostgreSQL cannot hold is replaced, and the times it has not are its last', async (t) => {
    projector = startProjector({ bus, connection, projection: workflowProjection, onObservation })
    const cases = [
      { name: 'nul', text: 'a\0b', held: 'a\ufffdb' },
      { name: 'half', text: 'a\ud800b', held: 'a\ufffdb' },
      { name: 'escaped', text: 'a\\u0000b\\', held: 'a\\u0000b\\' },
      { name: 'pair', text: 'a😀', held: 'a😀' },
    ]
    for (const { name, text, held } of cases) {
      const run = begin(name, flow([task('a')]), {
        inputs: { [text]: text },
        labels: { l: text },
        trigger: { type: text },
      })
      run.succeed('a', { text })
      await store(run, name)
      const found = await findExecution(database, name)
      t.match(
        found,
        { inputs: { [held]: held }, labels: { l: held }, trigger: { type: held }, status: 'SUCCESS' },
        name,
      )
      const [done] = await tasksOfExecution(database, name, { limit: 1, offset: 0 })
      t.same(done!.outputs, { json: { text: held } }, name)
    }
    const flowId = randomUUID()
    const text = 'a\0b'
    const revised = { flowId, name: text, namespace: 'held', revision: 1, yamlContent: text, by: text, at: 9e17 }
    const { sequence } = await append(bus, {
      stream: 'EVT_WORKFLOWS',
      subject: eventSubject('workflows', 'flow', flowId),
      expectedSequence: 0,
      events: flowAggregate.events,
      message: {
        id: randomUUID(),
        facts: [FlowRevised.of({ ...revised, plan: flow([], { labels: { [text]: text } }) })],
      },
    })
    t.equal(await positions.passed('EVT_WORKFLOWS', sequence, 10_000), true)
    const held = 'a\ufffdb'
    t.match((await listFlows(database, { namespace: 'held' }, { limit: 1 })).rows, [
      { name: held, yamlContent: held, createdBy: held, labels: { [held]: held }, createdAt: /^9999/ },
    ])
    const years = begin('years', flow([task('ask')]))
    years.open('ask', { kind: 'pause', until: 9e17, question: { message: 'Go?', role: 'admin', onTimeout: 'fail' } })
    await store(years, 'years')
    const gate = await findApproval(database, { executionId: 'years', run: 'ask', now: new Date() })
    t.match(gate, { expiresAt: '9999-12-31T23:59:59.999Z', status: 'PENDING' })
  })

  t.test('a message that cannot be folded lies in DEAD, and those around it are folded', async (t) => {
    await projector.stop()
    const before = begin('before', flow([]))
    const subject = eventSubject('executions', 'execution', 'garbage')
    const runs = [before, begin('unindexable', flow([]), { namespace: randomBytes(9_000).toString('base64') })]
    const append1 = async (run: Simulation, id: string) => {
      const { events } = execution
      const place = { stream: 'EVT_EXECUTIONS', subject: eventSubject('executions', 'execution', id) }
      return await append(bus, {
        ...place,
        expectedSequence: 0,
        events,
        message: { id: randomUUID(), facts: run.facts },
      })
    }
    await append1(runs[0]!, 'before')
    await publish(bus, { subject, body: 'no message' })
    await append1(runs[1]!, 'unindexable')
    const { sequence } = await append1(begin('behind', flow([])), 'behind')
    projector = startProjector({ bus, connection, projection: workflowProjection, onObservation })
    t.equal(await positions.passed('EVT_EXECUTIONS', sequence, 10_000), true)
    for (const id of ['before', 'behind']) t.match(await findExecution(database, id), { status: 'SUCCESS' }, id)
    t.equal(await findExecution(database, 'unindexable'), null)
    t.match(await listDead(bus, { consumer: 'projections-workflows' }), [
      { subject, error: /^MessageInvalid: The body is not JSON/ },
      { subject: eventSubject('executions', 'execution', 'unindexable'), error: /index row/ },
    ])
    t.equal(observed.filter(({ type }) => type === 'projection-dead').length, 2)
  })

  t.test('one that was paused before it began is queued again', async (t) => {
    const run = new Simulation(flow([task('a')]), { executionId: 'queued' })
    run.add(decidePause(run.state, 'bob', 1))
    await store(run, 'queued')
    t.match(await findExecution(database, 'queued'), { status: 'PAUSED' })
    run.add(decideResume(run.state, 'bob', 1))
    await store(run, 'queued')
    t.match(await findExecution(database, 'queued'), { status: 'QUEUED', startedAt: null })
    run.begin()
    run.add([...decidePause(run.state, 'bob', 1)])
    run.add([...decideResume(run.state, 'bob', 1)])
    await store(run, 'queued')
    t.match(await findExecution(database, 'queued'), { status: 'RUNNING' })
  })

  t.test('a task that came through at another attempt has no failure', async (t) => {
    const retry = { maxAttempts: 3, delayMs: 100, backoff: 'constant', factor: 1, maxDelayMs: 100, jitter: 0 } as const
    const run = begin('again', flow([task('a', { retry })]))
    run.fail('a', 'unavailable')
    await store(run, 'again')
    const told = async () => (await tasksOfExecution(database, 'again', { limit: 1, offset: 0 }))[0]
    t.match(await told(), { status: 'WAITING', attempt: 1, failure: { message: 'a failed' } })
    run.later(100)
    run.succeed('a', { x: 1 })
    await store(run, 'again')
    t.match(await told(), { status: 'SUCCESS', attempt: 2, failure: null, outputs: { json: { x: 1 } } })
  })

  t.test('the tasks of the flow are there from the start; what has not begun is skipped', async (t) => {
    const each = task('each', { type: 'core.foreach', blocks: { tasks: [task('inner')] } })
    const branch = task('branch', { type: 'core.if', blocks: { else: [task('no')], errors: [task('oops')] } })
    const plan = flow(sequence(task('a'), each, branch, task('last')))
    const flowId = randomUUID()
    const revised = { flowId, name: 'f', namespace: 'n', revision: 1, yamlContent: '', plan, by: 'ann', at: 1 }
    const saved = await append(bus, {
      stream: 'EVT_WORKFLOWS',
      subject: eventSubject('workflows', 'flow', flowId),
      expectedSequence: 0,
      events: flowAggregate.events,
      message: { id: randomUUID(), facts: [FlowRevised.of(revised)] },
    })
    const rows = async (id: string) => {
      const tasks = await tasksOfExecution(database, id, { limit: 20, offset: 0 })
      return tasks.map(({ run, status }) => `${run} ${status}`)
    }
    for (const flowSequence of [saved.sequence, saved.sequence + 1_000]) {
      const id = `planned-${flowSequence}`
      const run = new Simulation(plan, { executionId: id, flowId, flowSequence, tasksTotal: 6 })
      await store(run, id)
      t.same(await rows(id), ['a PENDING', 'each WAITING', 'branch WAITING', 'branch.no WAITING', 'last WAITING'])
      run.begin()
      run.fail('a')
      await store(run, id)
      t.same(await rows(id), ['a FAILED', 'each SKIPPED', 'branch SKIPPED', 'branch.no SKIPPED', 'last SKIPPED'])
    }
    const carried = { a: { status: 'success', outputs: { json: 1 } } } as const
    const retried = new Simulation(plan, { executionId: 'retried', flowId, flowSequence: 1, tasksTotal: 6, carried })
    await store(retried, 'retried')
    t.equal((await rows('retried'))[0], 'a SUCCESS')
    t.match(await findExecution(database, 'retried'), { tasksExecuted: 1, tasksTotal: 6 })
  })

  t.test('lists tell long times, and of large bodies how large they are', async (t) => {
    const inputs = { large: 'x'.repeat(5_000) }
    const run = begin('large', flow([task('a')]), { inputs, trigger: { type: 'webhook', id: 't1', body: inputs } })
    run.now += 30 * 86_400_000
    run.succeed('a', inputs)
    await store(run, 'large')
    const { rows } = await listExecutions(database, {}, { limit: 1 })
    const told = { truncated: true, sizeBytes: 5_012 }
    t.match(rows, [{ id: 'large', durationMs: 30 * 86_400_000, inputs: told, trigger: { type: 'webhook', id: 't1' } }])
    t.same(Object.keys(rows[0]!.trigger).sort(), ['id', 'sizeBytes', 'truncated', 'type'])
    t.match(await findExecution(database, 'large'), { inputs, trigger: { body: inputs } })
    const long = begin('long', flow([task('a')]))
    const message = 'x'.repeat(9_000)
    long.result('a', { kind: 'failure', failure: { message, kind: 'refused' } })
    await store(long, 'long')
    const [failed] = (await listExecutions(database, {}, { limit: 1 })).rows
    t.equal(failed!.failure!.message, `${'x'.repeat(4_096)}…`)
    t.equal((await findExecution(database, 'long'))!.failure!.message, message)
  })

  t.test('what is not folded is told, and after a minute nothing is ready', async (t) => {
    await projector.stop()
    const { events } = execution
    const subject = eventSubject('executions', 'execution', 'late')
    const message = { id: randomUUID(), facts: begin('late', flow([])).facts }
    const stored = await append(bus, { stream: 'EVT_EXECUTIONS', subject, expectedSequence: 0, events, message })
    const after = (ms: number) => ({ bus, database, now: () => Date.now() + ms })
    const readiness = async (ms: number) => {
      const app = fastify()
      healthRoutes(app, after(ms))
      const answer = await app.inject('/readyz')
      await app.close()
      return { code: answer.statusCode, ...answer.json() }
    }
    const lag = async () => (await projectionLag(after(120_000), workflowProjection))[1]!
    t.match(await lag(), { stream: 'EVT_EXECUTIONS', messages: 1 })
    t.ok((await lag()).seconds >= 119)
    t.match(await readiness(0), { code: 200, status: 'ready', projection: 'ok' })
    t.match(await readiness(120_000), { code: 503, status: 'not-ready', projection: 'behind', database: 'ok' })
    projector = startProjector({ bus, connection, projection: workflowProjection, onObservation })
    t.equal(await positions.passed('EVT_EXECUTIONS', stored.sequence, 10_000), true)
    t.match(await lag(), { messages: 0, seconds: 0 })
    t.match(await readiness(120_000), { code: 200, projection: 'ok' })
  })

  t.test('a bus that was killed is followed again', async (t) => {
    await nats.kill()
    await nats.restart()
    while (!bus.connected) await delay(20)
    await store(begin('revived', flow([])), 'revived')
    t.match(await findExecution(database, 'revived'), { status: 'SUCCESS' })
  })
})
