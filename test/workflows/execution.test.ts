import fc from 'fast-check'
import t from 'tap'
import { Rejected } from '../../schemas/failure.ts'
import { execution } from '../../schemas/workflows/execution.ts'
import {
  decideAnswer,
  decideCancel,
  decideClaim,
  decidePause,
  decideResume,
} from '../../schemas/workflows/execution-decide.ts'
import { initialExecution, isEnded, isLive } from '../../schemas/workflows/execution-state.ts'
import { type FlowPlan, type TaskPlan, tasksOf } from '../../schemas/workflows/flow-plan.ts'
import { turnId, turnOf } from '../../schemas/workflows/turn.ts'
import { flow, sequence, task } from './plans.ts'
import { block, items, Simulation } from './simulation.ts'

t.test('tasks run in the order they are written', async (t) => {
  const run = new Simulation(flow(sequence(task('a'), task('b')))).begin()
  t.same(run.scheduled, ['a'])
  run.succeed('a', { x: 1 })
  t.same(run.scheduled, ['b'])
  run.succeed('b')
  t.equal(run.state.stage, 'success')
  t.same(Object.keys(run.state.executed), ['a', 'b'])
})

t.test('a flow without tasks is through at once', async (t) => {
  t.equal(new Simulation(flow([])).begin().state.stage, 'success')
})

t.test('tasks start when what they depend on has ended', async (t) => {
  const run = new Simulation(flow([task('a'), task('b'), task('c', { needs: ['a', 'b'] })])).begin()
  t.same(run.scheduled, ['a', 'b'])
  run.succeed('b')
  t.same(run.scheduled, ['a'])
  run.succeed('a')
  t.same(run.scheduled, ['c'])
})

t.test('a result is taken once', async (t) => {
  const run = new Simulation(flow(sequence(task('a'), task('b')))).begin()
  run.succeed('a')
  t.same(run.succeed('a', { other: true }), [], 'the same attempt once more changes nothing')
  t.same(run.run('a')!.outputs, { json: {} })
  const late = run.result('a', { kind: 'success', outputs: { json: {} } }, { attempt: 7 })
  t.same(
    late.map(({ type }) => type),
    ['executions.task.late-result'],
    'one of another attempt is told',
  )
  t.same(run.scheduled, ['b'])
})

t.test('a failure ends the flow, and cancels what runs beside it', async (t) => {
  const run = new Simulation(flow([task('a'), task('b')])).begin()
  run.fail('a')
  t.equal(run.state.stage, 'failed')
  t.same(run.state.failure, { task: 'a', message: 'a failed', kind: 'refused' })
  t.equal(run.run('b')!.status, 'cancelled')
  const late = run.succeed('b')
  t.same(
    late.map(({ type }) => type),
    ['executions.task.late-result'],
  )
  t.equal(run.state.stage, 'failed', 'an end is written once')
})

t.test('an allowed failure does not end the flow', async (t) => {
  const run = new Simulation(flow(sequence(task('a', { allowFailure: true }), task('b')))).begin()
  run.fail('a')
  t.same(run.scheduled, ['b'])
  run.succeed('b')
  t.equal(run.state.stage, 'success')
})

t.test('a skipped task lets the next one run', async (t) => {
  const run = new Simulation(flow(sequence(task('a'), task('b')))).begin()
  run.result('a', { kind: 'skip', reason: 'runIf' })
  t.same(run.scheduled, ['b'])
  t.equal(run.run('a')!.status, 'skipped')
})

const retry = { maxAttempts: 3, delayMs: 100, backoff: 'exponential', factor: 2, maxDelayMs: 150, jitter: 0 } as const

t.test('a failure that may pass is tried again, later each time, up to a limit', async (t) => {
  const run = new Simulation(flow([task('a', { retry })])).begin()
  run.fail('a', 'unavailable')
  t.match(run.run('a'), { status: 'retrying', at: 1_100, attempt: 1 })
  run.later(99)
  t.same(run.scheduled, [], 'a timer that fires early does nothing')
  run.later(1)
  t.same([run.scheduled, run.run('a')!.attempt], [['a'], 2])
  run.fail('a', 'unavailable')
  t.equal(run.run('a')!.at, 1_250, 'the delay has a maximum')
  run.later(150)
  run.fail('a', 'unavailable')
  t.equal(run.state.stage, 'failed')
})

