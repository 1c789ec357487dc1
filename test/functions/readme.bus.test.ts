import { readFileSync } from 'node:fs'
import { resolve } from 'node:path'
import t from 'tap'
import { platform } from './platform.ts'

const page = readFileSync(resolve(import.meta.dirname, '../../gateways/functions/README.md'), 'utf8')

/** Method, path and body; behind an empty line the answer. */
function readExample(block: string) {
  const at = block.indexOf('\nHTTP/1.1 ')
  const [line = '', ...body] = block.slice(0, at).trim().split('\n')
  const [head = '', ...reply] = block.slice(at).trim().split('\n\n')
  const [statusLine = '', ...headers] = head.split('\n')
  const [method = '', path = ''] = line.split(' ')
  return {
    method,
    path,
    body: body.length > 0 ? body.join('\n') : undefined,
    status: Number(statusLine.split(' ')[1]),
    headers: headers.map((header) => header.split(': ')),
    reply: reply.join('\n\n'),
  }
}

t.test('the examples of the page answer what it says', async (t) => {
  const place = await platform(t)
  const { call } = await place.gateway()
  await place.worker()
  const examples = [...page.matchAll(/```http\n([\s\S]*?)```/g)].map(([, block = '']) => readExample(block))
  t.ok(examples.length >= 8)
  for (const { method, path, body, status, headers, reply } of examples) {
    const answer = await call(method, path, body)
    t.equal(answer.status, status, `${method} ${path}`)
    t.same(answer.body, reply.startsWith('{') ? JSON.parse(reply) : reply)
    for (const [name = '', value = ''] of headers) t.equal(answer.headers.get(name), value)
  }
})

t.test('the OpenAPI document names every route, and its references lead somewhere', async (t) => {
  const { call } = await (await platform(t)).gateway()
  const { body } = await call('GET', '/openapi.json')
  const text = JSON.stringify(body)
  const { paths, components } = body as { paths: object; components: { schemas: object } }
  for (const [, name = ''] of text.matchAll(/#\/components\/schemas\/(\w+)/g)) t.ok(name in components.schemas, name)
  for (const path of ['/deploy', '/invoke/{id}', '/delete/{id}', '/scripts', '/stats', '/health'])
    t.ok(path in paths, path)
  for (const [path, operations] of Object.entries(paths as Record<string, object>)) {
    for (const method of Object.keys(operations)) {
      if (method === 'parameters') continue
      const answer = await call(method.toUpperCase(), path.replace('{id}', 'missing'))
      const unknownRoute = method !== 'delete' && (answer.body as { error?: string }).error === 'Not found'
      t.notOk(unknownRoute, `${method} ${path}`)
      t.not(answer.status, 405)
    }
  }
})
