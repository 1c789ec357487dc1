import { randomBytes } from 'node:crypto'
import t from 'tap'
import { connectBus } from '../../bus/connect.ts'
import { readBytes, storeBytes } from '../../bus/objects.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { testNats } from '../support/servers.ts'

t.test('bodies of any size are read as they were stored, and nothing is left behind of who read them', async (t) => {
  const nats = await testNats(t)
  const bus = await connectBus({ url: nats.url, name: 'test' })
  t.teardown(() => bus.close())
  await reconcileStreams(bus, streamSpecs())
  const chunk = 128 * 1024
  for (const sizeBytes of [0, 1, chunk, chunk + 1, 33 * chunk + 7]) {
    const bytes = randomBytes(sizeBytes)
    const digest = await storeBytes(bus, bytes)
    await storeBytes(bus, randomBytes(10))
    const read = await Promise.all(Array.from({ length: 10 }, () => readBytes(bus, digest)))
    t.ok(read.every((each) => Buffer.compare(each, bytes) === 0), `${sizeBytes} bytes`) // biome-ignore format: one line
  }
  // A stream has a thousand consumers at most: what leaves one behind can be done so often, and then no more.
  const { state } = await bus.manager.streams.info('OBJ_bodies')
  t.equal(state.consumer_count, 0)
})
