import { setTimeout as delay } from 'node:timers/promises'
import { connectBus } from '../../bus/connect.ts'
import type { SecretKeys } from '../../bus/sealed.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { startWorkflowGateway } from '../../gateways/workflows/server.ts'
import { startProjector } from '../../projections/projector.ts'
import { workflowProjection } from '../../projections/workflows/projection.ts'
import { startWorkflowWorker, type WorkflowWorkerOptions } from '../../workers/workflows/worker.ts'
import { testNats, testPostgres } from '../support/servers.ts'

interface Ask {
  readonly body?: unknown
  readonly headers?: Readonly<Record<string, string>>
}

interface StageOptions {
  readonly secretKeys?: SecretKeys
  /** What the worker may do besides. */
  readonly worker?: Pick<WorkflowWorkerOptions, 'scripts' | 'ownPlugins'>
  /** Of PostgreSQL. */
  readonly settings?: Readonly<Record<string, string | number>>
}

/** The workflow engine with a bus, a database, a gateway, a worker and the read models. */
export async function workflowStage(
  t: Tap,
  { secretKeys, settings = {}, worker: workerOptions = {} }: StageOptions = {},
) {
  const [nats, postgres] = await Promise.all([testNats(t), testPostgres(t, { settings })])
  const bus = await connectBus({ url: nats.url, name: 'test' })
  await reconcileStreams(bus, streamSpecs())
  const faults: unknown[] = []
  const onObservation = (observation: { readonly type: string; readonly error?: unknown }) => {
    if (observation.type === 'request-fault' || observation.type === 'message-dead') faults.push(observation.error)
  }
  const connection = { connectionString: postgres.url }
  const keys = secretKeys !== undefined && { secretKeys }
  const worker = await startWorkflowWorker({
    bus,
    egress: { allow: ['loopback'], deny: [] },
    ...keys,
    ...workerOptions,
    onObservation,
  })
  const projected = Promise.withResolvers<void>()
  const projector = startProjector({
    bus,
    connection,
    projection: workflowProjection,
    onObservation: ({ type }) => {
      if (type === 'projection-running') projected.resolve()
    },
  })
  await projected.promise
  const gateway = await startWorkflowGateway({
    host: '127.0.0.1',
    port: 0,
    connection,
    poolSize: 4,
    statementTimeoutMs: 10_000,
    bus,
    maxBodyBytes: 10_485_760,
    corsOrigins: ['*'],
    ...keys,
    onObservation,
  })
  t.teardown(async () => {
    await gateway.stop()
    await worker.stop()
    await projector.stop()
    await bus.close()
  })
  const ask = async (method: string, path: string, { body, headers }: Ask = {}) => {
    const response = await fetch(`${gateway.url}/api/v1${path}`, {
      method,
      headers: { ...(body !== undefined && { 'Content-Type': 'application/json' }), ...headers },
      ...(body !== undefined && { body: JSON.stringify(body) }),
    })
    const text = await response.text()
    const isJson = response.headers.get('content-type')?.includes('json') === true && text !== ''
    return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : null }
  }
  const until = async <T>(look: () => Promise<T | null>): Promise<T> => {
    for (let tries = 0; tries < 2_000; tries++) {
      const found = await look()
      if (found !== null) return found
      await delay(10)
    }
    throw new Error('what was waited for has not come')
  }
  await until(async () => ((await ask('GET', '/plugins/flow.while')).status === 200 ? true : null))
  /** Saves a flow and gives its id. */
  const save = async (yamlContent: string): Promise<string> => {
    const name = /^name: (.*)$/m.exec(yamlContent)![1]!
    const { status, json } = await ask('POST', '/flows', { body: { name, namespace: 'default', yamlContent } })
    if (status !== 201) throw new Error(JSON.stringify(json))
    return json.id
  }
  /** Starts an execution and gives its id. */
  const execute = async (flowId: string, inputs: Record<string, unknown> = {}): Promise<string> => {
    const { json } = await ask('POST', `/flows/${flowId}/execute`, { body: { inputs } })
    return json.executionId
  }
  const inStatus = (id: string, ...statuses: readonly string[]) =>
    until(async () => {
      const { json } = await ask('GET', `/executions/${id}`)
      return statuses.includes(json.execution.status) ? json : null
    })
  return { url: gateway.url, ask, save, execute, inStatus, until, faults, bus, nats, connection }
}

type Tap = Parameters<typeof testNats>[0]
