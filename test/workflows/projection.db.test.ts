import { randomUUID } from 'node:crypto'
import pg from 'pg'
import t from 'tap'
import { append } from '../../bus/append.ts'
import { connectBus } from '../../bus/connect.ts'
import { eventSubject } from '../../bus/subject.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { openPositions } from '../../projections/positions.ts'
import { schemaOf, startProjector } from '../../projections/projector.ts'
import {
  findExecution,
  idleExecutions,
  listApprovals,
  listExecutions,
  tasksOfExecution,
} from '../../projections/workflows/executions-read.ts'
import { workflowProjection } from '../../projections/workflows/projection.ts'
import { execution } from '../../schemas/workflows/execution.ts'
import { decideAnswer } from '../../schemas/workflows/execution-decide.ts'
import { testNats, testPostgres } from '../support/servers.ts'
import { flow, sequence, task } from './plans.ts'
import { block, items, Simulation } from './simulation.ts'

t.test('read models of executions', async (t) => {
  const [nats, postgres] = await Promise.all([testNats(t), testPostgres(t)])
  const bus = await connectBus({ url: nats.url, name: 'test' })
  await reconcileStreams(bus, streamSpecs())
  const connection = { connectionString: postgres.url }
  const database = new pg.Pool({ ...connection, max: 2 })
  const onObservation = () => undefined
  const positions = openPositions(bus, database, workflowProjection)
  let projector = startProjector({ bus, connection, projection: workflowProjection, onObservation })
  t.teardown(async () => {
    await projector.stop()
    positions.close()
    await database.end()
    await bus.close()
  })

  /** Stores what a simulated execution has decided, as so many messages. */
  const store = async (run: Simulation, id: string): Promise<number> => {
    const subject = eventSubject('executions', 'execution', id)
    let expectedSequence = 0
    for (let from = 0; from < run.facts.length; from += 3) {
      const message = { id: randomUUID(), facts: run.facts.slice(from, from + 3) }
      const { events } = execution
      const appended = await append(bus, { stream: 'EVT_EXECUTIONS', subject, expectedSequence, events, message })
      expectedSequence = appended.sequence
    }
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
    t.match(await listApprovals(database, { open: true, limit: 10 }), [
      { executionId: 'gate', run: 'ask', question: { message: 'Go?' }, answer: null },
    ])
    const answered = begin('gate2', flow([task('ask')]))
    answered.open('ask', { kind: 'pause', until: null, question: { message: 'Go?', role: 'admin', onTimeout: 'fail' } })
    answered.add(decideAnswer(answered.state, { run: 'ask', answer: 'approved', by: 'bob', comment: '' }, 1))
    answered.send({ type: 'nudge' })
    await store(answered, 'gate2')
    t.equal((await listApprovals(database, { open: true, limit: 10 })).length, 1)
    t.equal((await listApprovals(database, { open: false, limit: 10 })).length, 2)
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
})
