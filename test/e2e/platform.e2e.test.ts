import { request } from 'node:http'
import { createParser } from 'eventsource-parser'
import { Client } from 'pg'
import t, { type Test } from 'tap'
import { freePort } from '../../ops/local/child.ts'
import { ownPlace, startBusbar } from '../support/command.ts'
import { testPostgres } from '../support/servers.ts'

t.setTimeout(300_000)

interface Place {
  readonly args: readonly string[]
  readonly api: string
  readonly graphql: string
  readonly workflows: string
  readonly functions: string
}

async function place(t: Pick<Test, 'teardown'>): Promise<Place> {
  const { args } = await ownPlace(t)
  const port = (service: string) => args.find((arg) => arg.startsWith(`--gateway.${service}.port=`))?.split('=')[1]
  const graphql = `http://127.0.0.1:${port('graphql')}/graphql`
  const [workflows, functions] = [`http://127.0.0.1:${port('workflows')}`, `http://127.0.0.1:${port('functions')}`]
  return { args, api: `http://127.0.0.1:${port('rest')}/api/v1`, graphql, workflows, functions }
}

/** What a change stream sends, until the events are the wanted number. */
async function follow(
  url: string,
  wanted: number,
): Promise<{ readonly opened: Promise<void>; readonly events: Promise<readonly Event[]> }> {
  const opened = Promise.withResolvers<void>()
  const events = new Promise<readonly Event[]>((resolve, reject) => {
    const heard: Event[] = []
    const client = request(url, { headers: { Accept: 'text/event-stream' }, agent: false }, (response) => {
      if (response.statusCode !== 200) return reject(new Error(`status ${response.statusCode}`))
      opened.resolve()
      const parser = createParser({
        onEvent: ({ data }) => {
          heard.push(JSON.parse(data))
          if (heard.length < wanted) return
          client.destroy()
          resolve(heard)
        },
      })
      response.setEncoding('utf8').on('data', (text: string) => parser.feed(text))
    })
    client.on('error', reject).end()
  })
  events.catch((error: unknown) => opened.reject(error))
  return { opened: opened.promise, events }
}

interface Event {
  readonly type: string
  readonly data: Readonly<Record<string, unknown>>
}

const post = (url: string, body: object) =>
  fetch(url, { method: 'POST', headers: { 'Content-Type': 'application/json' }, body: JSON.stringify(body) })

t.test('npm start: a whole backend on the sample database, and again on the same folder', async (t) => {
  const { args, api, graphql, workflows, functions } = await place(t)
  const first = startBusbar(['up', ...args])
  await first.printed('Busbar runs')
  await first.printed('Your own database')
  t.match(await (await fetch(api)).json(), { tables: ['actor', 'copy', 'film'] })
  t.match(await (await fetch(api.replace('/api/v1', '/docs'))).text(), /<html/i)
  t.match(await (await fetch(api.replace('/api/v1', '/readyz'))).json(), { status: 'ready' })

  const asked = await post(graphql, {
    query: '{ publicGenre(where: { id: { eq: 3 } }) { name publicGenre { name } } }',
  })
  t.same(await asked.json(), { data: { publicGenre: [{ name: 'Comedy', publicGenre: { name: 'Fiction' } }] } })

  await t.test('a write reaches the streams with its place in the log', async (t) => {
    const { opened, events } = await follow(`${api}/genre/changes`, 3)
    await opened
    const created = await post(`${api}/genre`, { name: 'Western' })
    t.equal(created.status, 201)
    const { id } = (await created.json()) as { readonly id: number }
    await fetch(`${api}/genre/${id}`, {
      method: 'PATCH',
      headers: { 'Content-Type': 'application/json' },
      body: '{"parent_id":1}',
    })
    await fetch(`${api}/genre/${id}`, { method: 'DELETE' })
    t.match(await events, [
      {
        type: 'INSERT',
        schema: 'public',
        table: 'genre',
        data: { id, name: 'Western', parent_id: null },
        timestamp: Number,
      },
      { type: 'UPDATE', data: { old: { id }, new: { id, parent_id: 1 } } },
      { type: 'DELETE', data: { id } },
    ])
    const tail = startBusbar(['events', 'tail', '--subject', 'cdc.main.command', '--from', 'start', ...args])
    await tail.printed(created.headers.get('x-request-id') ?? 'no id')
    tail.process.kill('SIGINT')
    await tail.finished
  })

  await t.test(
    'a row that is written starts a flow, which calls a function, and its end is in the read models',
    async (t) => {
      const code = 'export const handler = ({ name }) => ({ greeting: `Seen: ${name}` })'
      t.equal((await post(`${functions}/deploy`, { id: 'greet', code })).status, 201)
      const yamlContent = `name: on-genre
inputs:
  name: { type: string }
tasks:
  - name: ask
    type: http.request
    properties: { url: '${functions}/invoke/greet', method: POST, body: { name: '{{ inputs.name }}' } }
outputs: { said: '{{ outputs.ask.body.greeting }}' }
triggers:
  - name: rows
    type: change
    table: genre
    operations: [INSERT]
    inputs: { name: '{{ trigger.change.data.name }}' }
`
      const saved = await post(`${workflows}/api/v1/flows`, { name: 'on-genre', namespace: 'default', yamlContent })
      t.equal(saved.status, 201, await saved.clone().text())
      const { id } = (await saved.json()) as { id: string }
      let ended: { id: string; outputs: string; trigger: { type: string } }[] = []
      while (ended.length === 0) {
        // The scheduler follows the changes from a moment on that nobody can know.
        await post(`${api}/genre`, { name: 'Western' })
        await new Promise((resolve) => setTimeout(resolve, 300))
        ended = await (await fetch(`${workflows}/api/v1/executions?flowId=${id}&status=SUCCESS`)).json()
      }
      t.match(ended, [{ outputs: JSON.stringify({ said: 'Seen: Western' }) }])
      t.match(await startBusbar(['audit', 'verify', ...args]).finished, { code: 0 })
    },
  )

  await post(`${api}/genre`, { name: 'Road movie' })
  first.process.kill('SIGINT')
  const { code, stdout } = await first.finished
  t.equal(code, 0)
  const stopped = [...stdout.matchAll(/^ {2}(\S+) stopped$/gm)].map(([, name]) => name!)
  const kinds = stopped.map((name) => name.split(':')[0]!).filter((kind, index, all) => kind !== all[index - 1])
  t.same(kinds, ['gateway', 'projection', 'worker', 'PostgreSQL', 'nats-server'], 'doors first, servers last')
  t.equal(stopped.filter((name) => name.startsWith('gateway:')).length, 5)

  const second = startBusbar(['up', ...args])
  await second.printed('Busbar runs')
  t.match(await (await fetch(`${api}/genre?name=eq.Road movie`)).json(), { data: [{ name: 'Road movie' }] })
  const { opened, events } = await follow(`${api}/genre/changes?from=1`, 4)
  await opened
  const history = (await events).map(({ type }) => type).filter((type) => type !== 'ready')
  t.same(history.slice(0, 3), ['INSERT', 'UPDATE', 'DELETE'], 'what was there before can be read again')
  second.process.kill('SIGINT')
  t.equal((await second.finished).code, 0)
})

