import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { Type } from 'typebox'
import { readMessage } from '../../bus/load.ts'
import { readPage } from '../../bus/page.ts'
import { execution } from '../../schemas/workflows/execution.ts'
import { isEnded } from '../../schemas/workflows/execution-state.ts'
import type { FlowPlan } from '../../schemas/workflows/flow-plan.ts'
import { sendCommand } from '../../workers/workflows/follow-ups.ts'
import { definePlugin } from '../../workers/workflows/plugin.ts'
import { foreach } from '../../workers/workflows/plugins/core/foreach.ts'
import { log } from '../../workers/workflows/plugins/core/log.ts'
import { parallel } from '../../workers/workflows/plugins/core/parallel.ts'
import { ended, engineOf, engineStage, run, save, stored, until } from './engine-stage.ts'
import { flow as plan, sequence, task } from './plans.ts'

/** What users of other engines complain of, and what has to be so here. */

t.setTimeout(120_000)

/** By gate: opened when it is; whoever comes before waits. */
const gates = new Map<string, PromiseWithResolvers<void>>()
const came = new Map<string, number>()
const gate = definePlugin({
  id: 'test.gate',
  name: 'Gate',
  category: 'Custom',
  description: 'Waits until it is opened.',
  input: Type.Object({ name: Type.String() }),
  output: Type.Object({}),
  example: '',
  effect: 'idempotent',
  async run({ input: { name } }) {
    came.set(name, (came.get(name) ?? 0) + 1)
    const opened = gates.get(name) ?? Promise.withResolvers<void>()
    gates.set(name, opened)
    await opened.promise
    return {}
  },
})
const quick = definePlugin({
  id: 'test.quick',
  name: 'Quick',
  category: 'Custom',
  description: 'Does something, but not while it is decided.',
  input: Type.Object({}),
  output: Type.Object({}),
  example: '',
  effect: 'idempotent',
  run: async () => ({}),
})
const large = definePlugin({
  id: 'test.large',
  name: 'Large',
  category: 'Custom',
  description: 'Gives much.',
  input: Type.Object({ bytes: Type.Integer() }),
  output: Type.Object({ text: Type.String() }),
  example: '',
  run: async ({ input: { bytes } }) => ({ text: 'x'.repeat(bytes) }),
})
const plugins = [log, gate, quick, large, parallel, foreach]

const held = (name: string) => task(name, { type: 'test.gate', properties: { name } })
const does = (name: string) => task(name, { type: 'test.quick' })
const say = (name: string) => task(name, { properties: { message: name } })

t.test('a big payload jams nothing', async (t) => {
  const { bus } = await engineStage(t)
  const engine = await engineOf(bus, plugins)
  t.teardown(() => engine.stop())
  const giving = (megabytes: number) =>
    plan(
      sequence(
        task('much', { type: 'test.large', properties: { bytes: megabytes * 1024 ** 2 } }),
        task('size', { properties: { message: '{{ outputs.much.text | size }}' } }),
      ),
      { name: `gives ${megabytes} MB` },
    )
  const [fits, tooLarge, small] = await Promise.all([
    save(bus, giving(50)),
    save(bus, giving(65)),
    save(bus, plan([say('a')])),
  ])
  const ids = [await run(bus, fits), await run(bus, tooLarge)]
  const others = await Promise.all(Array.from({ length: 20 }, () => run(bus, small)))
  for (const id of others) t.equal((await ended(bus, id)).stage, 'success')
  const [beside, refused] = await Promise.all(ids.map((id) => ended(bus, id)))
  t.match(beside, { stage: 'success', runs: { much: { outputs: { object: String } } } }, 'it lies in the object store')
  t.same(beside!.runs.size!.outputs, { json: { message: String(50 * 1024 ** 2) } })
  t.match(refused, { stage: 'failed', failure: { task: 'much', kind: 'refused', message: /larger than 64 MB/ } })
  const query = { seq: 1, next_by_subj: 'evt.executions.>', batch: 1_000 }
  const sizes = (await readPage(bus, 'EVT_EXECUTIONS', query)).map(({ data }) => data.length)
  t.ok(Math.max(...sizes) < 64 * 1024, 'no event has it')
})

t.test('thousands of iterations cost what a few cost, each', async (t) => {
  const { bus } = await engineStage(t)
  const engine = await engineOf(bus, plugins)
  t.teardown(() => engine.stop())
  const costs: number[] = []
  for (const items of [1_000, 10_000]) {
    const each = task('each', {
      type: 'core.foreach',
      properties: { items, concurrency: 50 },
      blocks: { tasks: [say('a')] },
    })
    const before = (await bus.manager.streams.info('EVT_EXECUTIONS')).state
    const state = await ended(bus, await run(bus, await save(bus, plan([each]))))
    t.equal(state.stage, 'success')
    const { results } = state.runs.each!.loop!
    t.equal(results.filter((result) => result !== null).length, items)
    const after = (await bus.manager.streams.info('EVT_EXECUTIONS')).state
    costs.push((after.bytes - before.bytes) / items)
    const query = { seq: before.last_seq + 1, next_by_subj: 'evt.executions.>', batch: 20_000 }
    const begun = new Map<number, number>()
    for (const stored of await readPage(bus, 'EVT_EXECUTIONS', query)) {
      for (const { type, data } of (await readMessage(bus, execution.events, stored)).facts) {
        if (type === 'executions.task.iteration-started') begun.set(data.index, (begun.get(data.index) ?? 0) + 1)
      }
    }
    t.ok(
      [...begun.values()].every((times) => times === 1),
      'none runs twice',
    )
  }
  t.ok(costs[1]! < costs[0]! * 2, `${costs.map(Math.round).join(', ')} bytes of history an iteration`)
})

