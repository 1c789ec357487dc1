import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { taskFetch } from '../../workers/workflows/task-fetch.ts'

const server = createServer(async (request, response) => {
  const chunks: Buffer[] = []
  for await (const chunk of request) chunks.push(chunk as Buffer)
  if (request.url === '/away') response.writeHead(302, { Location: '/here' }).end()
  else if (request.url === '/other') response.writeHead(307, { Location: `http://localhost:${port}/here` }).end()
  else if (request.url === '/inside') response.writeHead(302, { Location: 'http://169.254.169.254/latest' }).end()
  else if (request.url === '/empty') response.writeHead(204).end()
  else {
    response.writeHead(200, { 'Content-Type': 'text/plain', 'X-Method': request.method! })
    response.end(`${request.headers['x-sent'] ?? ''}${Buffer.concat(chunks).toString('utf8')}`)
  }
})
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
t.teardown(() => server.close())
const { port } = server.address() as AddressInfo
const here = `http://127.0.0.1:${port}`
const open = taskFetch({ allow: ['loopback'], deny: [] })

t.test('a request is sent as the web sends it', async (t) => {
  const response = await open(`${here}/x`, { method: 'POST', headers: { 'X-Sent': 'a' }, body: 'b' })
  t.same([response.status, response.headers.get('x-method'), await response.text()], [200, 'POST', 'ab'])
})

t.test('redirects are followed, and told', async (t) => {
  const response = await open(`${here}/away`)
  t.same([response.status, response.redirected, response.url], [200, true, `${here}/here`])
  t.equal((await open(`${here}/away`, { redirect: 'manual' })).status, 302)
})

t.test('headers of their own do not go to another server', async (t) => {
  const headers = { 'X-Sent': 'key' }
  t.equal(await (await open(`${here}/away`, { headers })).text(), 'key')
  t.equal(await (await open(`${here}/other`, { headers })).text(), '')
})

t.test('an answer without a body has none', async (t) => {
  t.equal(await (await open(`${here}/empty`)).text(), '')
})

t.test('what is not public is refused, also behind a redirect', async (t) => {
  const closed = taskFetch({ allow: [], deny: [] })
  await t.rejects(closed(here), { name: 'TaskFailure', message: '"127.0.0.1" may not be fetched from here' })
  await t.rejects(open(`${here}/inside`), { message: '"169.254.169.254" may not be fetched from here' })
})

t.test('a cancelled request ends', async (t) => {
  const controller = new AbortController()
  controller.abort(new Error('cancelled'))
  await t.rejects(open(here, { signal: controller.signal }), { name: 'AbortError' })
})