t.test('a refusal is not tried again', async (t) => {
  const run = new Simulation(flow([task('a', { retry })])).begin()
  run.fail('a', 'refused')
  t.equal(run.state.stage, 'failed')
})

t.test('errors run after a failure, finally after both, and the flow has failed nonetheless', async (t) => {
  const plan = flow([task('a')], { errors: [task('mend')], finally: [task('tidy')] })
  const run = new Simulation(plan).begin()
  run.fail('a')
  t.same(run.scheduled, ['mend'])
  run.succeed('mend')
  t.same(run.scheduled, ['tidy'])
  run.succeed('tidy')
  t.equal(run.state.stage, 'failed')
  t.equal(run.state.failure!.message, 'a failed')
})

t.test("finally runs after a success too, and its failure is the flow's", async (t) => {
  const run = new Simulation(flow([task('a')], { finally: [task('tidy')] })).begin()
  run.succeed('a')
  run.fail('tidy')
  t.equal(run.state.stage, 'failed')
  t.equal(run.state.failure!.task, 'tidy')
})

t.test('outputs are rendered at the end of a success', async (t) => {
  const run = new Simulation(flow([task('a')], { outputs: { sum: '{{ 1 }}' } })).begin()
  run.succeed('a')
  t.same(run.scheduled, ['$outputs'])
  run.succeed('$outputs', { sum: 1 })
  t.equal(run.state.stage, 'success')
  t.same(run.state.outputs, { json: { sum: 1 } })
  t.same(Object.keys(run.state.executed), ['a'])
})

