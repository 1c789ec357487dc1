import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { connectBus } from '../../bus/connect.ts'
import { listDead } from '../../bus/dead.ts'
import { environment } from '../../schemas/config/environment.ts'
import { startBusbar } from '../support/command.ts'
import { testNats, testPostgres } from '../support/servers.ts'
import { dueTimes, type Firing, lateMs, Presence, slowness, spread, storyOf } from './lateness.ts'
import { child, ledgerPlugin, limit, type Shape, startedShapes, ticking } from './platform-flows.ts'
import { Load, Wounds } from './platform-load.ts'
import { differencesOfReadModels, drained, historyOf, placesOf, type Told, untilThere } from './platform-oracle.ts'
import { type Client, clientOf, startPlatform } from './platform-roles.ts'

t.setTimeout(600_000)

/** The whole run has 2,000: `CHAOS_EXECUTIONS=2000`. */
const executions = Number(environment().CHAOS_EXECUTIONS ?? 200)
const submitters = 12
const leastWounds = 12
/** On a slow machine they would never come to an end otherwise. */
const mostWounds = Math.max(20, executions / 20)

const folder = mkdtempSync(join(tmpdir(), 'busbar-chaos-'))
const [ledger, plugins] = [join(folder, 'ledger'), join(folder, 'plugins')]
writeFileSync(ledger, '')
mkdirSync(plugins)
writeFileSync(join(plugins, 'pay.mjs'), ledgerPlugin(ledger))
t.teardown(() => rmSync(folder, { recursive: true, force: true }))

const [nats, postgres] = await Promise.all([testNats(t, { syncInterval: 'always' }), testPostgres(t)])
const presence = new Presence()
presence.came('bus')
const platform = await startPlatform(t, { natsUrl: nats.url, postgresUrl: postgres.url, plugins, presence })
const client = clientOf(platform.gateways)
const bus = await connectBus({ url: nats.url, name: 'chaos' })
t.teardown(() => bus.close())

