import { statSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { client } from '../functions/platform.ts'
import { ownPlace, startBusbar } from '../support/command.ts'

t.setTimeout(180_000)

t.test('functions on the whole platform, and again on the same folder', async (t) => {
  const { args, folder } = await ownPlace(t)
  const port = (service: string) => args.find((arg) => arg.startsWith(`--gateway.${service}.port=`))?.split('=')[1]
  const api = `http://127.0.0.1:${port('rest')}/api/v1`
  const call = client(`http://127.0.0.1:${port('functions')}`)
  const first = startBusbar(['up', ...args])
  await first.printed('functions may fetch')
  await first.printed('Busbar runs')
  t.equal(statSync(join(folder, 'secret-keys')).mode & 0o777, 0o600)

  const code = `export async function handler({ path }, { env }) {
    const answer = await fetch(env.API + path)
    return { status: answer.status, body: await answer.text(), headers: { 'Content-Type': 'application/json' } }
  }`
  t.equal((await call('POST', '/deploy', { id: 'proxy', code })).status, 201)
  t.equal((await call('PUT', '/scripts/proxy/env', { secrets: { API: api } })).status, 200)
  t.match(
    await call('POST', '/invoke/proxy', { path: '/genre/3' }),
    { status: 200, body: { id: 3 } },
    'this machine may be fetched',
  )

  await call('POST', '/deploy', {
    id: 'watch',
    code: 'const handler = ({ type, data }) => console.log(type, data.name)',
  })
  await call('PUT', '/scripts/watch/triggers', {
    triggers: [{ name: 'genres', table: 'genre', operations: ['INSERT'] }],
  })
  t.equal((await client(api)('POST', '/genre', { name: 'Western' })).status, 201)
  const logs = async () => (await call('GET', '/scripts/watch/logs')).body as { logs: readonly object[] }
  while ((await logs()).logs.length === 0) await sleep(50)
  t.match(await logs(), { logs: [{ message: 'INSERT Western' }] }, 'a row that was inserted calls it')
  first.process.kill('SIGINT')
  t.equal((await first.finished).code, 0)

  const second = startBusbar(['up', ...args])
  await second.printed('Busbar runs')
  t.match((await call('GET', '/scripts')).body, {
    scripts: [
      { id: 'proxy', invocations: 1, lastInvoked: /Z$/ },
      { id: 'watch', invocations: 1 },
    ],
  })
  t.match(
    await call('POST', '/invoke/proxy', { path: '/genre/3' }),
    { status: 200, body: { id: 3 } },
    'secrets as well',
  )
  second.process.kill('SIGINT')
  t.equal((await second.finished).code, 0)
})
