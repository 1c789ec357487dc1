import { setTimeout as delay } from 'node:timers/promises'
import { freePort } from '../local/child.ts'
import { startWorkerd } from './functions-workerd.ts'
import { round } from './measure.ts'
import { Bench } from './processes.ts'

/** Five of the attacks of test/functions/escape-resources.test.ts, one of each kind. */
export const hostile: Readonly<Record<string, string>> = {
  'aborts-the-process': '() => "ab".repeat(2 ** 27).split("").length',
  'takes-all-memory': '() => { const kept = []; for (;;) kept.push("x".repeat(2 ** 20) + kept.length) }',
  'never-returns': '() => { for (;;); }',
  'cannot-be-stopped': '() => String(1n << (2n ** 26n)).length',
  floods: '() => { for (let n = 0; n < 1e5; n++) { console.log("line " + n); setTimeout(() => {}, 1) } }',
}

interface Neighbour {
  readonly calls: number
  readonly failed: number
  readonly worstMs: number
}

const attackMs = 6_000
/** A neighbour that hears nothing for so long has lost its call. */
const patienceMs = 5_000
const everyMs = 20

/** A function that is called every 20 ms while another one attacks the process it runs in, with us and with workerd in turn. */
export async function measureAttacks(binary: string, folder: string) {
  const attacks: Record<string, { readonly busbar: Neighbour; readonly workerd: Neighbour }> = {}
  for (const [name, handler] of Object.entries(hostile)) {
    attacks[name] = { busbar: await underBusbar(name, handler), workerd: await underWorkerd(binary, folder, handler) }
  }
  return attacks
}

async function underBusbar(name: string, handler: string): Promise<Neighbour> {
  await using bench = new Bench()
  const nats = await bench.nats()
  const config = { 'app.nats.enabled': true, 'app.nats.url': nats.url, 'log.level': 'error' }
  // One host, so that both are in it.
  await bench.role('worker:functions', { ...config, 'app.functions.hosts': 1, 'app.functions.timeout': 3_000 })
  const gateway = await bench.role('gateway:functions', { ...config, 'server.port': await freePort() })
  for (const [id, code] of [
    ['good', '(data) => data'],
    [name, handler],
  ] as const) {
    const answer = await post(new URL('/deploy', gateway.url), { id, code: `export const handler = ${code}` }, 10_000)
    if (answer === null || !answer.ok) throw new Error(`${id} was not deployed`)
  }
  return await attacked(new URL('/invoke/good', gateway.url), new URL(`/invoke/${name}`, gateway.url))
}

async function underWorkerd(binary: string, folder: string, handler: string): Promise<Neighbour> {
  const workerd = await startWorkerd(binary, folder, ['(data) => data', handler])
  try {
    return await attacked(new URL(workerd.urls[0]!), new URL(workerd.urls[1]!))
  } finally {
    await workerd.stop()
  }
}

async function attacked(good: URL, bad: URL): Promise<Neighbour> {
  for (let warm = 0; warm < 20; warm++) await post(good, {}, patienceMs)
  const end = performance.now() + attackMs
  const attacking = (async () => {
    while (performance.now() < end) {
      await post(bad, {}, attackMs)
      await delay(200)
    }
  })()
  const calls: Promise<{ readonly ok: boolean; readonly ms: number }>[] = []
  while (performance.now() < end) {
    calls.push(timed(good))
    await delay(everyMs)
  }
  const done = await Promise.all(calls)
  await attacking
  return {
    calls: done.length,
    failed: done.filter(({ ok }) => !ok).length,
    worstMs: round(Math.max(...done.map(({ ms }) => ms))),
  }
}

async function timed(url: URL): Promise<{ readonly ok: boolean; readonly ms: number }> {
  const at = performance.now()
  const answer = await post(url, {}, patienceMs)
  return { ok: answer?.ok === true, ms: performance.now() - at }
}

/** Null when there is no answer. */
async function post(url: URL, body: unknown, withinMs: number): Promise<Response | null> {
  try {
    const headers = { 'content-type': 'application/json' }
    const signal = AbortSignal.timeout(withinMs)
    const answer = await fetch(url, { method: 'POST', headers, body: JSON.stringify(body), signal })
    await answer.arrayBuffer()
    return answer
  } catch {
    return null
  }
}
