import t from 'tap'
import { type Stage, stage, until } from './hosts-support.ts'

t.setTimeout(120_000)

/** The process that functions share does nothing any more, whatever it was doing. */
async function hang({ hosts, observations }: Stage): Promise<void> {
  const ended = observations.filter(({ type }) => type === 'host-ended').length
  // Until it has given a sign of life it may take its time.
  await until('a sign of life', () => hosts.stats().isolates > 0)
  process.kill(hosts.stats().pids[0]!, 'SIGSTOP')
  await until('its end', () => observations.filter(({ type }) => type === 'host-ended').length > ended)
}

t.test('a host that hangs is the doing of whom it worked for last, not of whose code ran beside', async (t) => {
  const here = await stage(t, { hosts: 1 })
  const { deploy, call, logs, observations } = here
  await deploy(
    'busy',
    'export const handler = () => { console.log("runs"); const end = Date.now() + 1_500; while (Date.now() < end); return "done" }',
  )
  await deploy('last', 'export const handler = (n) => n')
  await call('last', 1)
  const busy = call('busy', null, { timeoutMs: 30_000 })
  await until('its line', () => logs.length > 0)
  await call('last', 2)
  await hang(here)
  t.match(observations, [{ type: 'host-ended', reason: 'unresponsive', functionId: 'last', failed: 0 }])
  t.match(await busy, { status: 200, value: 'done' }, 'it has done nothing, and runs again')

  await call('last', 3)
  await hang(here)
  const type = 'function-set-apart'
  t.match(observations.slice(1), [{ type, functionId: 'last', reason: 'hung-host' }, { functionId: 'last' }])
})

t.test('what is asked of crypto.subtle beside its data is little, and is read in turns', async (t) => {
  const { deploy, call, observations } = await stage(t, { hosts: 1 })
  await deploy(
    'f',
    `export async function handler([members, times]) {
      const junk = Array(members).fill([])
      const asked = () => crypto.subtle.digest({ name: 'SHA-256', junk: { toJSON: () => junk } }, new Uint8Array(70_000))
      const told = await Promise.all(Array.from({ length: times }, () => asked().then(() => 'done', ({ name }) => name)))
      return [...new Set(told)] }`,
  )
  t.match(await call('f', [100, 3]), { value: ['done'] })
  t.match(await call('f', [1_000, 20]), { value: ['NotSupportedError'] })
  t.match(await call('f', [1_000_000, 10], { timeoutMs: 30_000 }), { value: ['QuotaExceededError'] })
  t.same(observations, [], 'no host has ended')
})
