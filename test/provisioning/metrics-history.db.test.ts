import { resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { natsHeaders } from '../../bus/publish.ts'
import { metricSubject } from '../../bus/subject.ts'
import { keptSamples } from '../../bus/topology.ts'
import { measuredHeader, metricStream } from '../../schemas/provisioning/metric-point.ts'
import { startCommand } from '../support/command.ts'
import { eventually, type ProvisioningPlatform, platform } from './platform.ts'

t.setTimeout(120_000)

const shop = { projectName: 'shop', orgId: 'acme', databaseType: 'POSTGRESQL', tier: 'FREE' }
const subject = metricSubject('instance', 'shop')

interface Point {
  readonly timestamp: string
  readonly metricsAvailable: boolean
}

const history = async ({ call }: ProvisioningPlatform, query = '?limit=100') =>
  (await call('GET', `/api/provision/shop/metrics/history${query}`)).body as { metrics: Point[]; totalPoints: number }

const timesOf = async (p: ProvisioningPlatform) => (await history(p)).metrics.map(({ timestamp }) => timestamp)

/** Its points once there are so many of them. */
async function pointsFrom(p: ProvisioningPlatform, least: number): Promise<readonly string[]> {
  return await eventually(async () => {
    const times = await timesOf(p)
    if (times.length < least) throw new Error(`${times.length} points`)
    return times
  })
}

/** What those who listen hear from now on. */
function heardBy(t: Test, { bus }: ProvisioningPlatform): readonly string[] {
  const heard: string[] = []
  const subscription = bus.connection.subscribe(subject, {
    callback: (_error, message) => void heard.push(message.json<Point>().timestamp),
  })
  t.teardown(() => subscription.unsubscribe())
  return heard
}

async function stored({ bus }: ProvisioningPlatform): Promise<number> {
  const { state } = await bus.manager.streams.info(metricStream, { subjects_filter: subject })
  return state.subjects?.[subject] ?? 0
}

t.test('what was measured is known whatever became of who measured it', async (t) => {
  const p = await platform(t, { worker: false })
  const first = await p.startWorker()
  const heard = heardBy(t, p)
  const made = await p.call('POST', '/api/provision?wait=60', shop)
  t.equal(made.status, 201, JSON.stringify(made.body))
  let before = await pointsFrom(p, 4)

  await t.test('each point is told once and kept once, in order', async (t) => {
    const { metrics, totalPoints } = await history(p, '?limit=2')
    t.equal(totalPoints, 2)
    t.ok(metrics.every(({ metricsAvailable }) => metricsAvailable))
    const times = await timesOf(p)
    t.same(times, [...times].sort())
    await p.bus.connection.flush()
    t.same(times, heard.slice(0, times.length))
    const current = (await p.call('GET', '/api/provision/shop/metrics/current')).body
    await eventually(async () => {
      if (!(await timesOf(p)).includes(current.timestamp)) throw new Error('the newest point is not kept yet')
    })
  })

  await t.test('while no worker is there, and with the next one', async (t) => {
    await first.stop()
    before = await timesOf(p)
    t.equal((await p.call('GET', '/api/provision/shop/metrics/current')).status, 503, 'nobody measures')
    t.same(await timesOf(p), before)
    const second = await p.startWorker()
    const after = await pointsFrom(p, before.length + 2)
    t.same(after.slice(0, before.length), before)
    await second.stop()
    before = await timesOf(p)
  })

  await t.test('also after one that is killed, up to the last that was told', async (t) => {
    const { natsUrl, home, secretKeys, ports } = p
    const plan = JSON.stringify({ natsUrl, home, secretKeys, ports, victim: 'none' })
    const program = resolve(import.meta.dirname, '../chaos/provisioning-process.ts')
    const command = startCommand(process.execPath, [program, plan])
    t.teardown(() => command.process.kill('SIGKILL'))
    await pointsFrom(p, before.length + 2)
    command.process.kill('SIGKILL')
    await command.finished
    await p.bus.connection.flush()
    const last = heard.at(-1)!
    await eventually(async () => {
      if ((await timesOf(p)).at(-1) !== last) throw new Error('the last point is not there')
    })
    t.same((await timesOf(p)).slice(0, before.length), before)
    before = await timesOf(p)
  })

  const third = await p.startWorker()
  await t.test('points that were measured while the bus was away follow', async (t) => {
    const kept = (await pointsFrom(p, before.length + 1)).length
    const away = Date.now()
    await p.nats.kill()
    await sleep(2_500)
    const back = Date.now()
    await p.nats.restart()
    const during = await eventually(async () => {
      const times = (await timesOf(p)).map((time) => Date.parse(time))
      if (times.every((time) => time < back)) throw new Error('nothing is measured')
      t.comment(`${times.filter((time) => time <= away).length} of ${kept} from before`)
      return times.filter((time) => time > away && time < back)
    })
    t.ok(during.length >= 1)
  })

  await t.test('the newest are kept, however many there were', async (t) => {
    const headers = natsHeaders({ [measuredHeader]: made.body.id })
    for (let n = 0; n < keptSamples + 50; n++) p.bus.connection.publish(subject, JSON.stringify({ n }), { headers })
    await p.bus.connection.flush()
    await eventually(async () => {
      const newest = (await history(p)).metrics as unknown as { n?: number }[]
      if (!newest.some(({ n }) => n === keptSamples + 49)) throw new Error('the last is not there')
    })
    t.equal(await stored(p), keptSamples)
    t.equal((await history(p, '?limit=1000')).totalPoints, keptSamples)
    t.equal((await history(p, '')).totalPoints, 50)
    t.equal((await p.call('GET', '/api/provision/shop/metrics/history?limit=0')).status, 400)
  })

  await t.test('but nothing of an instance that is deleted, by whatever name', async (t) => {
    t.equal((await p.call('DELETE', '/api/provision/shop?wait=60')).status, 200)
    t.equal(await stored(p), 0)
    t.equal((await p.call('GET', '/api/provision/shop/metrics/history')).status, 404)
    // As of a worker that was cut off and did not hear of it.
    const late = natsHeaders({ [measuredHeader]: made.body.id })
    p.bus.connection.publish(subject, JSON.stringify({ timestamp: 'of the old one' }), { headers: late })
    const again = await p.call('POST', '/api/provision?wait=60', shop)
    t.equal(again.status, 201)
    const times = await pointsFrom(p, 2)
    t.equal(await stored(p) > times.length, true, 'it lies there') // biome-ignore format: one line
    t.ok(
      times.every((time) => Date.parse(time) >= Date.parse(again.body.createdAt)),
      times.join(),
    )
    t.equal((await p.call('DELETE', '/api/provision/shop?wait=60')).status, 200)
  })
  await third.stop()
})
