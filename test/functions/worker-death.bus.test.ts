import { setTimeout as sleep } from 'node:timers/promises'
import t, { type Test } from 'tap'
import { startBusbar } from '../support/command.ts'
import { type Answer, type Platform, platform } from './platform.ts'

t.setTimeout(120_000)

/** Ends when it is told to, by its store; so a call is under way for as long as a test wants. */
const code = `export async function handler(data, { kv }) {
  console.log('begun ' + data)
  while (!(await kv.get('go'))) await new Promise((resolve) => setTimeout(resolve, 50))
  return data
}`

async function workerProcess(t: Pick<Test, 'teardown'>, { natsUrl, secretKeys }: Platform) {
  const { process, finished, printed } = startBusbar([
    'run',
    'worker:functions',
    `--app.nats.url=${natsUrl}`,
    `--app.secrets.keys=${secretKeys[0]}`,
    '--app.functions.hosts=1',
  ])
  t.teardown(async () => {
    process.kill('SIGKILL')
    await finished
  })
  await printed('role started')
  return {
    signal: (name: 'SIGSTOP' | 'SIGCONT') => process.kill(name),
    async kill() {
      process.kill('SIGKILL')
      await finished
    },
  }
}

async function begun(call: Awaited<ReturnType<Platform['gateway']>>['call'], id: string): Promise<number> {
  const { logs } = (await call('GET', `/scripts/${id}/logs`)).body as { logs: readonly unknown[] }
  return logs.length
}

t.test('a worker that is killed in the middle of calls', async (t) => {
  const place = await platform(t)
  const { call } = await place.gateway()
  const first = await workerProcess(t, place)
  for (const id of ['once', 'idempotent', 'later']) {
    await call('POST', '/deploy', { id, code, ...(id === 'idempotent' && { idempotent: true }) })
  }
  await call('POST', '/deploy', { id: 'go', code: 'export const handler = () => 1' })
  const answers: Promise<Answer>[] = [call('POST', '/invoke/once', '1'), call('POST', '/invoke/idempotent', '2')]
  const accepted = (await call('POST', '/invoke/later', '3', { Prefer: 'respond-async' })).body as { url: string }
  for (const id of ['once', 'idempotent', 'later']) while ((await begun(call, id)) < 1) await sleep(50)

  await place.worker()
  await first.kill()
  const killedAt = performance.now()
  const [once, idempotent] = answers
  const lost = await once
  t.match(lost, { status: 502, body: { error: /worker that ran the call was lost/ } }, 'one clear 502')
  t.ok(performance.now() - killedAt < 10_000, 'long before the time-out')
  for (const id of ['idempotent', 'later']) while ((await begun(call, id)) < 2) await sleep(50)
  for (const id of ['idempotent', 'later']) {
    await place.bus.jetstream.publish(`$KV.functions.kv.${id}.go`, 'true')
  }
  t.match(await idempotent, { status: 200, body: 2 }, 'an idempotent call is answered by another worker')
  const done = async (): Promise<{ status: string }> => (await call('GET', accepted.url)).body as { status: string }
  while ((await done()).status === 'pending') await sleep(50)
  t.match(await done(), { status: 'done', response: { body: 3 } }, 'an asynchronous call is done')
  t.equal(await begun(call, 'once'), 1, 'nothing else ran twice')
})

t.test('a worker that stood still runs nothing that others have run meanwhile, and goes on', async (t) => {
  const place = await platform(t)
  const { call } = await place.gateway()
  await call('POST', '/deploy', {
    id: 'f',
    code: 'export const handler = (n) => { console.log(`run ${n}`); return n }',
  })
  const still = await workerProcess(t, place)
  t.equal((await call('POST', '/invoke/f', '0')).body, 0)
  const other = await place.worker()
  // Its open requests are the first to be served.
  still.signal('SIGSTOP')
  const calls = Array.from({ length: 12 }, async (_, n) => {
    await sleep(n * 40)
    return (await call('POST', '/invoke/f', String(n + 1))).body
  })
  await sleep(7_500)
  still.signal('SIGCONT')
  t.same(
    await Promise.all(calls),
    Array.from({ length: 12 }, (_, n) => n + 1),
  )
  await sleep(1_500)
  const { logs } = (await call('GET', '/scripts/f/logs?limit=100')).body as { logs: { message: string }[] }
  t.same(logs.map(({ message }) => message).sort(), Array.from({ length: 13 }, (_, n) => `run ${n}`).sort())
  await other.stop()
  t.equal((await call('POST', '/invoke/f', '13')).body, 13, 'it takes calls again')
})