t.test('control tasks', async (t) => {
  // biome-ignore lint/suspicious/noThenProperty: the name of a block of the flow language
  const choice = task('if', { type: 'core.if', blocks: { then: [task('yes')], else: [task('no')] } })

  t.test('a branch is run and the other is not', async (t) => {
    const run = new Simulation(flow([choice])).begin()
    run.open('if', block('then'))
    t.same(run.scheduled, ['if.yes'])
    run.succeed('if.yes')
    t.same(run.run('if')!.outputs, { json: { branch: 'then' } })
    t.equal(run.state.stage, 'success')
  })

  t.test('a branch that is not there is an empty one', async (t) => {
    const run = new Simulation(flow([choice])).begin()
    run.open('if', block(''))
    t.equal(run.state.stage, 'success')
  })

  const group = (more: Partial<TaskPlan> = {}, blocks: TaskPlan['blocks'] = {}) =>
    task('all', { type: 'core.parallel', ...more, blocks: { tasks: [task('a'), task('b'), task('c')], ...blocks } })

  t.test('no more run at a time than allowed', async (t) => {
    const run = new Simulation(flow([group()])).begin()
    run.open('all', block('tasks', 2))
    t.same(run.scheduled, ['all.a', 'all.b'])
    run.succeed('all.a')
    t.same(run.scheduled, ['all.b', 'all.c'])
  })

  t.test('a failure cancels the others, waits for them, or lets all run', async (t) => {
    for (const [onFailure, left] of [
      ['cancel', []],
      ['wait', ['all.b']],
      ['continue', ['all.b', 'all.c']],
    ] as const) {
      const run = new Simulation(flow([group()])).begin()
      run.open('all', block('tasks', 2, onFailure))
      run.fail('all.a')
      t.same(run.scheduled, left, onFailure)
      for (const key of left) run.succeed(key)
      t.equal(run.state.stage, 'failed')
    }
  })

  t.test('errors of a control task catch its failure', async (t) => {
    const run = new Simulation(
      flow(sequence(group({}, { errors: [task('mend')], finally: [task('tidy')] }), task('z'))),
    )
    run.begin()
    run.open('all', block('tasks'))
    run.fail('all.b')
    t.same(run.scheduled, ['all.mend'])
    run.succeed('all.mend')
    t.same(run.scheduled, ['all.tidy'])
    run.succeed('all.tidy')
    t.same(run.scheduled, ['z'])
  })

  t.test('a control task that is tried again begins anew', async (t) => {
    const run = new Simulation(flow([group({ retry })])).begin()
    run.open('all', block('tasks'))
    run.succeed('all.a')
    run.fail('all.b', 'unavailable')
    t.equal(run.run('all')!.status, 'retrying')
    run.later(100)
    t.same(run.scheduled, ['all'])
    t.equal(run.run('all.a'), undefined)
    run.open('all', block('tasks'))
    t.same(run.scheduled, ['all.a', 'all.b', 'all.c'])
    const late = run.result('all.a', { kind: 'success', outputs: { json: 'old' } }, { generation: 0 })
    t.same(
      late.map(({ type }) => type),
      ['executions.task.late-result'],
      'what the attempt before has still found is not taken for this one',
    )
    const stale = { run: 'all.a', turn: { attempt: 1, round: 0, generation: 0 }, worker: 'w1', now: run.now }
    t.same(decideClaim(run.state, stale), [], 'nor may it begin')
  })

  t.test('no turn of a task has the id of another', async (t) => {
    const loop = task('each', { type: 'items', blocks: { tasks: [task('a', { retry })] } })
    const run = new Simulation(flow([task('all', { type: 'block', retry, blocks: { tasks: [loop, task('b')] } })]))
    const ids = new Set<string>()
    const note = () => {
      for (const key of run.scheduled) ids.add(turnId('e1', key, turnOf(run.run(key)!)))
    }
    run.begin()
    for (let attempt = 1; attempt <= 3; attempt++) {
      note()
      run.open('all', block('tasks'))
      note()
      run.open('all.each', items(2))
      note()
      run.fail('all.each[0].a', 'unavailable')
      run.later(200)
      note()
      run.succeed('all.each[0].a')
      note()
      run.fail('all.b', 'unavailable')
      run.later(500)
    }
    const begun = run.facts.filter(({ type }) => type === 'executions.task.scheduled').length
    t.equal(run.state.stage, 'failed')
    t.equal(begun, 3 * 6, 'all, each, b, the first item twice and the second')
    t.equal(ids.size, begun)
  })

  t.test('a control task that takes too long fails with what is under it', async (t) => {
    const run = new Simulation(flow([group({ timeoutMs: 500 })])).begin()
    run.open('all', block('tasks'))
    run.later(500)
    t.match(run.run('all'), { status: 'failed', failure: { kind: 'timeout' } })
    t.same(run.scheduled, [])
    t.equal(run.state.stage, 'failed')
  })

  const each = (more: Partial<TaskPlan> = {}) =>
    task('each', { type: 'core.foreach', ...more, blocks: { tasks: sequence(task('a'), task('b')) } })

  t.test('items run so many at a time, and are folded into the loop when they are through', async (t) => {
    const run = new Simulation(flow([each()])).begin()
    run.open('each', items(3, 2))
    t.same(run.scheduled, ['each[0].a', 'each[1].a'])
    run.succeed('each[1].a', 11)
    run.succeed('each[1].b', 12)
    t.same(run.scheduled, ['each[0].a', 'each[2].a'])
    t.equal(run.run('each[1].a'), undefined)
    t.same(run.run('each')!.loop!.results[1], { a: { json: 11 }, b: { json: 12 } })
    for (const key of ['each[0].a', 'each[0].b', 'each[2].a', 'each[2].b']) run.succeed(key)
    t.equal(run.state.stage, 'success')
    t.same(run.run('each')!.outputs, { json: { count: 3 } })
  })

  t.test('no items are through at once', async (t) => {
    const run = new Simulation(flow([each()])).begin()
    run.open('each', items(0))
    t.equal(run.state.stage, 'success')
  })

  t.test('a failed item cancels the others, or lets all run', async (t) => {
    const run = new Simulation(flow([each()])).begin()
    run.open('each', items(5, 2))
    run.fail('each[0].a')
    t.equal(run.state.stage, 'failed')
    t.equal(run.state.failure!.task, 'a')
    const other = new Simulation(flow([each()])).begin()
    other.open('each', items(3, 1, 'continue'))
    other.fail('each[0].a')
    t.same(other.scheduled, ['each[1].a'])
  })

  t.test('a loop asks its condition before each round', async (t) => {
    const loop = task('loop', { type: 'flow.while', blocks: { tasks: [task('a')] } })
    const run = new Simulation(flow([loop])).begin()
    run.open('loop', { kind: 'round', round: 0, goOn: true })
    t.same(run.scheduled, ['loop[0].a'])
    run.succeed('loop[0].a')
    t.same(run.scheduled, ['loop'])
    run.open('loop', { kind: 'round', round: 1, goOn: true })
    t.same(run.scheduled, ['loop[1].a'])
    run.succeed('loop[1].a')
    run.open('loop', { kind: 'round', round: 2, goOn: false })
    t.equal(run.state.stage, 'success')
    t.same(run.run('loop')!.outputs, { json: { count: 2 } })
  })

  t.test("a sub-flow is waited for, and its failure is the task's", async (t) => {
    const child = { kind: 'child', executionId: 'c1', flowId: 'f2', inputs: {}, wait: true } as const
    const end = { type: 'child', run: 'sub', executionId: 'c1', outputs: { json: 5 }, failure: null } as const
    const run = new Simulation(flow([task('sub', { type: 'core.subflow' })])).begin()
    run.open('sub', child)
    t.equal(run.run('sub')!.status, 'waiting')
    t.same(run.send({ ...end, executionId: 'c2', status: 'success' }), [], 'another execution is not its child')
    run.send({ ...end, status: 'success' })
    t.same([run.state.stage, run.run('sub')!.outputs], ['success', { json: 5 }])
    const failing = new Simulation(flow([task('sub', { type: 'core.subflow' })])).begin()
    failing.open('sub', child)
    failing.send({ ...end, status: 'failed', failure: { message: 'no', kind: 'refused' } })
    t.equal(failing.state.stage, 'failed')
    const free = new Simulation(flow([task('sub', { type: 'core.subflow' })])).begin()
    free.open('sub', { ...child, wait: false })
    t.equal(free.state.stage, 'success')
  })

  t.test('a wait ends at its time', async (t) => {
    const run = new Simulation(flow([task('wait', { type: 'core.wait' })])).begin()
    run.open('wait', { kind: 'pause', until: 5_000, question: null })
    run.later(3_999)
    t.equal(run.state.stage, 'running')
    run.later(1)
    t.equal(run.state.stage, 'success')
  })
})

