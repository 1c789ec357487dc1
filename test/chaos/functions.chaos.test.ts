import { readdirSync, readFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { platform } from '../functions/platform.ts'
import { startBusbar } from '../support/command.ts'

t.setTimeout(150_000)

const rounds = 3

/** Children of a worker that run users' code. */
function hostsOf(worker: number): readonly number[] {
  return readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .map(Number)
    .filter((pid) => {
      try {
        const parent = Number(readFileSync(`/proc/${pid}/stat`, 'utf8').split(') ')[1]!.split(' ')[1])
        return parent === worker && readFileSync(`/proc/${pid}/cmdline`, 'utf8').includes('host/main')
      } catch {
        return false
      }
    })
}

t.test('workers and hosts are killed under load, and every call has its answer', async (t) => {
  const place = await platform(t)
  const { call } = await place.gateway()
  /** What each call has done, in a place that survives: how often, by the call's number. */
  const ledger = new Map<string, number>()
  const server = createServer((request, response) => {
    const key = String(request.url)
    ledger.set(key, (ledger.get(key) ?? 0) + 1)
    response.end('noted')
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  const { port } = server.address() as AddressInfo

  const start = async () => {
    const {
      process: child,
      finished,
      printed,
    } = startBusbar([
      'run',
      'worker:functions',
      `--app.nats.url=${place.natsUrl}`,
      `--app.secrets.keys=${place.secretKeys[0]}`,
      '--app.functions.hosts=1',
      '--app.functions.fetch-allow=loopback',
    ])
    t.teardown(async () => {
      child.kill('SIGKILL')
      await finished
    })
    await printed('role started')
    return child
  }
  const workers = [await start(), await start()]
  const code = (kind: string) => `export async function handler(n) {
    await fetch('http://127.0.0.1:${port}/${kind}/' + n)
    await new Promise((resolve) => setTimeout(resolve, 30))
    return n
  }`
  for (const id of ['once', 'idempotent', 'later']) {
    const body = { id, code: code(id), ...(id === 'idempotent' && { idempotent: true }) }
    t.equal((await call('POST', '/deploy', body)).status, 201)
  }

  let stopping = false
  const answers: { readonly id: string; readonly n: number; readonly status: number; readonly body: unknown }[] = []
  const accepted: { readonly n: number; readonly url: string }[] = []
  const caller = async (first: number) => {
    for (let n = first; !stopping; n += 6) {
      const id = n % 2 === 0 ? 'once' : 'idempotent'
      const { status, body } = await call('POST', `/invoke/${id}`, String(n))
      answers.push({ id, n, status, body })
      await sleep(5)
    }
  }
  const sender = async () => {
    for (let n = 0; !stopping; n++) {
      const { status, body } = await call('POST', '/invoke/later', String(n), { Prefer: 'respond-async' })
      if (status === 202) accepted.push({ n, url: (body as { url: string }).url })
      await sleep(20)
    }
  }
  const load = [0, 1, 2, 3, 4, 5].map(caller).concat(sender())
  const killed = { hosts: 0, workers: 0 }
  for (let round = 0; round < rounds; round++) {
    await sleep(800)
    for (const pid of hostsOf(workers[1]!.pid!).slice(0, 1)) {
      process.kill(pid, 'SIGKILL')
      killed.hosts++
    }
    await sleep(800)
    workers.shift()!.kill('SIGKILL')
    killed.workers++
    workers.push(await start())
  }
  await sleep(500)
  stopping = true
  await Promise.all(load)
  t.comment(`${answers.length} calls, ${accepted.length} accepted for later, killed ${JSON.stringify(killed)}`)
  t.match(killed, { hosts: rounds, workers: rounds })
  t.ok(answers.length > 100 && accepted.length > 20)

  const wrong = answers.filter(({ id, n, status, body }) => {
    if (status === 200) return body !== n
    return id === 'idempotent' || status !== 502 || !/lost/.test((body as { error: string }).error)
  })
  t.strictSame(wrong.slice(0, 5), [], 'each has its result, or is told that its worker was lost')
  const twice = [...ledger].filter(([key, times]) => key.startsWith('/once/') && times > 1)
  t.strictSame(twice, [], 'what is not idempotent was done once at most')
  for (const { n, url } of accepted) {
    let outcome: { status?: string; response?: { body: unknown } } = {}
    while (outcome.status === undefined || outcome.status === 'pending') {
      outcome = (await call('GET', url)).body as typeof outcome
      if (outcome.status === 'pending') await sleep(100)
    }
    if (outcome.status !== 'done' || outcome.response?.body !== n) t.same(outcome, { status: 'done' }, `${url}`)
    if (!ledger.has(`/later/${n}`)) t.fail(`${url} says done and was not`)
  }
})
