import t from 'tap'
import { natsHeaders } from '../../bus/publish.ts'
import { logSubject, outcomeSubject } from '../../bus/subject.ts'
import { outcomeHeader } from '../../schemas/functions/call.ts'
import { platform } from './platform.ts'

t.setTimeout(120_000)

const messages = 120
const linesEach = 15

t.test('however much a function has written and however many read it, the gateway keeps its bus', async (t) => {
  const place = await platform(t)
  const { call, url } = await place.gateway()
  await call('POST', '/deploy', { id: 'loud', code: 'function handler() {}' })
  const line = (text: string) => ({ at: Date.now(), level: 'log', text, invocationId: 'i', revision: 1 })
  const body = JSON.stringify(Array.from({ length: linesEach }, (_, n) => line(`${n} ${'x'.repeat(16_000)}`)))
  for (let n = 0; n < messages; n++) await place.bus.jetstream.publish(logSubject('function', 'loud'), body)
  await place.bus.jetstream.publish(logSubject('function', 'loud'), JSON.stringify([line('the last')]))

  const answers = await Promise.all(Array.from({ length: 12 }, () => call('GET', '/scripts/loud/logs?limit=2')))
  const logs = [{ message: /^14 x/ }, { message: 'the last' }]
  for (const answer of answers) t.match(answer, { status: 200, body: { id: 'loud', logs } })
  t.match((await call('GET', '/scripts/loud/logs?limit=1000')).body, { logs: { length: 1_000 } })

  const leaving = new AbortController()
  const followed = Array.from({ length: 8 }, async () => {
    const headers = { accept: 'text/event-stream', 'last-event-id': '0' }
    const { body } = await fetch(`${url}/scripts/loud/logs`, { headers, signal: leaving.signal })
    let lines = 0
    for await (const bytes of body as unknown as AsyncIterable<Uint8Array>) {
      const chunk = Buffer.from(bytes).toString('latin1')
      lines += chunk.split('event: log').length - 1
      if (chunk.includes('the last')) break
    }
    return lines
  })
  for (const lines of await Promise.all(followed)) t.ok(lines >= messages * linesEach - 20, `${lines} lines`)
  leaving.abort()
})

t.test('however large the results of asynchronous calls, and however many ask for them', async (t) => {
  const place = await platform(t)
  const { call } = await place.gateway()
  const outcome = {
    fn: 'f',
    finishedAt: Date.now(),
    durationMs: 1,
    status: 200,
    headers: { 'content-type': 'text/plain' },
  }
  const given = natsHeaders({ [outcomeHeader]: JSON.stringify(outcome) })
  await place.bus.jetstream.publish(outcomeSubject('large'), 'x'.repeat(6 * 1024 ** 2), { headers: given })
  const answers = await Promise.all(Array.from({ length: 50 }, () => call('GET', '/invocations/large')))
  t.same(new Set(answers.map(({ status }) => status)), new Set([200]))
  const { response } = answers[0]!.body as { readonly response: { readonly body: string } }
  t.equal(response.body.length, 6 * 1024 ** 2)
})