t.test('approvals', async (t) => {
  const asked = (onTimeout: 'fail' | 'approve' | 'reject' = 'fail') => {
    const run = new Simulation(flow([task('ask', { type: 'core.approval' })])).begin()
    run.open('ask', { kind: 'pause', until: 5_000, question: { message: 'Go?', role: 'editor', onTimeout } })
    return run
  }
  const answer = (answer: 'approved' | 'rejected') => ({ run: 'ask', answer, by: 'bob', comment: 'fine' })

  t.test('an approval lets the flow go on', async (t) => {
    const run = asked()
    run.add(decideAnswer(run.state, answer('approved'), run.now))
    run.send({ type: 'nudge' })
    t.equal(run.state.stage, 'success')
    t.same(run.run('ask')!.outputs, { json: { decision: 'approved', by: 'bob', comment: 'fine' } })
  })
  t.test('a rejection fails it', async (t) => {
    const run = asked()
    run.add(decideAnswer(run.state, answer('rejected'), run.now))
    run.send({ type: 'nudge' })
    t.match(run.state.failure, { message: 'Rejected by bob: fine' })
  })
  t.test('is given once, and not after its time', async (t) => {
    const run = asked()
    run.add(decideAnswer(run.state, answer('approved'), run.now))
    t.throws(() => decideAnswer(run.state, answer('rejected'), run.now), { code: 'workflows/approval-decided' })
    const late = asked()
    t.throws(() => decideAnswer(late.state, answer('approved'), 5_000), { code: 'workflows/approval-decided' })
    t.throws(() => decideAnswer(late.state, { ...answer('approved'), run: 'other' }, 1), {
      code: 'workflows/approval-not-found',
    })
  })
  for (const [onTimeout, stage] of [
    ['fail', 'failed'],
    ['reject', 'failed'],
    ['approve', 'success'],
  ] as const) {
    t.test(`nobody decides in time: ${onTimeout}`, async (t) => {
      t.equal(asked(onTimeout).later(4_000).state.stage, stage)
    })
  }
})

