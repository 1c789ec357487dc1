import { setTimeout as delay } from 'node:timers/promises'
import pg from 'pg'
import t from 'tap'
import { deliverySubject } from '../../bus/subject.ts'
import { schemaOf } from '../../projections/projector.ts'
import { workflowProjection } from '../../projections/workflows/projection.ts'
import { schedulers } from './schedulers.ts'
import { workflowStage } from './stage.ts'

const { ask, save, until, faults, bus, nats, connection } = await workflowStage(t)
const database = new pg.Pool({ ...connection, max: 2 })
t.teardown(() => database.end())
const { start: scheduler, stopAll } = schedulers(t, nats.url, (observation) => {
  if (observation.type === 'message-dead') faults.push(observation.error)
})
const yaml = (name: string, more = '') =>
  `name: ${name}\ntasks: [{ name: say, type: util.log, properties: { message: '{{ inputs.n }}' } }]\n${more}`
const webhook = async (name: string, config: Record<string, unknown>, inputs: Record<string, unknown> = {}) => {
  const flowId = await save(yaml(name))
  const { status, json } = await ask('POST', '/triggers', { body: { flowId, type: 'webhook', config, inputs } })
  if (status !== 201) throw new Error(JSON.stringify(json))
  const send = (body: unknown, headers = {}) => ask('POST', `/webhook/${json.config.key}`, { body, headers })
  return { flowId, id: json.id as string, send }
}
/** What the executions of a flow were started with, oldest first. */
const triggersOf = async (flowId: string) => {
  const { rows } = await database.query(
    `select trigger from ${schemaOf(workflowProjection)}.executions where flow_id = $1 order by created_sequence`,
    [flowId],
  )
  return rows.map(({ trigger }) => trigger as { count: number; body: { n: number }[]; deliveries: { at: string }[] })
}
const numbersOf = async (flowId: string) => (await triggersOf(flowId)).map(({ body }) => body.map(({ n }) => n))
const atLeast = (flowId: string, count: number) =>
  until(async () => ((await numbersOf(flowId)).flat().length >= count ? await numbersOf(flowId) : null))
const waiting = async (id: string) => {
  const subject = deliverySubject(id)
  return (await bus.manager.streams.info('DELIVERIES', { subjects_filter: subject })).state.subjects?.[subject] ?? 0
}
const numbers = (from: number, to: number) => Array.from({ length: to - from + 1 }, (_, index) => from + index)

await Promise.all([scheduler(), scheduler()])

t.test('a webhook gathers so many deliveries into one execution', async (t) => {
  const { flowId, id, send } = await webhook('counted', { batch: { count: 3 } }, { n: '{{ trigger.count }}' })
  for (const n of numbers(1, 7)) {
    t.match(await send({ n }), { status: 202, json: { status: 'GATHERED', deliveryId: String } })
  }
  t.same(await atLeast(flowId, 6), [numbers(1, 3), numbers(4, 6)])
  t.equal(await waiting(id), 1, 'one that is left waits for others')
  const once = { 'Idempotency-Key': 'k' }
  const [one, two] = [await send({ n: 8 }, once), await send({ n: 8 }, once)]
  t.equal(one.json.deliveryId, two.json.deliveryId)
  await send({ n: 9 })
  t.same((await atLeast(flowId, 9)).at(-1), numbers(7, 9))
  const [first] = await triggersOf(flowId)
  t.match(first, { count: 3, deliveries: [{ method: 'POST', body: { n: 1 }, headers: {}, query: {} }] })
  const { json } = await ask('GET', `/executions?flowId=${flowId}`)
  t.match(json[0].inputs, { n: 3 })
})

t.test('or those of a time, or until none comes any more', async (t) => {
  const window = await webhook('windowed', { batch: { window: '300ms' } })
  for (const n of numbers(1, 4)) await window.send({ n })
  t.same((await atLeast(window.flowId, 4)).flat(), numbers(1, 4))
  const quiet = await webhook('quiet', { batch: { debounce: '1s', count: 100 } })
  for (const n of numbers(1, 5)) {
    await quiet.send({ n })
    await delay(100)
  }
  t.same(await atLeast(quiet.flowId, 5), [numbers(1, 5)], 'all of them, with the first silence')
})

t.test('each delivery gets into one execution, whoever dies', async (t) => {
  const { flowId, id, send } = await webhook('survives', { batch: { count: 7, window: '700ms' } })
  let sent = 0
  for (let round = 0; round < 4; round++) {
    const one = await scheduler()
    await Promise.all(numbers(1, 25).map(() => send({ n: ++sent })))
    // Dies: what it has in hand is neither done nor given back.
    if (round === 0) await one.bus.connection.close()
    if (round === 1) {
      await nats.kill()
      await nats.restart()
      await until(async () => (bus.connected ? true : null))
    }
    if (round === 2) await stopAll()
  }
  await Promise.all([scheduler(), scheduler()])
  const found = await atLeast(flowId, 100)
  t.same(
    found.flat().sort((one, other) => one - other),
    numbers(1, 100),
    'none is lost, none comes twice',
  )
  t.ok(found.every((each) => each.length <= 7))
  t.equal(await waiting(id), 0)
})

