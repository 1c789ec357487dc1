import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import t from 'tap'
import { Type } from 'typebox'
import { readBytes } from '../../bus/objects.ts'
import type { TaskPlan } from '../../schemas/workflows/flow-plan.ts'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { definePlugin } from '../../workers/workflows/plugin.ts'
import { taskServices } from '../../workers/workflows/services.ts'
import { ended, engineOf, engineStage, run, save } from './engine-stage.ts'
import { flow as plan, sequence, task } from './plans.ts'

t.setTimeout(60_000)
const large = 'x'.repeat(100_000)

/** A service that says much, whatever it is asked. */
const server = createServer((request, response) => {
  request.resume()
  response.writeHead(200, { 'Content-Type': 'application/json' })
  response.end(JSON.stringify({ data: { text: large }, choices: [{ message: { content: large } }], title: large }))
})
server.listen(0, '127.0.0.1')
await once(server, 'listening')
t.teardown(() => server.close())
const url = `http://127.0.0.1:${(server.address() as AddressInfo).port}`

/** One of each category, what it is to do, and what of its outputs is read back. */
const families: Readonly<Record<string, readonly [string, Record<string, unknown>, string]>> = {
  core: ['http.request', { url }, 'body.title'],
  script: ['script.shell', { script: 'head -c 100000 /dev/zero | tr "\\0" x' }, 'stdout'],
  control: ['flow.map', { items: [large], expression: '$uppercase($)' }, 'items[0]'],
  transform: ['transform.base64', { operation: 'decode', text: Buffer.from(large).toString('base64') }, 'text'],
  database: ['db.sqlite', { sql: 'select ? as x', parameters: [large] }, 'rows[0].x'],
  protocol: ['graphql.query', { url, query: '{ text }' }, 'data.text'],
  saas: ['saas.github', { baseUrl: url, operation: 'getRepository', owner: 'o', repo: 'r', token: 't' }, 'body.title'],
  ai: ['ai.openai', { baseUrl: url, model: 'm', prompt: 'p' }, 'text'],
  utility: ['util.string', { operation: 'upper', text: large }, 'value'],
}

/** More than a task may give. */
const boundless = definePlugin({
  id: 'test.boundless',
  name: 'Boundless',
  category: 'Custom',
  description: 'Gives more than one may.',
  input: Type.Object({}, { additionalProperties: false }),
  output: Type.Object({ items: Type.Array(Type.Unknown(), { description: 'Much', examples: [[]] }) }),
  example: '',
  run: async () => ({ items: Array.from({ length: 700 }, () => large) }),
})

t.test('outputs that are large lie in the object store, and are read from there', async (t) => {
  const { bus } = await engineStage(t)
  const services = taskServices(bus, { allow: ['loopback'], deny: [] }, null, { scripts: true, containers: null })
  const engine = await engineOf(bus, [...catalogue, boundless], { ...services, onObservation: () => undefined })
  t.teardown(() => engine.stop())
  const through = async (tasks: readonly TaskPlan[]) => await ended(bus, await run(bus, await save(bus, plan(tasks))))

  const state = await through(
    Object.entries(families).flatMap(([name, [type, properties, path]]) =>
      sequence(
        task(name, { type, properties }),
        task(`${name}-size`, { properties: { message: `{{ outputs["${name}"].${path} | size }}` } }),
      ),
    ),
  )
  for (const [name, [id]] of Object.entries(families)) {
    const { outputs, failure } = state.runs[name]! as { outputs: unknown; failure?: unknown }
    t.match(outputs, { object: String, sizeBytes: Number }, `${id} ${JSON.stringify(failure ?? null)}`)
    const { object, sizeBytes } = outputs as { object: string; sizeBytes: number }
    t.equal((await readBytes(bus, object)).length, sizeBytes)
    t.same(state.runs[`${name}-size`]!.outputs, { json: { message: '100000' } }, `${id} is read`)
  }
  t.match((await through([task('much', { type: 'test.boundless' })])).runs.much, {
    failure: { kind: 'refused', message: /larger than 64 MB/ },
  })
})