t.test('cancelling', async (t) => {
  const cancel = (run: Simulation, kill = false) => {
    run.add(decideCancel(run.state, { by: 'bob', now: run.now, kill }))
    run.send({ type: 'nudge' })
  }
  t.test('ends at once, and no result changes that', async (t) => {
    const run = new Simulation(flow([task('a')])).begin()
    cancel(run)
    t.equal(run.state.stage, 'cancelled')
    run.succeed('a')
    t.equal(run.state.stage, 'cancelled')
    t.throws(() => cancel(run), { code: 'workflows/execution-ended', status: 409 })
  })
  t.test('runs finally first, a kill does not', async (t) => {
    const plan = flow([task('a')], { finally: [task('tidy')] })
    const run = new Simulation(plan).begin()
    cancel(run)
    t.same([run.state.stage, run.scheduled, run.run('a')!.status], ['running', ['tidy'], 'cancelled'])
    run.succeed('tidy')
    t.equal(run.state.stage, 'cancelled')
    const killed = new Simulation(plan).begin()
    cancel(killed, true)
    t.equal(killed.state.stage, 'cancelled')
  })
  t.test('what has not begun never begins', async (t) => {
    const run = new Simulation(flow([task('a')], { finally: [task('tidy')] }))
    cancel(run)
    t.same([run.state.stage, run.scheduled], ['cancelled', []])
  })
  t.test('nor what was paused before it began', async (t) => {
    for (const concurrency of [null, { limit: 1, behavior: 'queue' } as const]) {
      const run = new Simulation(flow([task('a')], { finally: [task('tidy')], concurrency }))
      if (concurrency !== null) run.begin()
      run.add(decidePause(run.state, 'bob', run.now))
      cancel(run)
      t.same([run.state.stage, run.scheduled], ['cancelled', []])
    }
  })
  t.test('what is not there cannot be cancelled', async (t) => {
    t.throws(() => decideCancel(initialExecution, { by: 'x', now: 1, kill: false }), Rejected)
  })
})

t.test('a paused execution starts nothing until it is resumed', async (t) => {
  const run = new Simulation(flow(sequence(task('a', { retry }), task('b')))).begin()
  run.add(decidePause(run.state, 'bob', run.now))
  run.succeed('a')
  t.same([run.state.stage, run.scheduled], ['paused', []])
  run.add(decideResume(run.state, 'bob', run.now))
  run.send({ type: 'nudge' })
  t.same([run.state.stage, run.scheduled], ['running', ['b']])
  t.throws(() => decideResume(run.state, 'bob', run.now), { code: 'workflows/execution-state' })
})

t.test('an execution that takes too long times out, with its finally', async (t) => {
  const run = new Simulation(flow([task('a')], { timeoutMs: 1_000, finally: [task('tidy')] })).begin()
  run.later(1_000)
  t.same(run.scheduled, ['tidy'])
  run.succeed('tidy')
  t.equal(run.state.stage, 'timed-out')
})

t.test('places of a flow', async (t) => {
  const plan = (behavior: 'queue' | 'cancel' | 'fail') => flow([task('a')], { concurrency: { limit: 1, behavior } })
  t.test('an execution waits for one', async (t) => {
    const run = new Simulation(plan('queue')).begin()
    t.same([run.state.stage, run.state.slotRequested], ['queued', true])
    t.same(run.send({ type: 'nudge' }), [], 'it asks once')
    run.send({ type: 'slot', granted: true })
    t.same(run.scheduled, ['a'])
  })
  t.test('and has its turn while it is paused, but starts nothing', async (t) => {
    const run = new Simulation(plan('queue')).begin()
    run.add(decidePause(run.state, 'bob', run.now))
    t.same(run.send({ type: 'nudge' }), [])
    run.send({ type: 'slot', granted: true })
    t.same([run.state.stage, run.scheduled], ['paused', []])
    run.add(decideResume(run.state, 'bob', run.now))
    run.send({ type: 'nudge' })
    t.same([run.state.stage, run.scheduled], ['running', ['a']])
  })
  t.test('or is queued still when it is resumed before', async (t) => {
    const run = new Simulation(plan('queue')).begin()
    run.add(decidePause(run.state, 'bob', run.now))
    run.add(decideResume(run.state, 'bob', run.now))
    t.same([run.send({ type: 'nudge' }), run.state.stage], [[], 'queued'])
    run.send({ type: 'slot', granted: true })
    t.same([run.state.stage, run.scheduled], ['running', ['a']])
  })
  t.test('or ends when there is none', async (t) => {
    for (const [behavior, stage] of [
      ['cancel', 'cancelled'],
      ['fail', 'failed'],
    ] as const) {
      const run = new Simulation(plan(behavior)).begin()
      run.send({ type: 'slot', granted: false })
      t.equal(run.state.stage, stage)
    }
  })
})

