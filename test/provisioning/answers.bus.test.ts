import { connect, createServer, type Socket } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { connectBus } from '../../bus/connect.ts'
import { asker } from '../../gateways/provisioning/ask.ts'
import { instance } from '../../schemas/provisioning/instance.ts'
import { answerQuestions } from '../../workers/provisioning/answers.ts'
import type { Driver, EngineStatus } from '../../workers/provisioning/driver.ts'
import { testNats } from '../support/servers.ts'

t.test('an answer that no message can carry is refused, and the next one given', async (t) => {
  const { url } = await testNats(t)
  const bus = await connectBus({ url, name: 'test' })
  t.teardown(() => bus.close())
  const told: EngineStatus[] = []
  // Nothing but its engines is asked for here.
  const driver = { name: 'local', place: 'here', engines: async () => told } as unknown as Driver
  const seen: unknown[] = []
  const known = { driver, stateOf: () => instance.initial, watchOf: () => null }
  const answering = await answerQuestions(bus, known, (observation) => seen.push(observation))
  t.teardown(() => answering.stop())
  const ask = asker(bus)

  told.push({ databaseType: 'POSTGRESQL', installed: true, versions: ['x'.repeat(9 * 1024 ** 2)], advice: null })
  await t.rejects(ask('engines', {}), { code: 'provisioning/answer-too-large', status: 422 })
  told.length = 0
  t.strictSame(await ask('engines', {}), { driver: 'local', place: 'here', engines: [] })
  t.strictSame(seen, [])
})

/** Where a server hears late what it is told. */
async function slowWayTo(t: Pick<Test, 'teardown'>, url: string, lateMs: number): Promise<string> {
  const { hostname, port } = new URL(url)
  const sockets = new Set<Socket>()
  const proxy = createServer((near) => {
    const far = connect(Number(port), hostname)
    for (const socket of [near, far]) sockets.add(socket.on('error', () => socket.destroy()))
    far.pipe(near)
    near.on('data', (data) => void sleep(lateMs).then(() => far.write(data)))
    near.once('close', () => far.destroy())
  })
  await new Promise<void>((listening) => proxy.listen(0, '127.0.0.1', listening))
  t.teardown(() => {
    for (const socket of sockets) socket.destroy()
    proxy.close()
  })
  return url.replace(`${hostname}:${port}`, `127.0.0.1:${(proxy.address() as { port: number }).port}`)
}

t.test('whoever asks once a worker has started is answered, however slow its connection', async (t) => {
  const { url } = await testNats(t)
  const bus = await connectBus({ url, name: 'gateway' })
  const slow = await connectBus({ url: await slowWayTo(t, url, 300), name: 'worker' })
  for (const each of [bus, slow]) t.teardown(() => each.close())
  const driver = { name: 'local', place: 'here', engines: async () => [] } as unknown as Driver
  const known = { driver, stateOf: () => instance.initial, watchOf: () => null }
  const answering = await answerQuestions(slow, known, () => undefined)
  t.teardown(() => answering.stop())
  t.strictSame(await asker(bus)('engines', {}), { driver: 'local', place: 'here', engines: [] })
})
