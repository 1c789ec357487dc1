import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { type Bus, connectBus } from '../../bus/connect.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { type FunctionGatewayOptions, startFunctionGateway } from '../../gateways/functions/server.ts'
import { type FunctionWorkerOptions, startFunctionWorker } from '../../workers/functions/worker.ts'
import { testNats } from '../support/servers.ts'

export interface Answer {
  readonly status: number
  readonly body: unknown
  readonly headers: Headers
}

export type Call = (method: string, path: string, body?: unknown, headers?: Record<string, string>) => Promise<Answer>

/** Requests to a gateway; texts go as they are, other bodies as JSON. */
export function client(url: string): Call {
  return async (method, path, body, headers = {}) => {
    const type = body === undefined ? {} : { 'Content-Type': 'application/json' }
    const content = body === undefined ? {} : { body: typeof body === 'string' ? body : JSON.stringify(body) }
    const response = await fetch(`${url}${path}`, { method, headers: { ...type, ...headers }, ...content })
    const text = await response.text()
    const json = /json/.test(response.headers.get('content-type') ?? '') && text !== ''
    return { status: response.status, body: json ? JSON.parse(text) : text, headers: response.headers }
  }
}

type Owner = Pick<Test, 'teardown'>

export interface Platform {
  readonly natsUrl: string
  readonly bus: Bus
  readonly secretKeys: readonly string[]
  gateway(
    options?: Partial<FunctionGatewayOptions>,
  ): Promise<{ readonly url: string; readonly call: Call; stop(): Promise<void> }>
  worker(options?: Partial<FunctionWorkerOptions>): Promise<{ stop(): Promise<void> }>
}

/** A nats-server with all streams; gateways and workers as wanted, each with a connection of its own. */
export async function platform(t: Owner): Promise<Platform> {
  const nats = await testNats(t)
  const secretKeys = [`test:${randomBytes(32).toString('base64')}`]
  const connected = async (name: string) => {
    const bus = await connectBus({ url: nats.url, name })
    t.teardown(() => bus.close())
    return bus
  }
  const bus = await connected('test')
  await reconcileStreams(bus, streamSpecs())
  const stopping = (stop: () => Promise<void>) => {
    let stopped: Promise<void> | null = null
    const once = () => {
      stopped ??= stop()
      return stopped
    }
    t.teardown(once)
    return once
  }
  return {
    natsUrl: nats.url,
    bus,
    secretKeys,
    async gateway(options = {}) {
      const { url, stop } = await startFunctionGateway({
        bus: await connected('gateway'),
        host: '127.0.0.1',
        port: 0,
        corsOrigins: ['*'],
        jwt: {},
        secretKeys,
        onObservation: () => undefined,
        ...options,
      })
      return { url, call: client(url), stop: stopping(stop) }
    },
    async worker(options = {}) {
      const { stop } = await startFunctionWorker({
        bus: await connected('worker'),
        secretKeys,
        hosts: { hosts: 1 },
        changeStream: 'cdc-stream',
        source: 'main',
        onObservation: () => undefined,
        ...options,
      })
      return { stop: stopping(stop) }
    },
  }
}

/** What is asked for again and again, once it is there. */
export async function until<T>(what: () => Promise<T | false>): Promise<T> {
  for (;;) {
    const found = await what()
    if (found !== false) return found
    await sleep(20)
  }
}