t.test('a task is claimed once', async (t) => {
  const run = new Simulation(flow([task('a')])).begin()
  const claim = { run: 'a', turn: { attempt: 1, round: 0, generation: 0 }, worker: 'w1', now: 1 }
  run.add(decideClaim(run.state, claim))
  t.equal(run.run('a')!.claimedBy, 'w1')
  t.same(decideClaim(run.state, { ...claim, worker: 'w2' }), [])
  t.same(decideClaim(run.state, { ...claim, turn: { ...claim.turn, attempt: 2 } }), [])
})

t.test('what another execution has done is not done again', async (t) => {
  const carried = { a: { status: 'success' as const, outputs: { json: 1 } } }
  const run = new Simulation(flow(sequence(task('a'), task('b'))), { carried }).begin()
  t.same(run.scheduled, ['b'])
})

/** Random plans with unique names, in order or as they like. */
const plans: fc.Arbitrary<FlowPlan> = fc.integer({ min: 0, max: 2 ** 31 }).map((seed) => {
  let state = seed
  const random = (bound: number) => {
    state = (Math.imul(state, 1_103_515_245) + 12_345) >>> 0
    return (state >>> 8) % bound
  }
  let number = 0
  const list = (depth: number): readonly TaskPlan[] => {
    const tasks = Array.from({ length: random(4) }, () => {
      const kind = depth > 2 ? 0 : random(5)
      const name = `t${number++}`
      const more = {
        allowFailure: random(6) === 0,
        retry: random(3) === 0 ? { ...retry, maxAttempts: 2 } : null,
        timeoutMs: random(9) === 0 ? 50 : null,
      }
      if (kind === 1) {
        return task(name, {
          ...more,
          type: 'block',
          blocks: { tasks: list(depth + 1), errors: list(3), finally: list(3) },
        })
      }
      if (kind === 2) return task(name, { ...more, type: 'items', blocks: { tasks: list(depth + 1) } })
      if (kind === 3) return task(name, { ...more, type: 'round', blocks: { tasks: list(depth + 1) } })
      return task(name, more)
    })
    return random(2) === 0 ? sequence(...tasks) : tasks
  }
  const timeoutMs = random(5) === 0 ? 300 : null
  return flow(list(0), { errors: random(3) === 0 ? list(2) : [], finally: random(3) === 0 ? list(2) : [], timeoutMs })
})

t.test('a wide flow has a bounded number of tasks on the queue, and goes on as they come back', async (t) => {
  const wide = flow(Array.from({ length: 2_000 }, (_, index) => task(`t${index}`)))
  const loop = flow([task('each', { type: 'items', blocks: { tasks: [task('a'), task('b')] } })])
  for (const plan of [wide, loop]) {
    const run = new Simulation(plan).begin()
    if (plan === loop) run.open('each', items(2_000, 1_000))
    t.equal(run.scheduled.length, 1_000)
    for (let rounds = 0; !run.ended && rounds < 100; rounds++) {
      const results = run.scheduled.slice(0, 200).map((key) => {
        const { attempt, round } = run.run(key)!
        const result = { kind: 'success', outputs: { json: null } } as const
        return { type: 'result', run: key, attempt, round, startedAt: 1, worker: 'w1', result } as const
      })
      run.send(...results)
      if (run.scheduled.length > 1_000) t.fail(`${run.scheduled.length} tasks`)
    }
    t.equal(run.state.stage, 'success')
  }
})

