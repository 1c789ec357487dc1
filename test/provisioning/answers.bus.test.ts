import t from 'tap'
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
  const answering = answerQuestions(bus, known, (observation) => seen.push(observation))
  t.teardown(() => answering.stop())
  const ask = asker(bus)

  told.push({ databaseType: 'POSTGRESQL', installed: true, versions: ['x'.repeat(9 * 1024 ** 2)], advice: null })
  await t.rejects(ask('engines', {}), { code: 'provisioning/answer-too-large', status: 422 })
  told.length = 0
  t.strictSame(await ask('engines', {}), { driver: 'local', place: 'here', engines: [] })
  t.strictSame(seen, [])
})
