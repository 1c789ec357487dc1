import { readFileSync, writeFileSync } from 'node:fs'
import { resolve } from 'node:path'
import t from 'tap'
import { startGraphqlGateway } from '../../gateways/graphql/server.ts'
import { ensureSample } from '../../ops/sample-database.ts'
import { testPostgres } from '../support/servers.ts'

const server = await testPostgres(t)
const { url } = await ensureSample(server.url)
const gateway = await startGraphqlGateway({
  host: '127.0.0.1',
  port: 0,
  connection: { connectionString: url },
  schemas: ['public'],
  naming: 'spec',
  defaultPageSize: 100,
  maxPageSize: 1000,
  maxBodyBytes: 1_048_576,
  corsOrigins: ['*'],
  jwt: {},
  emitCommands: false,
  onObservation: (observation) => observation.type === 'request-fault' && t.fail(String(observation.error)),
})
t.teardown(() => gateway.stop())

const file = resolve(import.meta.dirname, '../../gateways/graphql/README.md')
const page = readFileSync(file, 'utf8')

/** An operation, its variables if it has some, and its answer. */
const example = /```graphql\n([\s\S]*?)```\n(?:\n```json variables\n([\s\S]*?)```\n)?(?:\n```json\n([\s\S]*?)```\n)?/g

async function ask(body: string): Promise<unknown> {
  const headers = { 'Content-Type': 'application/json' }
  const response = await fetch(`${gateway.url}/graphql`, { method: 'POST', headers, body })
  return JSON.parse((await response.text()).replace(/,"requestId":"[^"]*"/, ''))
}

/** Short values in one line, the way they are read. */
function shown(value: unknown, indent = ''): string {
  const line = JSON.stringify(value)
  if (line.length + indent.length < 110 || typeof value !== 'object' || value === null) return line
  const inner = `${indent} `
  const [open, close] = Array.isArray(value) ? '[]' : '{}'
  const parts = Object.entries(value).map(
    ([name, member]) => `${Array.isArray(value) ? '' : `${JSON.stringify(name)}: `}${shown(member, inner)}`,
  )
  return `${open}${parts.join(`,\n${inner}`)}${close}`
}

t.test('the examples of the page answer what it says', async (t) => {
  let examples = 0
  let written = page
  for (const [whole, query = '', variables = '{}', answer = 'null'] of page.matchAll(example)) {
    const found = await ask(JSON.stringify({ query, variables: JSON.parse(variables) as unknown }))
    examples += 1
    // `--update` writes the answers into the page, for the diff to be read.
    if (process.argv.includes('--update')) {
      const [operation] = whole.split('\n```json\n')
      written = written.replace(whole, () => `${operation}\n\`\`\`json\n${shown(found)}\n\`\`\`\n`)
    } else t.same(found, JSON.parse(answer), query)
  }
  t.ok(examples >= 8)
  if (written !== page) writeFileSync(file, written)
})

t.test('the curl lines of the page answer', async (t) => {
  const bodies = [...page.matchAll(/-d '(\{.*\})'/g)].map(([, body = '']) => body)
  t.ok(bodies.length >= 1)
  for (const body of bodies) t.same(Object.keys((await ask(body)) as object), ['data'], body)
})

t.test('the limits and keys the page names are those of the configuration', (t) => {
  const reference = readFileSync(resolve(import.meta.dirname, '../../schemas/CONFIG.md'), 'utf8')
  const keys = new Set([...page.matchAll(/`(app\.[a-z.-]+[a-z])(?:=[^`]*)?`/g)].map(([, key = '']) => key))
  t.ok(keys.size >= 8)
  for (const key of keys) t.ok(reference.includes(`\`${key}\``), key)
  for (const [, key = ''] of reference.matchAll(/`(app\.graphql\.[a-z-]+)`/g)) {
    const requests = readFileSync(resolve(import.meta.dirname, '../../gateways/graphql/requests.md'), 'utf8')
    t.ok(`${page}${requests}`.includes(key), `${key} is explained`)
  }
  t.end()
})
