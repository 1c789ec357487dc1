import { setTimeout as sleep } from 'node:timers/promises'
import { queryObjects } from 'node:v8'
import t from 'tap'
import { Type } from 'typebox'
import { BusUnavailable } from '../../bus/connect.ts'
import { lastMessage, readMessage } from '../../bus/load.ts'
import { readPage } from '../../bus/page.ts'
import { eventSubject, timerSubject } from '../../bus/subject.ts'
import { execution } from '../../schemas/workflows/execution.ts'
import { ExecutionActor } from '../../workers/workflows/execution-actor.ts'
import { executionPlace } from '../../workers/workflows/executions.ts'
import { taskKv } from '../../workers/workflows/kv.ts'
import { definePlugin, TaskFailure, type TaskServices } from '../../workers/workflows/plugin.ts'
import { foreach } from '../../workers/workflows/plugins/core/foreach.ts'
import { choose } from '../../workers/workflows/plugins/core/if.ts'
import { log } from '../../workers/workflows/plugins/core/log.ts'
import { parallel } from '../../workers/workflows/plugins/core/parallel.ts'
import { wait } from '../../workers/workflows/plugins/core/wait.ts'
import { ended, engineOf, engineStage, run, save, stored } from './engine-stage.ts'
import { flow as plan, sequence, task } from './plans.ts'

const echo = definePlugin({
  id: 'test.echo',
  name: 'Echo',
  category: 'Custom',
  description: 'Gives what it gets.',
  input: Type.Object({ value: Type.Unknown() }),
  output: Type.Object({ value: Type.Unknown() }),
  example: '',
  async run({ input }) {
    return { value: input.value }
  },
})

/** Fails so often, for each value. */
const failing = new Map<string, number>()
const flaky = definePlugin({
  id: 'test.flaky',
  name: 'Flaky',
  category: 'Custom',
  description: 'Fails for a while.',
  input: Type.Object({ name: Type.String() }),
  output: Type.Object({}),
  example: '',
  async run({ input: { name } }) {
    const left = failing.get(name) ?? 0
    failing.set(name, left - 1)
    if (left > 0) throw new TaskFailure('unavailable', 'Not yet')
    return {}
  },
})

const plugins = [log, choose, echo, flaky, parallel, foreach, wait]

t.test('the engine', async (t) => {
  const { bus } = await engineStage(t)
  const engine = await engineOf(bus, plugins)
  t.teardown(() => engine.stop())

  t.test('what has ended leaves nothing in memory', async (t) => {
    const waits = task('pause', { type: 'core.wait', properties: { duration: '1s' } })
    const flowId = await save(bus, plan(sequence(task('one', { type: 'test.echo', properties: { value: 1 } }), waits)))
    const ids = await Promise.all(Array.from({ length: 50 }, () => run(bus, flowId)))
    await Promise.all(ids.map((id) => ended(bus, id)))
    while (queryObjects(ExecutionActor, { format: 'count' }) > 0) await sleep(20)
    t.pass('no execution is kept')
  })

  t.test('runs tasks in order and hands outputs on', async (t) => {
    const flowId = await save(
      bus,
      plan(
        sequence(
          task('a', { type: 'test.echo', properties: { value: '{{ inputs.n }}' } }),
          task('b', { type: 'test.echo', properties: { value: 'got {{ outputs["a"]["value"] }}' } }),
          task('c', { properties: { message: '{{ outputs.b.value }}' } }),
        ),
        { outputs: { text: '{{ outputs.c.message }}' } },
      ),
    )
    const state = await ended(bus, await run(bus, flowId, { n: 5 }))
    t.equal(state.stage, 'success')
    t.same(state.outputs, { json: { text: 'got 5' } })
  })

  t.test('runs a hundred at a time', async (t) => {
    const flowId = await save(
      bus,
      plan(
        sequence(
          task('a', { properties: { message: 'x' } }),
          task('b', { type: 'test.echo', properties: { value: 1 } }),
        ),
      ),
    )
    const began = performance.now()
    const ids = await Promise.all(Array.from({ length: 100 }, () => run(bus, flowId)))
    const states = await Promise.all(ids.map((id) => ended(bus, id)))
    t.comment(`${Math.round(performance.now() - began)} ms`)
    t.ok(states.every(({ stage }) => stage === 'success'))
  })

  t.test('sets a timer before it stores what asks for one, so that nobody can die in between', async (t) => {
    const steps = sequence(task('w', { type: 'core.wait', properties: { duration: '1h' } }), task('after'))
    const executionId = await run(bus, await save(bus, plan(steps, { timeoutMs: 3_600_000 })))
    const evt = executionPlace(executionId)
    while ((await stored(bus, executionId)).state.runs.w?.status !== 'waiting') await sleep(10)
    const events = await readPage(bus, evt.stream, { seq: 1, next_by_subj: evt.subject, batch: 10 })
    const storedAt = async (type: string) => {
      for (const event of events) {
        const { facts } = await readMessage(bus, execution.events, event)
        if (facts.some((fact) => fact.type === type)) return event.time.getTime()
      }
      return 0
    }
    const timerAt = async (id: string) =>
      (await lastMessage(bus, 'TIMERS', timerSubject('executions', `${executionId}/${id}`)))!.time.getTime()
    t.ok((await timerAt('w/1/pause')) <= (await storedAt('executions.task.opened')))
    t.ok((await timerAt('deadline')) <= (await storedAt('executions.execution.started')))
  })

  t.test('runs what is parallel on the queue, and decides on what comes back', async (t) => {
    const tasks = Array.from({ length: 20 }, (_, i) => task(`t${i}`, { type: 'test.echo', properties: { value: i } }))
    const state = await ended(bus, await run(bus, await save(bus, plan(tasks))))
    t.equal(state.stage, 'success')
    t.equal(Object.keys(state.executed).length, 20)
  })
  t.test('runs on the queue once more what is under a control task that is tried again', async (t) => {
    const retry = { maxAttempts: 5, delayMs: 20, backoff: 'constant', factor: 1, maxDelayMs: 20, jitter: 0 } as const
    failing.set('b', 2)
    const under = ['a', 'b', 'c'].map((name) => task(name, { type: 'test.flaky', properties: { name } }))
    const all = task('all', { type: 'core.parallel', retry, blocks: { tasks: under } })
    const state = await ended(bus, await run(bus, await save(bus, plan([all]))))
    t.match(state, { stage: 'success', runs: { all: { attempt: 3 } } })
  })
  t.test('decides on more at a time than fits into a message', async (t) => {
    const wide = Array.from({ length: 1_200 }, (_, index) => task(`t${index}`, { properties: { message: 'x' } }))
    const each = task('each', {
      type: 'core.foreach',
      properties: { items: 700, concurrency: 700 },
      blocks: { tasks: [task('a', { properties: { message: 'x' } })] },
    })
    for (const tasks of [wide, [each]]) {
      const state = await ended(bus, await run(bus, await save(bus, plan(tasks))))
      t.equal(state.stage, 'success')
      t.equal(Object.keys(state.executed).length, tasks === wide ? 1_200 : 2)
    }
  })

  t.test('carries the state of a long loop now and then, so that it need not be read from the beginning', async (t) => {
    const under = [task('a', { type: 'test.echo', properties: { value: `{{ item }} ${'x'.repeat(200)}` } })]
    const each = task('each', {
      type: 'core.foreach',
      properties: { items: 300, concurrency: 20 },
      blocks: { tasks: under },
    })
    const executionId = await run(bus, await save(bus, plan([each])))
    const state = await ended(bus, executionId)
    t.equal(state.stage, 'success')
    const { results } = state.runs.each!.loop!
    t.same(
      results.map((result) => Number.parseInt((result!.a as { json: { value: string } }).json.value, 10)),
      results.map((_, index) => index),
    )
    const sizes: number[] = []
    const query = { seq: 1, next_by_subj: eventSubject('executions', 'execution', executionId), batch: 1_000 }
    for (const event of await readPage(bus, 'EVT_EXECUTIONS', query)) {
      const message = await readMessage(bus, execution.events, event)
      sizes.push(message.state === undefined ? 0 : JSON.stringify(message.state).length)
    }
    const large = sizes.filter((size) => size > 16 * 1024)
    t.ok(large.length > 0 && large.length < sizes.length / 5, `${large.length} of ${sizes.length}`)
  })
})

