import t from 'tap'
import { connectBus } from '../../bus/connect.ts'
import { CallBatches } from '../../gateways/functions/call-batches.ts'
import { testNats } from '../support/servers.ts'

t.test(
  'half of the calls that are usually under way go in one message, and no call is kept for others that do not come',
  async (t) => {
    const { url } = await testNats(t)
    const bus = await connectBus({ url, name: 'test' })
    t.teardown(() => bus.close())
    let came = 0
    bus.connection.subscribe('call.>', { callback: () => void came++ })
    await bus.connection.flush()
    const batches = new CallBatches(bus, 'gateway')
    const call = { deadlineAt: Date.now() + 60_000, target: '{}', start: '{}', body: new Uint8Array(10) }
    const until = async (count: number) => {
      while (came < count) await new Promise((again) => setTimeout(again, 5))
    }

    t.equal(batches.send({ ...call, id: 0 }, 1).number, 1)
    await until(1)
    t.pass('one by itself is sent')

    const wave = (first: number) =>
      Array.from({ length: 64 }, (_, n) => batches.send({ ...call, id: first + n }, n + 1).number)
    const first = wave(1)
    // Now 64 are known to be usual.
    const second = wave(65)
    const sizes = Map.groupBy([...first, ...second], (number) => number)
    t.equal(
      Math.max(...[...sizes.values()].map(({ length }) => length)),
      32,
      'the other half is to be on its way meanwhile',
    )
    t.ok(new Set(second).size <= 3, `${new Set(second).size} messages: the end of one, one, the beginning of one`)
    await until(1 + sizes.size)

    const before = came
    batches.send({ ...call, id: 200 }, 10)
    await until(before + 1)
    t.pass('nor is one kept when fewer come than usual')
  },
)