t.test('parallel branches run at the same time', async (t) => {
  const { bus } = await engineStage(t)
  const engine = await engineOf(bus, plugins)
  t.teardown(() => engine.stop())
  const names = ['p1', 'p2', 'p3', 'p4']
  const all = task('all', { type: 'core.parallel', blocks: { tasks: names.map(held) } })
  const id = await run(bus, await save(bus, plan([all])))
  // None of them ends before all have begun.
  await until(async () => (names.every((name) => came.get(name) === 1) ? true : null))
  for (const name of names) gates.get(name)!.resolve()
  t.equal((await ended(bus, id)).stage, 'success')
})

const batches: Record<string, { plan: (name: string) => FlowPlan; flows: number; namespace: string }> = {
  'of one flow, whose tasks run where it is decided': {
    plan: (name) => plan([held(name)], { name }),
    flows: 1,
    namespace: 'default',
  },
  'of many flows of another namespace': {
    plan: (name) => plan([held(name)], { name }),
    flows: 25,
    namespace: 'batch',
  },
  'of three flows of its own namespace': {
    plan: (name) => plan([held(name)], { name }),
    flows: 3,
    namespace: 'default',
  },
  'of one flow, whose tasks are on the queue': {
    plan: (name) =>
      plan([task('both', { type: 'core.parallel', blocks: { tasks: [does('first'), held(name)] } })], { name }),
    flows: 1,
    namespace: 'default',
  },
  'of three flows, whose tasks are on the queue': {
    plan: (name) =>
      plan([task('both', { type: 'core.parallel', blocks: { tasks: [does('first'), held(name)] } })], { name }),
    flows: 3,
    namespace: 'default',
  },
  'of one flow, whose tasks follow on commands': {
    // Each begins when it is given a place.
    plan: (name) => plan([held(name)], { name, concurrency: { limit: 100, behavior: 'queue' } }),
    flows: 1,
    namespace: 'default',
  },
}
for (const [index, [title, batch]] of Object.entries(batches).entries()) {
  t.test(`a batch does not delay what comes behind it: ${title}`, async (t) => {
    const { bus } = await engineStage(t)
    const name = `batch-${index}`
    const opened = Promise.withResolvers<void>()
    gates.set(name, opened)
    const flows = await Promise.all(
      Array.from({ length: batch.flows }, (_, n) =>
        save(bus, { ...batch.plan(name), name: `${name}-${n}` }, batch.namespace),
      ),
    )
    const ids: string[] = []
    for (let n = 0; n < 200; n++) ids.push(await run(bus, flows[n % flows.length]!))
    let engine = await engineOf(bus, plugins, { concurrency: 8, taskConcurrency: 8 })
    t.teardown(() => engine.stop())
    await until(async () => ((came.get(name) ?? 0) >= 8 ? true : null))
    // Behind all of it, and with tasks of every kind.
    const both = task('both', { type: 'core.parallel', blocks: { tasks: [does('b'), does('c')] } })
    const own = await run(bus, await save(bus, plan(sequence(say('a'), both, does('d')), { name: 'interactive' })))
    t.equal((await ended(bus, own)).stage, 'success')
    const { sequence: end } = await stored(bus, own)
    // Nothing of the batch has: it waits for us.
    for (const id of ids) t.notOk(isEnded((await stored(bus, id)).state.stage))
    if (index === 0) {
      // What waits on the side is not nudged ahead of its turn, and a worker that goes leaves it to others.
      const before = came.get(name)!
      for (const id of ids) await sendCommand(bus, id, { type: 'nudge', sweep: true }, `${id}/swept`)
      await until(async () => ((await bus.manager.streams.info('COMMANDS')).state.messages === 0 ? true : null))
      t.ok(came.get(name)! <= before + 16, `${came.get(name)} of ${before}`)
      await Promise.race([engine.stop(), sleep(100).then(() => opened.resolve())])
      engine = await engineOf(bus, plugins, { concurrency: 8, taskConcurrency: 8, ackWaitMs: 1_000 })
    }
    if (index === 1) {
      // What is taken from the side lane is found by whoever looks for what is idle.
      t.ok((await bus.manager.streams.info('BACKLOG')).state.messages > 100)
      await bus.manager.streams.purge('BACKLOG')
      for (const id of ids) await sendCommand(bus, id, { type: 'nudge', sweep: true }, `${id}/swept`)
    }
    opened.resolve()
    for (const id of ids) {
      await ended(bus, id)
      const { state, sequence } = await stored(bus, id)
      t.ok(state.stage === 'success' && sequence > end)
    }
    for (const stream of ['BACKLOG', 'TASKS', 'COMMANDS']) {
      await until(async () => ((await bus.manager.streams.info(stream)).state.messages === 0 ? true : null))
    }
    t.same(await readPage(bus, 'DEAD', { seq: 1, next_by_subj: 'dead.>', batch: 10 }), [])
  })
}