t.test('what a webhook cannot gather', async (t) => {
  const flowId = await save(yaml('refused'))
  const refused: [Record<string, unknown>, RegExp][] = [
    [{ batch: {} }, /config\.batch/],
    [{ batch: { count: 0 } }, /config\.batch\.count/],
    [{ batch: { window: 'soon' } }, /config\.batch\.window/],
    [{ batch: { debounce: '2d' } }, /config\.batch\.debounce/],
    [{ batch: { every: '1s' } }, /config\.batch\.every/],
    [{ batch: { count: 2 }, wait: true }, /config\.wait/],
  ]
  for (const [config, text] of refused) {
    const answer = await ask('POST', '/triggers', { body: { flowId, type: 'webhook', config } })
    t.equal(answer.status, 400, JSON.stringify(config))
    t.match(answer.text, text)
  }
  const { send, id } = await webhook('waits-not', { batch: { count: 2 } })
  const { json } = await ask('GET', `/triggers/${id}`)
  t.equal((await ask('POST', `/webhook/${json.config.key}?wait=3`, { body: {} })).status, 400)
  const bad = await ask('POST', '/flows/validate', {
    body: { yamlContent: yaml('declared', 'triggers: [{ name: hook, type: webhook, batch: { window: soon } }]') },
  })
  t.match(bad.json, { valid: false, errors: [{ path: /batch/, line: 3, message: /duration/ }] })
  const declared = await save(yaml('declared', 'triggers: [{ name: hook, type: webhook, batch: { count: 2 } }]'))
  const [own] = await until(async () => {
    const found = (await ask('GET', `/triggers?flowId=${declared}`)).json
    return found.length === 1 ? found : null
  })
  t.same(own.config.batch, { count: 2 })
  // What is off hands nothing on, and loses nothing.
  await send({ n: 1 })
  const off = (await ask('GET', `/triggers/${id}`)).json.flowId
  await ask('POST', `/flows/${off}/disable`)
  t.equal((await send({ n: 2 })).status, 404)
  t.equal(await waiting(id), 1)
  // Deleted, it takes with it what it has.
  await ask('POST', `/flows/${off}/enable`)
  await ask('DELETE', `/triggers/${id}`)
})

t.test('a trigger tells why it could not start an execution', async (t) => {
  const told = async (id: string, code: string) =>
    await until(async () => {
      const { json } = await ask('GET', `/triggers/${id}`)
      return json.lastRefusal?.code === code ? json : null
    })
  const ticking = await save(yaml('ticking'))
  const { json: cron } = await ask('POST', '/triggers', {
    body: { flowId: ticking, type: 'cron', config: { cron: '* * * * * *' } },
  })
  t.match(cron, { lastRefusal: null, lastExecution: null, lastFiredAt: null })
  await until(async () =>
    (await ask('GET', `/triggers/${cron.id}`)).json.lastExecution?.status === 'SUCCESS' ? true : null,
  )
  await ask('POST', `/flows/${ticking}/disable`)
  const disabled = await told(cron.id, 'workflows/flow-disabled')
  t.match(disabled.lastRefusal, { at: /^\d{4}-.*Z$/, error: 'The flow is disabled' })
  t.match((await ask('GET', `/triggers?flowId=${ticking}`)).json[0].lastRefusal, disabled.lastRefusal)

  const strict = await save(yaml('strict', 'inputs: { n: { type: integer, required: true } }\n'))
  const { json: hook } = await ask('POST', '/triggers', { body: { flowId: strict, type: 'webhook' } })
  t.equal((await ask('POST', `/webhook/${hook.config.key}`, { body: { n: 'x' } })).status, 400)
  const first = (await told(hook.id, 'workflows/invalid-input')).lastRefusal
  t.match(first, { error: /n/ })
  await ask('POST', `/webhook/${hook.config.key}`, { body: { n: 'y' } })
  t.same((await ask('GET', `/triggers/${hook.id}`)).json.lastRefusal, first, 'once a minute, whoever calls')
  await ask('POST', `/flows/${strict}/disable`)
  t.equal((await ask('POST', `/webhook/${hook.config.key}`, { body: { n: 1 } })).status, 404)
  await told(hook.id, 'workflows/flow-disabled')

  const full = await save(`name: full
concurrency: { limit: 1, behavior: fail }
tasks: [{ name: wait, type: core.wait, properties: { duration: 1h } }]
`)
  const { json: hand } = await ask('POST', '/triggers', { body: { flowId: full, type: 'manual' } })
  const fire = async () => (await ask('POST', `/triggers/${hand.id}/fire`)).json.executionId
  const holds = await fire()
  await until(async () => ((await ask('GET', `/executions/${holds}`)).json.execution.startedAt ? true : null))
  const id = await fire()
  const last = await until(async () => {
    const { json } = await ask('GET', `/triggers/${hand.id}`)
    return json.lastExecution?.status === 'FAILED' ? json.lastExecution : null
  })
  t.match(last, { id, error: /runs 1 times already/ })
  await ask('POST', `/executions/${holds}/kill`)
})

t.test('nothing was given up', async (t) => t.same(faults, []))