t.test('a bus that dies while a task runs is waited for, and the task is not run again', async (t) => {
  const { nats, bus } = await engineStage(t)
  const running = new Map<string, PromiseWithResolvers<void>>()
  const ran: string[] = []
  const slow = (id: string, effect: 'idempotent' | 'once') =>
    definePlugin({
      id,
      name: id,
      category: 'Custom',
      description: 'Gives much, when it is told to.',
      input: Type.Object({ name: Type.String() }),
      output: Type.Object({ text: Type.String() }),
      example: '',
      effect,
      async run({ input: { name }, services }) {
        ran.push(name)
        await running.get(name)!.promise
        const found = await services.kv.get('default', 'a-key')
        return { text: 'x'.repeat(40_000), found: found?.value }
      },
    })
  const slowly = [slow('test.slow', 'idempotent'), slow('test.once', 'once')]
  const kv = taskKv(bus)
  let away = 0
  const engine = await engineOf(bus, [...slowly, ...plugins], {
    services: { kv } as unknown as TaskServices,
    credential: async () => {
      if (away-- > 0) throw new BusUnavailable('It is away')
      return { value: 'a secret of its own' }
    },
    kv: async (namespace, key) => {
      if (away-- > 0) throw new BusUnavailable('It is away')
      return (await kv.get(namespace, key))?.value ?? null
    },
    onObservation: () => undefined,
  })
  t.teardown(() => engine.stop())
  await kv.put('default', 'a-key', 'a value')
  // The first runs beside the decisions, the others come from the queue.
  const names = ['a', 'b', 'c']
  for (const name of names) running.set(name, Promise.withResolvers())
  const tasks = names.map((name) =>
    task(name, { type: name === 'c' ? 'test.once' : 'test.slow', properties: { name } }),
  )
  const last = task('last', {
    type: 'test.echo',
    needs: ['a', 'b', 'c'],
    properties: { value: `{{ outputs.b.text }} {{ kv["a-key"] }} ${'$'}{TOKEN}` },
  })
  const executionId = await run(bus, await save(bus, plan([...tasks, last])))
  while (ran.length < names.length) await sleep(10)
  await nats.kill()
  for (const { resolve } of running.values()) resolve()
  await sleep(1_500)
  // Whoever reads a credential or a template of a task then.
  away = 3
  await nats.restart()
  const state = await ended(bus, executionId)
  t.match(state, { stage: 'success', failure: null, runs: { a: { attempt: 1 }, c: { attempt: 1 } } })
  t.same(ran.sort(), names)
  t.ok(away < 0)
})
