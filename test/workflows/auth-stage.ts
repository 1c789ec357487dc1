import { randomBytes } from 'node:crypto'
import { connectBus } from '../../bus/connect.ts'
import { newId } from '../../bus/message.ts'
import { keyRing } from '../../bus/sealed.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { addressReader } from '../../gateways/workflows/auth-address.ts'
import { startWorkflowGateway, type WorkflowGatewayOptions } from '../../gateways/workflows/server.ts'
import { Passwords } from '../../gateways/workflows/users-password.ts'
import { registerUser, sealedPassword } from '../../gateways/workflows/users-store.ts'
import { startProjector } from '../../projections/projector.ts'
import { workflowProjection } from '../../projections/workflows/projection.ts'
import { type Role, roles } from '../../schemas/workflows/role.ts'
import { startWorkflowWorker } from '../../workers/workflows/worker.ts'
import { testNats, testPostgres } from '../support/servers.ts'

interface Ask {
  readonly body?: unknown
  readonly token?: string
  readonly headers?: Readonly<Record<string, string>>
}

/** Hashing that takes a moment, where it is not what is tested. */
export const cheap = { hashCost: { memoryCost: 1_024, timeCost: 2, parallelism: 1 }, openRegistration: false }

export const password = 'correct horse battery'

/** Gateways that ask who calls, on one bus and one database, with a user of each role: `viewer`, `executor` … */
export async function authStage(t: Parameters<typeof testNats>[0], more: Partial<WorkflowGatewayOptions> = {}) {
  const [nats, postgres] = await Promise.all([testNats(t), testPostgres(t)])
  const bus = await connectBus({ url: nats.url, name: 'test' })
  await reconcileStreams(bus, streamSpecs())
  const faults: unknown[] = []
  const onObservation = (observation: { readonly type: string; readonly error?: unknown }) => {
    if (observation.type === 'request-fault') faults.push(observation.error)
  }
  const connection = { connectionString: postgres.url }
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
  const worker = await startWorkflowWorker({ bus, egress: { allow: [], deny: [] }, onObservation })
  const secretKeys = [`test:${randomBytes(32).toString('base64')}`]
  const gateway = async (own: Partial<WorkflowGatewayOptions> = {}) => {
    const started = await startWorkflowGateway({
      bus,
      host: '127.0.0.1',
      port: 0,
      connection,
      poolSize: 4,
      statementTimeoutMs: 10_000,
      maxBodyBytes: 10_485_760,
      corsOrigins: ['*'],
      secretKeys,
      // Tests come from many addresses.
      auth: { ...cheap, enabled: true, addressOf: addressReader(['127.0.0.1']), streamCheckMs: 20 },
      onObservation,
      ...more,
      ...own,
    })
    t.teardown(() => started.stop())
    const ask = async (method: string, path: string, { body, token, headers }: Ask = {}) => {
      const response = await fetch(`${started.url}${path}`, {
        method,
        headers: {
          ...(body !== undefined && { 'Content-Type': 'application/json' }),
          ...(token !== undefined && { Authorization: `Bearer ${token}` }),
          ...headers,
        },
        ...(body !== undefined && { body: JSON.stringify(body) }),
      })
      const text = await response.text()
      const isJson = response.headers.get('content-type')?.includes('application/json') === true && text !== ''
      return { status: response.status, headers: response.headers, text, json: isJson ? JSON.parse(text) : null }
    }
    const login = async (username: string, secret = password, ip?: string) =>
      ask('POST', '/auth/login', {
        body: { username, password: secret },
        ...(ip !== undefined && { headers: { 'X-Forwarded-For': ip } }),
      })
    return { url: started.url, stop: () => started.stop(), ask, login }
  }
  t.teardown(async () => {
    await worker.stop()
    await projector.stop()
    await bus.close()
  })
  const ring = keyRing(secretKeys)!
  const passwords = new Passwords(cheap.hashCost)
  /** As the command line makes one. */
  const add = async (username: string, role: Role) => {
    const userId = newId()
    const sealed = sealedPassword(ring, userId, await passwords.digest(password))
    await registerUser(bus, { userId, username, role, password: sealed }, 'cli:test', Date.now())
  }
  for (const role of roles) await add(role, role)
  const until = async (look: () => Promise<boolean> | boolean): Promise<void> => {
    for (let tries = 0; tries < 1_000; tries++) {
      if (await look()) return
      await new Promise((resolve) => setTimeout(resolve, 10))
    }
    throw new Error('what was waited for has not come')
  }
  return { nats, bus, faults, gateway, add, ring, until, secretKeys, connection }
}