t.test('an own database that does not allow replication is served; its streams say what mends it', async (t) => {
  const own = await testPostgres(t, { settings: { wal_level: 'replica' } })
  const client = new Client({ connectionString: own.url })
  await client.connect()
  await client.query('create table thing (id int primary key, word text)')
  await client.end()
  const { args, api } = await place(t)
  const { port, username, password, pathname } = new URL(own.url)
  const up = startBusbar([
    'up',
    ...args,
    `--spring.datasource.url=jdbc:postgresql://127.0.0.1:${port}${pathname}`,
    `--spring.datasource.username=${username}`,
    `--spring.datasource.password=${password}`,
  ])
  await up.printed('Busbar runs')
  await up.printed('No change streams: wal_level is replica')
  t.equal((await post(`${api}/thing`, { id: 1, word: 'a' })).status, 201)
  t.match(await (await fetch(`${api}/thing`)).json(), { data: [{ id: 1, word: 'a' }] })
  const refused = await fetch(`${api}/thing/changes`)
  t.equal(refused.status, 503)
  t.match(await refused.json(), {
    code: 'data/changes-unavailable',
    details: { statements: [/ALTER SYSTEM SET wal_level/] },
  })
  const films = await fetch(`${api}/film`)
  t.equal(films.status, 404, 'no sample database beside an own one')
  up.process.kill('SIGINT')
  t.equal((await up.finished).code, 0)
})

t.test('two platforms on one machine do not meet', async (t) => {
  const [one, other] = [await place(t), await place(t)]
  const both = [one, other].map(({ args }) => startBusbar(['up', ...args]))
  await Promise.all(both.map((each) => each.printed('Busbar runs')))
  await post(`${one.api}/genre`, { name: 'Only here' })
  t.match(await (await fetch(`${one.api}/genre?name=eq.Only here`)).json(), { data: [{ name: 'Only here' }] })
  t.match(await (await fetch(`${other.api}/genre?name=eq.Only here`)).json(), { data: [] })
  for (const each of both) each.process.kill('SIGINT')
  for (const each of both) t.equal((await each.finished).code, 0)
})

t.test('a single gateway needs no bus: streams are off, and say so', async (t) => {
  const own = await testPostgres(t)
  const port = await freePort()
  const run = startBusbar(['run', 'gateway:rest', `--server.port=${port}`, `--spring.datasource.url=${own.url}`])
  await run.printed('role started')
  const refused = await fetch(`http://127.0.0.1:${port}/api/v1/none/changes`)
  t.equal(refused.status, 503)
  t.match(await refused.json(), { code: 'data/changes-unavailable', hint: /app\.nats\.enabled/ })
  run.process.kill('SIGTERM')
  t.equal((await run.finished).code, 0)
})