t.test(
  'whatever happens, an execution ends once, every task run has one accepted result, and its history is its state',
  async (t) => {
    let runs = 0
    const found = fc.check(
      fc.property(plans, fc.infiniteStream(fc.nat({ max: 99 })), (plan, chances) => {
        const chance = () => chances.next().value as number
        const run = new Simulation(plan)
        run.survives = (facts) => (facts > 1 && chance() < 30 ? chance() % facts : facts)
        run.begin()
        for (let step = 0; !run.ended; step++) {
          if (step > 5_000) throw new Error(`stuck: ${JSON.stringify(run.state.runs)}`)
          const { scheduled } = run
          const luck = chance()
          if (luck < 2) run.add(decideCancelOrNothing(run))
          else if (luck < 4 && run.state.stage === 'running' && run.state.ending === null)
            run.add(decidePause(run.state, 'p', run.now))
          else if (run.state.stage === 'paused' && luck < 50) run.add(decideResume(run.state, 'p', run.now))
          if (scheduled.length === 0 || luck > 80) {
            run.later(25)
            continue
          }
          const key = scheduled[chance() % scheduled.length]!
          finishTask(run, key, chance)
        }
        runs++
        check(run)
      }),
      { numRuns: 2_000 },
    )
    const why = found.failed ? `${found.errorInstance} (seed ${found.seed}, path ${found.counterexamplePath})` : ''
    t.equal(why, '')
    t.ok(found.failed || runs === 2_000)
  },
)

function decideCancelOrNothing(run: Simulation) {
  return run.ended ? [] : decideCancel(run.state, { by: 'x', now: run.now, kill: false })
}

function finishTask(run: Simulation, key: string, chance: () => number): void {
  const { task: name } = run.run(key)!
  const plan = [...tasksOf(run.plan.tasks, run.plan.errors, run.plan.finally)].find((each) => each.name === name)!
  const { attempt, round: asked } = run.run(key)!
  const luck = chance()
  if (luck < 10) run.fail(key, luck < 5 ? 'refused' : 'unavailable')
  else if (plan.type === 'block')
    run.open(key, block('tasks', 1 + (luck % 3), (['cancel', 'wait', 'continue'] as const)[luck % 3]))
  else if (plan.type === 'items')
    run.open(key, items(luck % 5, 1 + (luck % 2), (['cancel', 'wait', 'continue'] as const)[luck % 3]))
  else if (plan.type === 'round') {
    const round = run.run(key)!.loop?.next ?? 0
    run.open(key, { kind: 'round', round, goOn: round < luck % 4 })
  } else if (luck < 15) run.result(key, { kind: 'skip', reason: 'x' })
  else run.succeed(key, luck)
  // What comes twice changes nothing.
  if (luck % 7 === 0) {
    const before = run.state
    run.result(key, { kind: 'success', outputs: { json: 'again' } }, { attempt, round: asked })
    if (JSON.stringify(before.runs) !== JSON.stringify(run.state.runs) && run.run(key)?.status !== 'scheduled') {
      const { outputs } = run.run(key) ?? { outputs: null }
      if (outputs !== null && 'json' in outputs && outputs.json === 'again') throw new Error(`${key} was taken twice`)
    }
  }
}

function check(run: Simulation): void {
  const folded = run.facts.reduce(execution.evolve, initialExecution)
  if (JSON.stringify(folded) !== JSON.stringify(run.state)) throw new Error('the history is not the state')
  const ends = run.facts.filter(({ type }) => type === 'executions.execution.ended')
  if (ends.length !== 1) throw new Error(`${ends.length} ends`)
  const live = Object.entries(run.state.runs).filter(([key, each]) => key !== '' && isLive(each))
  if (live.length > 0) throw new Error(`${live.map(([key]) => key)} live after the end`)
  if (!isEnded(run.state.stage)) throw new Error('not ended')
  const accepted = new Set<string>()
  for (const { type, data } of run.facts) {
    if (type !== 'executions.task.succeeded') continue
    const key = `${data.run}/${data.attempt}`
    const again = `${key}@${run.facts.filter((fact) => fact.type === 'executions.task.scheduled' && fact.data.run === data.run).length}`
    if (accepted.has(again) && !data.run.includes('.')) throw new Error(`${key} has two accepted results`)
    accepted.add(again)
  }
}
