import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import type { Bus } from '../../bus/connect.ts'
import { isEnded } from '../../schemas/workflows/execution-state.ts'
import { flow as flowPlan, sequence, task } from '../workflows/plans.ts'
import { type Firing, lateMs, slowness, spread, storyOf } from './lateness.ts'
import { ended, historyOf, parked, place, save, start, stateOf, until, type Worker } from './worker-place.ts'

t.setTimeout(180_000)

interface Timers {
  /** Of the executions that wait for them. */
  readonly ids: readonly string[]
  /** Of the first, epoch ms. */
  readonly dueAt: number
}

type Place = Awaited<ReturnType<typeof place>>

const timers = 'workers-workflows-timers'
const executions = 30
const waitMs = 3_000

/** What is done to three workers and their bus while timers come due. */
const wounds: readonly {
  readonly name: string
  readonly wound: (there: Place, workers: readonly Worker[], set: Timers) => Promise<void>
  /** Whose being there it takes: with nobody the time itself counts. */
  readonly needs: readonly string[]
}[] = [
  {
    name: 'a worker dies with some in hand, and others are there',
    needs: [],
    wound: async ({ bus, freeze, kill }, [first], set) => {
      // It asks for messages, and is given its share.
      await delay(set.dueAt - Date.now() - 50)
      freeze(first!)
      await untilHeld(bus, set)
      await kill(first!)
    },
  },
  {
    name: 'workers freeze, as they do when their machine loses its power, and another one is there',
    needs: [],
    wound: async ({ freeze }, [first, second]) => {
      freeze(first!)
      freeze(second!)
    },
  },
  {
    name: 'the bus dies',
    needs: ['bus'],
    wound: async ({ bus, killBus }, _, set) => {
      await untilDue(bus, set, 1)
      await killBus()
    },
  },
  {
    name: 'all workers die, and another one comes',
    needs: ['worker'],
    wound: async ({ bus, worker, freeze, kill }, workers, set) => {
      await delay(set.dueAt - Date.now() - 50)
      for (const each of workers) freeze(each)
      await untilDue(bus, set, executions / 6)
      await Promise.all(workers.map(kill))
      await worker().ready
    },
  },
]

for (const { name, wound, needs } of wounds) {
  t.test(`timers go off once, and within a second, when ${name}`, async (t) => {
    const there = await place(t)
    const { bus, worker, presence, lines } = there
    const workers = [worker(), worker(), worker()]
    await Promise.all(workers.map(({ ready }) => ready))
    const steps = sequence(
      task('moment', { type: 'core.wait', properties: { duration: `${waitMs}ms` } }),
      task('after', { type: 'test.pay' }),
    )
    const flowId = await save(bus, flowPlan(steps))
    const ids: string[] = []
    for (let number = 0; number < executions; number++) {
      ids.push(await start(bus, flowId))
      await delay(20)
    }
    for (const id of ids) await parked(bus, id, 'moment')
    await until(async () => (await bus.manager.consumers.info('TIMERS', timers)).num_waiting >= workers.length)
    const { opening } = (await stateOf(bus, ids[0]!)).runs.moment!
    await wound(there, workers, { ids, dueAt: opening?.kind === 'pause' ? opening.until! : 0 })
    const stages = await Promise.all(ids.map(async (id) => (await ended(bus, id)).stage))
    t.same([...new Set(stages)], ['success'])
    // A task that was in hand runs again under its key.
    const paid = new Set(lines().map((line) => line.split(' ')[0]))
    t.same([...paid].sort(), ids.map((id) => `${id}/after`).sort())
    const firings = await Promise.all(ids.map((id) => firingOf(bus, id)))
    const up = presence.stretches(...needs)
    const late = firings.map((each) => lateMs(up, each))
    const slow = slowness(
      workers.map(({ startMs }) => startMs),
      1_200,
    )
    t.comment(`${spread(late)} ms late, on a machine ${slow.toFixed(1)} times as slow as it could be`)
    const latest = [...firings].sort((a, b) => lateMs(up, b) - lateMs(up, a))
    for (const each of latest.slice(0, 3)) t.comment(storyOf(up, each))
    t.ok(Math.max(...late) <= 1_000 * slow, 'within a second')
  })
}

/** So many timers have gone off that nobody is through with. On a machine that is too slow for this it was all over before. */
async function untilDue(bus: Bus, { ids }: Timers, count: number): Promise<void> {
  await until(async () => {
    const { num_ack_pending, num_pending } = await bus.manager.consumers.info('TIMERS', timers)
    return num_ack_pending + num_pending >= count || isEnded((await stateOf(bus, ids.at(-1)!)).stage)
  })
}

/** Who is there is soon through with a timer: these are in the hands of the one who is not. As above, it may be all over before. */
async function untilHeld(bus: Bus, { ids }: Timers): Promise<void> {
  let held = 0
  await until(async () => {
    const { num_ack_pending } = await bus.manager.consumers.info('TIMERS', timers)
    held = num_ack_pending > 0 ? held + 1 : 0
    return held > 5 || isEnded((await stateOf(bus, ids.at(-1)!)).stage)
  })
}

/** As the history tells it, by the bus's clock; and it is through once. */
async function firingOf(bus: Bus, id: string): Promise<Firing> {
  const history = await historyOf(bus, id)
  const through = history.filter(({ fact }) => fact.type === 'executions.task.succeeded' && fact.data.run === 'moment')
  if (through.length !== 1) throw new Error(`${id} has waited ${through.length} times`)
  for (const { fact, at } of history) {
    if (fact.type !== 'executions.task.opened' || fact.data.opening.kind !== 'pause') continue
    return { what: id, dueAt: Math.max(at, fact.data.opening.until!), firedAt: through[0]!.at }
  }
  throw new Error(`${id} has not waited`)
}
