import { get, type IncomingMessage } from 'node:http'
import type { NatsConnection } from '@nats-io/nats-core'
import { createParser, type EventSourceMessage } from 'eventsource-parser'
import type { FastifyInstance } from 'fastify'
import pg from 'pg'
import type { Test } from 'tap'
import { WebSocket } from 'ws'
import { watchCatalog } from '../../gateways/data/catalog-watch.ts'
import { type ChangeHub, type ChangeHubOptions, createChangeHub } from '../../gateways/data/changes-hub.ts'
import { openDatabase } from '../../gateways/data/postgres-run.ts'
import { defaultReadLimits } from '../../gateways/data/read-limits.ts'
import { createAuthenticator } from '../../gateways/http/auth.ts'
import { createHttpServer } from '../../gateways/http/server.ts'
import { type ChangeRouteOptions, changeRoutes } from '../../gateways/rest/changes.ts'
import { streamName } from '../capture/support.ts'

export const secret = 'a secret of at least thirty-two bytes'

export interface ChangeGateway {
  readonly port: number
  readonly app: FastifyInstance
  readonly hub: ChangeHub | null
}

/** The change routes alone, on a real database and bus. */
export async function changeGateway(
  t: Pick<Test, 'teardown' | 'fail'>,
  databaseUrl: string,
  bus: NatsConnection | null,
  options: { readonly hub?: Partial<ChangeHubOptions>; readonly routes?: Partial<ChangeRouteOptions> } = {},
): Promise<ChangeGateway> {
  const connection = { connectionString: databaseUrl }
  const connect = async () => {
    const client = new pg.Client(connection)
    await client.connect()
    return client
  }
  const catalog = await watchCatalog({ connect, schemas: ['public'], pollMs: 100 })
  const database = await openDatabase({ connection, poolSize: 4, applicationName: 'changes test' })
  const app = await createHttpServer({
    maxBodyBytes: 1_048_576,
    corsOrigins: ['*'],
    onFault: ({ error }) => t.fail((error as Error).stack ?? String(error)),
  })
  const hub = bus && (await createChangeHub({ bus, streamName, source: 'main', ...options.hub }))
  const service = {
    schema: 'public',
    catalog,
    database,
    authenticate: createAuthenticator({ secret, clockToleranceSeconds: 0 }).authenticate,
    limits: defaultReadLimits,
    emitCommands: false,
  }
  await changeRoutes(app, service, hub, { corsOrigins: ['*'], recheckMs: 500, ...options.routes })
  await app.listen({ host: '127.0.0.1', port: 0 })
  t.teardown(async () => {
    await app.close()
    await catalog.stop()
    await database.close()
  })
  return { port: (app.server.address() as { port: number }).port, app, hub }
}

export interface Heard {
  readonly event: string
  readonly id: string | undefined
  // biome-ignore lint/suspicious/noExplicitAny: what an event holds is what the tests are about
  readonly data: any
}

/** A client of a change stream, over SSE or WebSocket, that remembers all it heard. */
export interface Listener {
  readonly heard: Heard[]
  /** Texts of comments or numbers of pings. */
  readonly beats: string[]
  readonly ended: Promise<number | null>
  readonly headers: Readonly<Record<string, unknown>>
  /** Resolves when the condition holds of what was heard. */
  until(condition: (heard: readonly Heard[]) => boolean): Promise<Heard[]>
  pause(): void
  resume(): void
  close(): void
}

/** What is waited for does not come any more. */
async function endOf(ended: Promise<unknown>, ears: Ears): Promise<never> {
  const how = await ended
  throw new Error(`the stream ended (${how}) after ${ears.heard.length} events: ${JSON.stringify(ears.heard.at(-1))}`)
}

class Ears {
  readonly heard: Heard[] = []
  readonly beats: string[] = []
  readonly #waiting = new Set<() => void>()

  hear(heard: Heard): void {
    this.heard.push(heard)
    for (const check of this.#waiting) check()
  }

  until(condition: (heard: readonly Heard[]) => boolean): Promise<Heard[]> {
    return new Promise((resolve) => {
      const check = () => {
        if (!condition(this.heard)) return
        this.#waiting.delete(check)
        resolve(this.heard)
      }
      this.#waiting.add(check)
      check()
    })
  }
}

export async function request(
  gateway: ChangeGateway,
  path: string,
  headers: Record<string, string> = {},
): Promise<IncomingMessage> {
  return await new Promise((resolve, reject) => {
    get({ host: '127.0.0.1', port: gateway.port, path, headers, agent: false }, resolve).on('error', reject)
  })
}

/** @returns status and JSON of an answer that is no stream */
export async function refusal(gateway: ChangeGateway, path: string, headers: Record<string, string> = {}) {
  const response = await request(gateway, path, headers)
  let text = ''
  for await (const chunk of response) text += chunk
  return { status: response.statusCode, headers: response.headers, body: JSON.parse(text) }
}

export async function listen(
  gateway: ChangeGateway,
  path: string,
  headers: Record<string, string> = {},
): Promise<Listener> {
  const response = await request(gateway, `/api/v1/${path}`, { Accept: 'text/event-stream', ...headers })
  if (response.statusCode !== 200) throw new Error(`${response.statusCode} ${await response.toArray()}`)
  const ears = new Ears()
  const parser = createParser({
    onEvent: ({ event = 'message', id, data }: EventSourceMessage) => ears.hear({ event, id, data: JSON.parse(data) }),
    onComment: (comment) => ears.beats.push(comment),
  })
  response.setEncoding('utf8').on('data', (text: string) => parser.feed(text))
  const ended = new Promise<null>((resolve) => response.once('close', () => resolve(null)).on('error', () => undefined))
  return {
    heard: ears.heard,
    beats: ears.beats,
    ended,
    headers: response.headers,
    until: (condition) => Promise.race([ears.until(condition), endOf(ended, ears)]),
    pause: () => response.pause(),
    resume: () => response.resume(),
    close: () => response.destroy(),
  }
}

export async function listenSocket(
  gateway: ChangeGateway,
  path: string,
  headers: Record<string, string> = {},
): Promise<Listener> {
  const ears = new Ears()
  const socket = new WebSocket(`ws://127.0.0.1:${gateway.port}/ws/${path}`, { headers })
  socket.on('message', (message) => {
    const data = JSON.parse(String(message))
    ears.hear({ event: data.type, id: undefined, data })
  })
  socket.on('ping', () => ears.beats.push('ping'))
  const ended = new Promise<number>((resolve) => socket.once('close', resolve))
  await new Promise((resolve, reject) => socket.once('open', resolve).once('error', reject))
  return {
    heard: ears.heard,
    beats: ears.beats,
    ended,
    headers: {},
    until: (condition) => Promise.race([ears.until(condition), endOf(ended, ears)]),
    pause: () => socket.pause(),
    resume: () => socket.resume(),
    close: () => socket.terminate(),
  }
}

/** Waits until everything written so far has gone by all gateways of the test, so that no new listener hears of it. Needs a table `marker`. */
export async function settle(gateway: ChangeGateway, sql: pg.Client): Promise<void> {
  const listener = await listen(gateway, 'marker/changes')
  const { rows } = await sql.query<{ id: number }>('insert into marker default values returning id')
  await listener.until((heard) => heard.some(({ data }) => data.data.id === rows[0]!.id))
  listener.close()
}
