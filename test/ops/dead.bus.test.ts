import t from 'tap'
import { connectBus } from '../../bus/connect.ts'
import { consume } from '../../bus/consume.ts'
import { listDead } from '../../bus/dead.ts'
import { publish } from '../../bus/publish.ts'
import { eventSubject } from '../../bus/subject.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { startBusbar } from '../support/command.ts'
import { testNats } from '../support/servers.ts'

t.setTimeout(60_000)

t.test('busbar dead', async (t) => {
  const { url } = await testNats(t)
  const bus = await connectBus({ url, name: 'test' })
  t.teardown(() => bus.close())
  await reconcileStreams(bus, streamSpecs())
  const fact = eventSubject('executions', 'execution', 'e1')
  const work = 'command.example.a'
  await publish(bus, { subject: work, body: 'first', headers: { Colour: 'red' } })
  await publish(bus, { subject: work, body: Buffer.from([0xff, 0x00]) })
  await publish(bus, { subject: fact, body: 'a fact' })
  const stop = new AbortController()
  const options = { maxDeliver: 1, handle: () => Promise.reject(new TypeError('no use')) }
  const consumers = [
    consume(bus, { ...options, stream: 'COMMANDS', consumer: 'workers-example' }, stop.signal),
    consume(bus, { ...options, stream: 'EVT_EXECUTIONS', consumer: 'projections-example' }, stop.signal),
  ]
  const dead = async () => (await bus.manager.streams.info('DEAD')).state.messages
  while ((await dead()) < 3) await new Promise((resolve) => setTimeout(resolve, 20))
  stop.abort()
  await Promise.all(consumers)
  const letters = await listDead(bus)
  const [first, second] = letters.filter(({ subject }) => subject === work).map(({ sequence }) => String(sequence))
  const kept = String(letters.find(({ subject }) => subject === fact)!.sequence)
  const run = (...args: string[]) => startBusbar(['dead', ...args, `--app.nats.url=${url}`]).finished

  await t.test('list tells who gave up on what, and why', async (t) => {
    const { code, stdout } = await run('list')
    t.equal(code, 0)
    t.equal(stdout.split('\n').length, 4)
    t.match(stdout, new RegExp(`^${first} \\S+Z workers-example ${work} at once: TypeError: no use$`, 'm'))
    const one = await run('list', '--consumer', 'projections-example')
    t.match(one.stdout, new RegExp(`^${kept} \\S+ projections-example ${fact} `))
    t.equal(one.stdout.split('\n').length, 2)
    const page = await run('list', '--limit', '1')
    t.match(page.stdout, /\nMore: --from \d+\n$/)
    const json = JSON.parse((await run('list', '--json')).stdout)
    t.equal(json.length, 3)
    t.match(json[0], { sequence: Number, consumer: String, error: 'TypeError: no use', sizeBytes: Number })
  })

  await t.test('show has the headers and the body', async (t) => {
    const text = JSON.parse((await run('show', first!)).stdout)
    t.match(text, { subject: work, headers: { Colour: 'red' }, body: 'first', stream: 'COMMANDS' })
    t.match(JSON.parse((await run('show', second!)).stdout), { bodyBase64: '/wA=' })
  })

  await t.test('retry puts work back, and no fact', async (t) => {
    const refused = await run('retry', kept)
    t.match(refused, { code: 1, stderr: /^busbar: .* is a fact that EVT_EXECUTIONS keeps/ })
    t.match(await run('retry', first!), { code: 0, stdout: '1 put back.\n' })
    const { state } = await bus.manager.streams.info('COMMANDS')
    t.equal(state.messages, 1)
    t.equal(await dead(), 2)
  })

  await t.test('drop forgets', async (t) => {
    t.match(await run('drop', second!, kept), { code: 0, stdout: '2 dropped.\n' })
    t.match(await run('list'), { code: 0, stdout: 'Nothing was given up on.\n' })
    t.match(await run('drop', kept), { code: 1, stderr: `busbar: There is no dead letter ${kept}.\n` })
    t.match(await run('drop', 'all'), { code: 1, stderr: /must be a whole number/ })
  })
})
