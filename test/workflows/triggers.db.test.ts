import { randomBytes } from 'node:crypto'
import { setTimeout as delay } from 'node:timers/promises'
import { connect } from '@nats-io/transport-node'
import pg from 'pg'
import t from 'tap'
import { addressOf, connectBus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { lastMessage, load } from '../../bus/load.ts'
import { newId } from '../../bus/message.ts'
import { eventSubject, executionSubject } from '../../bus/subject.ts'
import { countedTrigger } from '../../gateways/workflows/trigger-store.ts'
import { schemaOf } from '../../projections/projector.ts'
import { idleExecutions } from '../../projections/workflows/executions-read.ts'
import { workflowProjection } from '../../projections/workflows/projection.ts'
import { decideSaveTrigger, trigger } from '../../schemas/workflows/trigger.ts'
import { triggerRoll, triggerRollChange } from '../../schemas/workflows/trigger-roll.ts'
import { signatureOf } from '../../schemas/workflows/trigger-signature.ts'
import type { SchedulerObservation } from '../../workers/scheduler/scheduler.ts'
import { capture } from '../capture/support.ts'
import { schedulers } from './schedulers.ts'
import { workflowStage } from './stage.ts'

const yaml = (name: string, more = '') =>
  `name: ${name}\ntasks: [{ name: say, type: util.log, properties: { message: 'hi {{ inputs.who }}' } }]\noutputs: { said: '{{ outputs.say.message }}' }\n${more}`

t.test('triggers', async (t) => {
  const secretKeys = [`test:${randomBytes(32).toString('base64')}`]
  const stage = await workflowStage(t, { secretKeys, settings: { wal_level: 'logical' } })
  const { ask, save, until, bus, nats, connection } = stage
  const observed: SchedulerObservation[] = []
  const database = new pg.Pool({ ...connection, max: 2 })
  t.teardown(() => database.end())
  const { start: scheduler, stopAll } = schedulers(t, nats.url, (observation) => observed.push(observation))
  const create = async (body: Record<string, unknown>) => {
    const { status, json } = await ask('POST', '/triggers', { body })
    t.equal(status, 201, JSON.stringify(json))
    return json
  }
  const executionsOf = async (flowId: string) =>
    (await ask('GET', `/executions?flowId=${flowId}&limit=1000`)).json as {
      id: string
      status: string
      trigger?: { date: string }
    }[]
  const atLeast = (flowId: string, count: number) =>
    until(async () => {
      const found = await executionsOf(flowId)
      return found.length >= count && found.every(({ status }) => status === 'SUCCESS') ? found : null
    })
  const datesOf = async (flowId: string) => {
    const { rows } = await database.query(
      `select trigger->>'date' as date from ${schemaOf(workflowProjection)}.executions where flow_id = $1 order by 1`,
      [flowId],
    )
    return rows.map(({ date }) => Date.parse(date) / 1_000)
  }
  await Promise.all([scheduler(), scheduler()])

  await t.test('are made, listed, changed and deleted', async (t) => {
    const flowId = await save(yaml('kept'))
    const made = await create({ flowId, type: 'cron', name: 'nightly', config: { cron: '0 3 * * *' } })
    t.match(made, { flowId, type: 'cron', enabled: true, config: { cron: '0 3 * * *' }, inputs: {}, lastFiredAt: null })
    t.match(made.nextFireAt, /T03:00:00.000Z$/)
    t.match((await ask('GET', `/triggers?flowId=${flowId}&type=cron&q=NIGHT`)).json, [made])
    t.match((await ask('GET', `/triggers/${made.id}`)).json, made)
    const moved = await ask('PUT', `/triggers/${made.id}`, { body: { config: { cron: '0 4 * * *' } } })
    t.match(moved.json, { name: 'nightly', config: { cron: '0 4 * * *' } })
    t.match(moved.json.nextFireAt, /T04:00/)
    t.match((await ask('POST', `/triggers/${made.id}/disable`)).json, { enabled: false, nextFireAt: null })
    t.equal((await ask('POST', `/triggers/${made.id}/fire`)).status, 404)
    t.equal((await ask('DELETE', `/triggers/${made.id}`)).status, 204)
    t.equal((await ask('GET', `/triggers/${made.id}`)).status, 404)
    t.same((await ask('GET', `/triggers?flowId=${flowId}`)).json, [])
    const refused: [Record<string, unknown>, number, RegExp][] = [
      [{ type: 'cron', config: { cron: '0 3 * * *' } }, 400, /flowId/],
      [{ flowId, type: 'nothing' }, 400, /type/],
      [{ flowId, type: 'cron' }, 400, /config/],
      [{ flowId, type: 'cron', config: { cron: 'x' } }, 400, /config.cron/],
      [{ flowId, type: 'cron', config: { cron: '0 3 * * *', more: 1 } }, 400, /config.more/],
      [{ flowId, type: 'manual', inputs: { a: '{{' } }, 400, /inputs.a/],
      [{ flowId, type: 'subject', config: { subject: 'evt.>' } }, 400, /config.subject/],
      [{ flowId: 'absent', type: 'manual' }, 404, /flow/],
    ]
    for (const [body, status, text] of refused) {
      const answer = await ask('POST', '/triggers', { body })
      t.equal(answer.status, status, JSON.stringify(body))
      t.match(answer.text, text)
    }
    const hand = await create({ flowId, type: 'manual', inputs: { who: '{{ trigger.by }}' } })
    const headers = { 'Idempotency-Key': 'once' }
    const fired = (await ask('POST', `/triggers/${hand.id}/fire`, { headers })).json
    t.equal((await ask('POST', `/triggers/${hand.id}/fire`, { headers })).json.executionId, fired.executionId)
    t.match(await stage.inStatus(fired.executionId, 'SUCCESS'), { execution: { inputs: { who: 'anonymous' } } })
  })

  await t.test('a flow has a hundred, however many are made at once and wherever', async (t) => {
    const flowId = await save(yaml('full'))
    const other = await connectBus({ url: nats.url, name: 'another gateway' })
    const elsewhere = async (name: string) => {
      const own = { triggerId: newId(), flowId, name, type: 'manual', by: 'ada', at: Date.now() } as const
      const saved = { ...own, enabled: true, config: {}, inputs: {}, declared: false }
      await countedTrigger(other, own.triggerId, 'ada', (before) => decideSaveTrigger(before, saved))
      return own.triggerId
    }
    const roll = { stream: 'EVT_WORKFLOWS', subject: eventSubject('workflows', 'trigger-roll', flowId) }
    const saved = { triggerId: '', flowId, name: 'x', type: 'manual', config: {}, inputs: {}, declared: false } as const
    const absent = { stage: 'absent', version: 0 } as const
    const earlier = Array.from({ length: 90 }, (_, index) => `earlier-${index}`)
    await decide(bus, {
      ...roll,
      aggregate: triggerRoll,
      decide: (state) =>
        earlier.flatMap((triggerId) => {
          const [fact] = decideSaveTrigger(absent, { ...saved, triggerId, enabled: true, by: 'ada', at: 0 })
          return triggerRollChange(triggerId, absent, trigger.evolve(absent, fact!))!.decide(state)
        }),
    })
    const made = await Promise.allSettled(
      Array.from({ length: 20 }, async (_, index) => {
        if (index % 3 === 0) return await elsewhere(`e${index}`)
        const { status, json } = await ask('POST', '/triggers', { body: { flowId, type: 'manual', name: `t${index}` } })
        if (status === 201) return json.id
        throw Object.assign(new Error(json.error), { status, code: json.code })
      }),
    )
    const refused = made.flatMap((each) => (each.status === 'rejected' ? [each.reason] : []))
    for (const each of refused)
      t.match(each, { status: 409, code: 'workflows/trigger-limit', message: /^flowId .* 100/ })
    const ids = made.flatMap((each) => (each.status === 'fulfilled' ? [each.value] : []))
    t.equal(ids.length, 10)
    const total = async () =>
      Number((await ask('GET', `/triggers?flowId=${flowId}&limit=1`)).headers.get('x-total-count'))
    await until(async () => ((await total()) === 10 ? true : null))
    const body = { flowId, type: 'manual', name: 'one more' }
    t.equal((await ask('PUT', `/triggers/${ids[0]}`, { body: { name: 'changed' } })).status, 200)
    t.equal((await ask('POST', '/triggers', { body })).status, 409)
    t.equal((await ask('DELETE', `/triggers/${ids[0]}`)).status, 204)
    t.equal((await ask('POST', '/triggers', { body })).status, 201)
    const declared = `${yaml('full')}triggers: [{ name: declared, type: manual }]\n`
    await ask('PUT', `/flows/${flowId}`, { body: { yamlContent: declared } })
    await until(async () => ((await total()) === 11 ? true : null))
    await ask('DELETE', `/flows/${flowId}`)
    await until(async () => ((await total()) === 0 ? true : null))
    t.same((await load(bus, triggerRoll, roll)).state, { triggerIds: earlier })
    await other.close()
  })

  await t.test('one execution a tick, of two schedulers, over a death and a pause of all', async (t) => {
    await stopAll()
    const first = await scheduler()
    await scheduler()
    const flowId = await save(yaml('ticking'))
    const config = { cron: '* * * * * *', onMissed: 'all' }
    const { id } = await create({ flowId, type: 'cron', config })
    await atLeast(flowId, 2)
    // Dies: what it has in hand is neither done nor given back.
    await first.bus.connection.close()
    await atLeast(flowId, 4)
    await stopAll()
    const before = (await executionsOf(flowId)).length
    await delay(3_000)
    await Promise.all([scheduler(), scheduler()])
    await atLeast(flowId, before + 4)
    await ask('POST', `/triggers/${id}/disable`)
    const ticks = await datesOf(flowId)
    t.same(
      ticks,
      ticks.map((_, index) => ticks[0]! + index),
      'no tick is left out, none comes twice',
    )
    const count = ticks.length
    await delay(1_500)
    t.equal((await executionsOf(flowId)).length, count, 'a disabled trigger has stopped')
    t.not((await ask('GET', `/triggers/${id}`)).json.lastFiredAt, null)
  })

  await t.test('ticks of the past are made up for on demand, each once', async (t) => {
    const flowId = await save(yaml('backfilled'))
    const { id } = await create({ flowId, type: 'cron', config: { cron: '0 * * * *' } })
    const range = { from: '2026-01-01T00:00:00Z', to: '2026-01-01T05:30:00Z' }
    const done = await ask('POST', `/triggers/${id}/backfill`, { body: range })
    t.match(done, { status: 202, json: { count: 6 } })
    t.same((await ask('POST', `/triggers/${id}/backfill`, { body: range })).json, done.json)
    t.equal((await atLeast(flowId, 6)).length, 6)
    const wide = { from: '2020-01-01T00:00:00Z', to: '2026-01-01T00:00:00Z' }
    t.match(await ask('POST', `/triggers/${id}/backfill`, { body: wide }), { status: 400, text: /1000 ticks/ })
    t.equal((await ask('POST', `/triggers/${id}/backfill`, { body: { from: '2999-01-01' } })).status, 400)
  })

  await t.test('webhooks', async (t) => {
    const flowId = await save(yaml('hooked'))
    const { id, config } = await create({ flowId, type: 'webhook', config: { wait: true } })
    t.match(config.key, /^[A-Za-z0-9_-]{43}$/)
    const path = `/webhook/${config.key}`
    const headers = { Authorization: 'Bearer x', 'X-Own': 'y' }
    const answer = await ask('POST', `${path}?n=3`, { body: { who: 'Ada', more: [1] }, headers })
    t.match(answer, { status: 200, json: { status: 'SUCCESS', outputs: /hi Ada/ } })
    const { rows } = await database.query(
      `select trigger from ${schemaOf(workflowProjection)}.executions where id = $1`,
      [answer.json.executionId],
    )
    t.match(rows[0].trigger, {
      type: 'webhook',
      id,
      method: 'POST',
      query: { n: '3' },
      body: { who: 'Ada', more: [1] },
      headers: { 'x-own': 'y' },
    })
    t.notOk('authorization' in rows[0].trigger.headers)
    t.match((await ask('POST', `${path}?wait=0`, { body: {} })).json, { status: 'QUEUED', tasksTotal: 1 })
    const once = { 'Idempotency-Key': 'k' }
    const [one, two] = await Promise.all([1, 2].map(() => ask('POST', path, { body: {}, headers: once })))
    t.equal(one!.json.executionId, two!.json.executionId)
    t.match(await ask('PUT', path, { body: {} }), { status: 405 })
    t.equal((await ask('POST', `/webhook/${'x'.repeat(43)}`)).status, 404)
    t.equal((await ask('POST', '/webhook/short')).status, 404)
    t.equal((await ask('POST', path, { body: { big: 'x'.repeat(1_100_000) } })).status, 413)
    const deep = await fetch(`${stage.url}/api/v1${path}`, {
      method: 'POST',
      body: '['.repeat(100),
      headers: { 'Content-Type': 'application/json' },
    })
    t.equal(deep.status, 400)
    t.equal(
      (await ask('POST', '/triggers', { body: { flowId, type: 'webhook', config: { key: config.key } } })).status,
      409,
    )
    await ask('POST', `/flows/${flowId}/disable`)
    t.equal((await ask('POST', path, { body: {} })).status, 404, 'of a disabled flow')
    await ask('POST', `/flows/${flowId}/enable`)
    await ask('POST', `/triggers/${id}/disable`)
    t.equal((await ask('POST', path, { body: {} })).status, 404)
    await ask('POST', `/triggers/${id}/enable`)
    const key = 'another-key-of-mine'
    await ask('PUT', `/triggers/${id}`, { body: { config: { key } } })
    t.equal((await ask('POST', path, { body: {} })).status, 404, 'a key that is given up')
    t.equal((await ask('POST', `/webhook/${key}`, { body: {} })).status, 200)
    await ask('DELETE', `/triggers/${id}`)
    t.equal((await ask('POST', `/webhook/${key}`, { body: {} })).status, 404)
  })

  await t.test('webhooks take forms, texts and bytes, and a signature is over what was sent', async (t) => {
    const shown = `name: shown\ntasks: [{ name: say, type: util.log, properties: { message: '{{ inputs.who }} {{ trigger.body | to_json }}' } }]\noutputs: { said: '{{ outputs.say.message }}' }\n`
    const secret = 'quite a long secret'
    const flowId = await save(shown)
    const config = { wait: true, secret, tolerance: 0 }
    const made = await create({ flowId, type: 'webhook', config })
    const send = async (type: string, body: string | Uint8Array<ArrayBuffer>, signed = body) => {
      const headers = { 'Content-Type': type, 'X-Busbar-Signature': `sha256=${signatureOf(secret, signed)}` }
      const response = await fetch(`${stage.url}/api/v1/webhook/${made.config.key}`, { method: 'POST', headers, body })
      return { status: response.status, json: await response.json() }
    }
    const said = async (...sent: Parameters<typeof send>) => JSON.parse((await send(...sent)).json.outputs).said
    const form = 'application/x-www-form-urlencoded'
    t.equal(await said(form, 'who=Ada&n=1&n=2'), 'Ada {"who":"Ada","n":["1","2"]}')
    t.equal((await send(form, 'who=Bob', 'who=Ada')).status, 401)
    const part = (name: string, value: string) =>
      `--b\r\nContent-Disposition: form-data; name="${name}"\r\n\r\n${value}\r\n`
    t.equal(await said('multipart/form-data; boundary=b', `${part('who', 'Ada')}--b--\r\n`), 'Ada {"who":"Ada"}')
    t.equal(await said('text/plain', 'who=Ada'), ' "who=Ada"')
    t.equal(await said('application/xml', '<who/>'), ' "<who/>"')
    const bytes = ' {"contentType":"image/gif","sizeBytes":2,"base64":"AP8="}'
    t.equal(await said('image/gif', new Uint8Array([0, 255])), bytes)
    t.match(await send('multipart/mixed; boundary=b', 'x'), { status: 415, json: { error: /are taken/ } })
    t.match(await send('image/gif', new Uint8Array(1_100_000)), { status: 413 })
    const elsewhere = await fetch(`${stage.url}/api/v1/triggers`, {
      method: 'POST',
      headers: { 'Content-Type': form },
      body: 'a=1',
    })
    t.equal(elsewhere.status, 415, 'other routes take what they took')
    t.equal((await ask('DELETE', `/webhook/${made.config.key}`)).status, 405)
  })

  await t.test('signed webhooks take what is signed, and a delivery once', async (t) => {
    const flowId = await save(yaml('signed'))
    const secret = 'quite a long secret'
    const { id, config } = await create({ flowId, type: 'webhook', config: { secret } })
    t.notMatch(JSON.stringify((await ask('GET', `/triggers/${id}`)).json), secret)
    const send = (header: string, body: unknown = { a: 1 }) =>
      ask('POST', `/webhook/${config.key}`, { body, headers: { 'X-Busbar-Signature': header } })
    const seconds = Math.floor(Date.now() / 1_000)
    const good = `t=${seconds},v1=${signatureOf(secret, `${seconds}.{"a":1}`)}`
    t.match(await send(good.replace(/.$/, 'x')), { status: 401, json: { code: /signature-refused/ } })
    t.equal((await send(good, { a: 2 })).status, 401)
    t.equal((await ask('POST', `/webhook/${config.key}`, { body: { a: 1 } })).status, 401)
    const old = seconds - 400
    t.equal((await send(`t=${old},v1=${signatureOf(secret, `${old}.{"a":1}`)}`)).status, 401)
    const [first, replayed] = [await send(good), await send(good)]
    t.equal(first.status, 200)
    t.equal(replayed.json.executionId, first.json.executionId)
    const again = await send(`${good.replace(/(?<=v1=).*/, (hex) => hex.toUpperCase())}, v1=of-another`)
    t.equal(again.json.executionId, first.json.executionId, 'however the header is written')
    t.equal((await executionsOf(flowId)).length, 1)
  })

  await t.test('a flow of three starts the next at its end, and brings its outputs', async (t) => {
    const first = await save(yaml('chain-a'))
    const next = (name: string, before: string) =>
      yaml(
        name,
        `triggers: [{ name: after, type: flow, flow: ${before}, inputs: { who: '{{ trigger.outputs.said }}' } }]\n`,
      )
    const second = await save(next('chain-b', 'chain-a'))
    const third = await save(next('chain-c', 'chain-b'))
    await until(async () => ((await ask('GET', `/triggers?flowId=${third}`)).json.length === 1 ? true : null))
    await stage.execute(first, { who: 'you' })
    const [last] = await atLeast(third, 1)
    t.match((await ask('GET', `/executions/${last!.id}`)).json.execution, { outputs: /hi hi hi you/ })
    t.equal((await executionsOf(second)).length, 1)
    const [declared] = (await ask('GET', `/triggers?flowId=${second}`)).json
    t.match(declared, { declared: true, name: 'after', type: 'flow' })
    t.match(await ask('DELETE', `/triggers/${declared.id}`), { status: 409, json: { code: /trigger-declared/ } })
    await ask('PUT', `/flows/${second}`, { body: { yamlContent: yaml('chain-b') } })
    await until(async () => ((await ask('GET', `/triggers?flowId=${second}`)).json.length === 0 ? true : null))
    await ask('DELETE', `/flows/${third}`)
    await until(async () => ((await ask('GET', `/triggers?flowId=${third}`)).json.length === 0 ? true : null))
  })

  await t.test('messages of a stream that is not the platform’s', async (t) => {
    await bus.manager.streams.add({ name: 'ORDERS', subjects: ['orders.>'] })
    const flowId = await save(yaml('ordered'))
    const inputs = { who: '{{ trigger.body.name }} of {{ trigger.subject }}' }
    const { id } = await create({ flowId, type: 'subject', config: { subject: 'orders.*' }, inputs })
    for (const name of ['Ada', 'Bob']) await bus.jetstream.publish('orders.new', JSON.stringify({ name }))
    await bus.jetstream.publish('orders.new.other', '{}')
    const found = await atLeast(flowId, 2)
    const shown = await Promise.all(found.map(async ({ id }) => (await ask('GET', `/executions/${id}`)).json.execution))
    t.same(shown.map(({ outputs }) => JSON.parse(outputs).said).sort(), [
      'hi Ada of orders.new',
      'hi Bob of orders.new',
    ])
    await ask('DELETE', `/triggers/${id}`)
    await until(async () => ((await bus.manager.consumers.list('ORDERS').next()).length === 0 ? true : null))
  })

  await t.test('rows of a table that change', async (t) => {
    await database.query('create table public.orders (id int primary key, status text)')
    const wire = await connect({ ...addressOf(nats.url) })
    const flowId = await save(yaml('changed'))
    const config = { table: 'orders', operations: ['UPDATE'], where: { status: 'paid' } }
    const inputs = { who: '{{ trigger.change.data.new.id }}' }
    await create({ flowId, type: 'change', config, inputs })
    const captured = capture(t, (connection as { connectionString: string }).connectionString, wire)
    await until(async () => {
      const { rows } = await database.query("select 1 from pg_replication_slots where slot_name = 'busbar' and active")
      return rows.length === 1 ? true : null
    })
    await database.query("insert into public.orders values (1, 'paid'), (2, 'new'), (3, 'new')")
    await database.query("update public.orders set status = 'paid' where id = 2")
    await database.query("update public.orders set status = 'gone' where id = 3")
    await database.query("update public.orders set status = 'paid' where id = 3")
    const found = await atLeast(flowId, 2)
    const shown = await Promise.all(found.map(async ({ id }) => (await ask('GET', `/executions/${id}`)).json.execution))
    t.same(shown.map(({ outputs }) => JSON.parse(outputs).said).sort(), ['hi 2', 'hi 3'])
    await captured.stop()
    await wire.close()
  })

  await t.test('an execution of which nothing is heard is looked at', async (t) => {
    const flowId = await save('name: waits\ntasks: [{ name: pause, type: core.wait, properties: { duration: 1h } }]\n')
    const id = await stage.execute(flowId)
    await until(async () => {
      const { json } = await ask('GET', `/executions/${id}`)
      return json.tasks[0]?.status === 'WAITING' ? true : null
    })
    // Its timer is lost: nothing would ever wake it.
    await bus.manager.streams.purge('TIMERS', { filter: 'timer.executions.>' })
    const timers = async () =>
      (await bus.manager.streams.info('TIMERS', { subjects_filter: 'timer.executions.>' })).state.subjects
    t.equal(await timers(), undefined)
    await scheduler({ findIdle: (page) => idleExecutions(database, page), idleMs: 100, sweepEveryMs: 50 })
    await until(async () => ((await timers()) === undefined ? null : true))
    await until(async () => ((await lastMessage(bus, 'COMMANDS', executionSubject(id))) === null ? true : null))
    t.equal(
      observed.some(({ type }) => type === 'executions-nudged'),
      true,
    )
    await ask('POST', `/executions/${id}/cancel`)
  })
  t.same(
    observed.filter(({ type }) => type === 'message-dead' || type === 'message-retried'),
    [],
  )
  t.same(stage.faults, [])
})
