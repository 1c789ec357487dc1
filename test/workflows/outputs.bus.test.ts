import { randomUUID } from 'node:crypto'
import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { Type } from 'typebox'
import { connectBus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { load } from '../../bus/load.ts'
import { readBytes } from '../../bus/objects.ts'
import { eventSubject } from '../../bus/subject.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { execution } from '../../schemas/workflows/execution.ts'
import { isEnded } from '../../schemas/workflows/execution-state.ts'
import { decideRevise, flow } from '../../schemas/workflows/flow.ts'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { startWorkflowEngine } from '../../workers/workflows/engine.ts'
import { definePlugin } from '../../workers/workflows/plugin.ts'
import { taskServices } from '../../workers/workflows/services.ts'
import { startExecution } from '../../workers/workflows/start-execution.ts'
import { testNats } from '../support/servers.ts'
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
  const nats = await testNats(t)
  const bus = await connectBus({ url: nats.url, name: 'test' })
  await reconcileStreams(bus, streamSpecs())
  const services = taskServices(bus, { allow: ['loopback'], deny: [] }, null, { scripts: true, containers: null })
  const plugins = new Map([...catalogue, boundless].map((each) => [each.manifest.id, each]))
  const engine = await startWorkflowEngine({ bus, plugins, ...services, onObservation: () => undefined })
  t.teardown(async () => {
    await engine.stop()
    await bus.close()
  })

  const run = async (tasks: Parameters<typeof plan>[0]) => {
    const flowId = randomUUID()
    const subject = eventSubject('workflows', 'flow', flowId)
    const whole = plan(tasks)
    const text = { flowId, name: 'f', namespace: 'default', yamlContent: '', plan: whole, by: 'test', at: Date.now() }
    await decide(bus, {
      stream: 'EVT_WORKFLOWS',
      subject,
      aggregate: flow,
      decide: (state) => decideRevise(state, text),
    })
    const executionId = randomUUID()
    const started = { executionId, inputs: {}, trigger: { type: 'manual' as const }, actor: 'test', at: Date.now() }
    await startExecution(bus, flowId, started)
    const place = { stream: 'EVT_EXECUTIONS', subject: eventSubject('executions', 'execution', executionId) }
    for (;;) {
      const { state } = await load(bus, execution, place)
      if (isEnded(state.stage)) return state
      await delay(10)
    }
  }

  const state = await run(
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
  t.match((await run([task('much', { type: 'test.boundless' })])).runs.much, {
    failure: { kind: 'refused', message: /larger than 64 MB/ },
  })
})