t.test('workers, gateways, projections, schedulers and the bus are killed under load', async (t) => {
  while ((await client.surely('GET', '/plugins/chaos.once')).status !== 200) await delay(50)
  const childId = await save(child)
  const shapes = startedShapes(childId)
  const flowIds = new Map<string, string>()
  for (const shape of shapes) flowIds.set(shape.name, await save(shape))
  const tickingId = await save(ticking)

  t.comment(`up after ${Math.round(performance.now())} ms`)
  const load = new Load(client, flowIds, shapes)
  const wounds = new Wounds(platform, nats, presence)
  const [over, healed] = [new AbortController(), new AbortController()]
  const wounding = wounds.run(mostWounds, over.signal)
  const approving = [load.approve(healed.signal), load.approve(healed.signal)]
  const more = (started: number) => started < executions || wounds.count < leastWounds
  await Promise.all(Array.from({ length: submitters }, () => load.submit(more)))
  over.abort()
  await wounding
  await load.cancelled()
  t.comment(`${load.accepted.length} accepted, ${load.unanswered} unanswered, killed ${JSON.stringify(wounds.by)}`)
  const { json: triggers } = await client.surely('GET', `/triggers?flowId=${tickingId}`)
  t.equal(triggers.length, 2)
  // A fast machine is through with the load before there are ticks enough to look at.
  const ticks = async () => (await client.surely('GET', `/executions?flowId=${tickingId}&limit=100`)).json.length
  while ((await ticks()) < 21) await delay(200)
  for (const { id } of triggers) t.equal((await client.surely('POST', `/triggers/${id}/disable`)).status, 200)
  await untilThere(bus)
  const history = await historyOf(bus, load.accepted)
  const [lastMs, endedMs] = [wounds.lastAt, performance.now() - wounds.lastAt].map(Math.round)
  t.comment(`${history.size} executions; the last wound at ${lastMs} ms, all had ended ${endedMs} ms later`)
  healed.abort()
  await Promise.all(approving)

  const all = [...history].map(([id, told]) => ({ id, told, flow: told.state.created!.flowName }))
  const of = (flow: string) => all.filter((each) => each.flow === flow)
  await t.test('nothing is lost, nothing is stuck, nothing ends but as it has to', async (t) => {
    const wrong = all.filter(({ flow, told: { state } }) => {
      if (flow === 'cancelled') return state.stage !== 'cancelled'
      if (flow === 'once' && state.stage === 'failed') return state.failure?.kind !== 'lost'
      return state.stage !== 'success'
    })
    t.same(wrong.slice(0, 5), [])
    t.equal(of('child').length, of('nested').length, 'one execution of the sub-flow for each that asks for it')
    for (const queue of ['COMMANDS', 'TASKS']) t.equal(await drained(bus, queue), 0, `${queue} is empty`)
    const letters = await listDead(bus)
    t.same(
      letters.map(({ consumer, subject, error }) => `${consumer} ${subject}: ${error}`),
      [],
      'nothing was given up',
    )
  })

  await t.test('one writer: every run has one result, every gate one answer, and an end is the end', async (t) => {
    const more = (counts: ReadonlyMap<string, number>) => [...counts].filter(([, times]) => times > 1)
    t.same(
      all.flatMap(({ told }) => more(told.accepted)),
      [],
    )
    t.same(
      all.flatMap(({ told }) => more(told.answered)),
      [],
    )
    t.same(
      all.flatMap(({ told }) => told.afterEnd),
      [],
    )
    t.same(
      of('gated')
        .filter(({ told }) => told.answered.get('gate') !== 1)
        .map(({ id }) => id),
      [],
      'each gate was answered',
    )
    const yes = [...load.approvals].filter(([, times]) => times > 1)
    t.same(yes, [], 'nobody was told twice that it was their answer')
  })

  await t.test('the ledger of side effects is what the history says', (t) => {
    const lines = readFileSync(ledger, 'utf8').split('\n').filter(Boolean)
    const paid = new Map<string, number>()
    for (const line of lines) paid.set(line.split(' ')[0]!, (paid.get(line.split(' ')[0]!) ?? 0) + 1)
    const byFlow = new Map([...shapes, child, ticking].map((shape) => [shape.name, shape]))
    const [due, allowed] = [new Set<string>(), new Set<string>()]
    for (const { id, told, flow } of all) {
      for (const run of byFlow.get(flow)!.pays) {
        const key = `${id}/${run}`
        if (told.state.stage === 'success') due.add(key)
        else if (run !== 'never') allowed.add(key)
      }
    }
    t.same(
      [...due].filter((key) => !paid.has(key)),
      [],
      'every side effect is there',
    )
    t.same(
      [...paid.keys()].filter((key) => !due.has(key) && !allowed.has(key)),
      [],
      'and no other',
    )
    const once = new Set(of('once').map(({ id }) => `${id}/only`))
    t.same(
      [...paid].filter(([key, times]) => once.has(key) && times > 1),
      [],
      'what must not run twice has not',
    )
    t.comment(`${lines.length - paid.size} of ${lines.length} side effects ran again under their key`)
    t.end()
  })

  await t.test('places of a flow: never more than there are, and none is kept', async (t) => {
    const { holders, most, granted, waiting } = await placesOf(bus, flowIds.get('limited')!)
    t.same([holders, waiting], [[], []])
    t.ok(most <= limit, `${most} at a time`)
    t.same(
      [...granted].sort(),
      of('limited')
        .map(({ id }) => id)
        .sort(),
    )
  })

  await t.test('one execution a tick, and no tick is left out', (t) => {
    for (const [name, everyMs] of [
      ['clock', 1_000],
      ['beat', 2_000],
    ] as const) {
      const fired = of('ticking')
        .map(({ told }) => told.state.created!.trigger)
        .filter((each) => each.name === name)
      const dates = fired.map(({ date }) => Date.parse(String(date))).sort((left, right) => left - right)
      t.ok(dates.length > 5)
      t.same(
        dates,
        dates.map((_, index) => dates[0]! + index * everyMs),
        `${dates.length} ticks of the ${name}`,
      )
    }
    t.end()
  })

  await t.test('the read models are what the history comes to, and nothing else', async (t) => {
    t.same(await differencesOfReadModels(bus, postgres.url), {})
    const told = await statuses(client)
    t.same([...told.keys()].sort(), [...history.keys()].sort(), 'the API lists every execution')
    t.same(
      all.filter(({ id, told: { state } }) => told.get(id) !== statusOf(state)).map(({ id }) => id),
      [],
    )
    t.match(await startBusbar(['audit', 'verify', `--app.nats.url=${nats.url}`]).finished, { code: 0 })
  })
  const silent = all
    .filter(({ flow }) => flow !== 'gated' && flow !== 'cancelled')
    .sort((a, b) => b.told.silence.ms - a.told.silence.ms)
  for (const { flow, told } of silent.slice(0, 5))
    t.comment(`${flow}: nothing for ${told.silence.ms} ms between ${told.silence.between}`)
  await t.test('waits, retries and ticks come within a second, once bus and worker are there', async (t) => {
    const slow = slowness(
      Object.values(platform.roles).flatMap((roles) => roles.flatMap(({ startsMs }) => startsMs)),
      3_000,
    )
    t.comment(`on a machine ${slow.toFixed(1)} times as slow as it could be`)
    const cameOut = await dueTimes(bus)
    const outOf = (each: Firing) => cameOut.get(`${each.what.slice(0, each.what.lastIndexOf('/'))}/${each.setTo}`) ?? []
    const waits = all.flatMap(({ told }) => told.firings)
    const ticks = of('ticking').map(({ id, told: { state, createdAt } }): Firing => {
      return { what: id, dueAt: Date.parse(String(state.created!.trigger.date)), firedAt: createdAt }
    })
    for (const [what, firings, role] of [
      ['waits and retries', waits, 'worker:workflows'],
      ['ticks', ticks, 'worker:scheduler'],
    ] as const) {
      const up = presence.stretches('bus', role)
      const late = firings.map((each) => lateMs(up, each))
      t.comment(`${what} after their time: ${spread(firings.map(({ dueAt, firedAt }) => firedAt - dueAt))} ms`)
      t.comment(`${what} while bus and ${role} were there: ${spread(late)} ms`)
      const latest = [...firings].sort((a, b) => lateMs(up, b) - lateMs(up, a))
      for (const each of latest.slice(0, 5)) t.comment(storyOf(up, each, outOf(each)))
      t.ok(firings.length >= 10)
      t.ok(Math.max(...late) <= 1_000 * slow, what)
    }
  })
})

async function save({ name, yaml }: Shape): Promise<string> {
  const answer = await client.surely('POST', '/flows', { name, namespace: 'default', yamlContent: yaml })
  if (answer.status !== 201) throw new Error(JSON.stringify(answer.json))
  return answer.json.id
}

function statusOf({ stage }: Told['state']): string {
  return stage === 'timed-out' ? 'TIMED_OUT' : stage.toUpperCase()
}

async function statuses(client: Client): Promise<ReadonlyMap<string, string>> {
  const found = new Map<string, string>()
  for (let path: string | null = '/executions?limit=500'; path !== null; ) {
    const { json, next } = await client.surely('GET', path)
    for (const { id, status } of json) found.set(id, status)
    path = next
  }
  return found
}
