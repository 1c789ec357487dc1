import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import t from 'tap'
import { startRestGateway } from '../../gateways/rest/server.ts'
import { ensureSample } from '../../ops/sample-database.ts'
import { testPostgres } from '../support/servers.ts'

const server = await testPostgres(t)
const { url } = await ensureSample(server.url)
const gateway = await startRestGateway({
  host: '127.0.0.1',
  port: 0,
  connection: { connectionString: url },
  schema: 'public',
  defaultPageSize: 100,
  maxPageSize: 1000,
  maxExpandDepth: 5,
  maxBodyBytes: 1_048_576,
  corsOrigins: ['*'],
  jwt: {},
  onObservation: () => undefined,
})
t.teardown(() => gateway.stop())

const page = readFileSync(resolve(import.meta.dirname, '../../gateways/rest/README.md'), 'utf8')

interface Example {
  readonly method: string
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string | null
  readonly status: number
  readonly replyHeaders: Readonly<Record<string, string>>
  readonly reply: string
}

function headersOf(lines: readonly string[]): Record<string, string> {
  return Object.fromEntries(lines.map((line) => [line.slice(0, line.indexOf(':')), line.slice(line.indexOf(':') + 2)]))
}

/** A request as it goes over the wire, and behind an empty line its answer. */
function readExample(block: string): Example {
  const at = block.indexOf('\nHTTP/1.1 ')
  const [head = '', ...content] = block.slice(0, at).trim().split('\n\n')
  const [line = '', ...headers] = head.split('\n')
  const [replyHead = '', ...reply] = block.slice(at).trim().split('\n\n')
  const [statusLine = '', ...replyHeaders] = replyHead.split('\n')
  const [method = '', path = ''] = line.split(' ')
  return {
    method,
    path,
    headers: headersOf(headers),
    body: content.length > 0 ? content.join('\n\n') : null,
    status: Number(statusLine.split(' ')[1]),
    replyHeaders: headersOf(replyHeaders),
    reply: reply.join('\n\n'),
  }
}

t.test('the examples of the page answer what it says', async (t) => {
  const examples = [...page.matchAll(/```http\n([\s\S]*?)```/g)].map(([, block = '']) => readExample(block))
  t.ok(examples.length >= 10)
  for (const { method, path, headers, body, status, replyHeaders, reply } of examples) {
    const content = body === null ? {} : { body }
    const type = body === null ? {} : { 'Content-Type': 'application/json' }
    const answer = await fetch(`${gateway.url}${path}`, { method, headers: { ...type, ...headers }, ...content })
    const text = await answer.text()
    t.equal(answer.status, status, `${method} ${path}: ${text}`)
    for (const [name, value] of Object.entries(replyHeaders)) t.equal(answer.headers.get(name), value, name)
    if (text.startsWith('{')) {
      const { requestId, ...rest } = JSON.parse(text)
      t.same(rest, JSON.parse(reply), `${method} ${path}`)
      t.equal(requestId === undefined, status < 400)
    } else t.equal(text.replaceAll('\r\n', '\n').trim(), reply.trim())
  }
})

t.test('the curl lines of the pages answer', async (t) => {
  const front = readFileSync(resolve(import.meta.dirname, '../../README.md'), 'utf8')
  const urls = [...`${page}\n${front}`.matchAll(/curl (?:-g )?'http:\/\/127\.0\.0\.1:20000([^']*)'/g)].map(
    ([, path = '']) => path,
  )
  t.ok(urls.length >= 2)
  for (const path of urls) t.equal((await fetch(`${gateway.url}${path}`)).status, 200, path)
})
