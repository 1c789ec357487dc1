import { setTimeout as delay } from 'node:timers/promises'
import { DeliverPolicy, type JsMsg, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import { Client } from 'pg'
import type { Test } from 'tap'
import { addressOf } from '../../bus/connect.ts'
import type { Capture } from '../../workers/capture/capture-loop.ts'
import { type PostgresCaptureOptions, startPostgresCapture } from '../../workers/capture/postgres-capture.ts'

export type Owner = Pick<Test, 'teardown'>

export const streamName = 'cdc-stream'

export async function connectBus(t: Owner, url: string): Promise<NatsConnection> {
  const bus = await connect({ ...addressOf(url), maxReconnectAttempts: -1, reconnectTimeWait: 100, timeout: 5_000 })
  t.teardown(() => bus.close())
  return bus
}

export async function makeStream(bus: NatsConnection): Promise<void> {
  const manager = await jetstreamManager(bus)
  await manager.streams.add({ name: streamName, subjects: ['cdc.>'], allow_direct: true })
}

export async function connectDatabase(t: Owner, url: string): Promise<Client> {
  const client = new Client({ connectionString: url })
  client.on('error', () => undefined)
  await client.connect()
  t.teardown(() => client.end().catch(() => undefined))
  return client
}

export function capture(
  t: Owner,
  url: string,
  bus: NatsConnection,
  options: Partial<PostgresCaptureOptions> = {},
): Capture {
  const started = startPostgresCapture({
    connection: { connectionString: url },
    source: 'main',
    schemas: ['public'],
    slotName: 'busbar',
    publicationName: 'busbar',
    bus,
    streamName,
    signal: new AbortController().signal,
    checkMs: 200,
    refusedRetryMs: 200,
    ...options,
  })
  t.teardown(() => started.stop())
  return started
}

export async function until(condition: () => boolean | Promise<boolean>): Promise<void> {
  while (!(await condition())) await delay(10)
}

export interface Stored {
  readonly sequence: number
  readonly subject: string
  readonly body: string
  readonly header: (name: string) => string
}

/** All messages of the stream from a sequence on, until one satisfies `last`. */
export async function readStream(
  bus: NatsConnection,
  last: (message: Stored) => boolean,
  fromSequence = 1,
  stream = streamName,
): Promise<Stored[]> {
  const consumer = await jetstream(bus).consumers.get(stream, {
    deliver_policy: DeliverPolicy.StartSequence,
    opt_start_seq: fromSequence,
  })
  const messages = await consumer.consume()
  const stored: Stored[] = []
  for await (const message of messages) {
    stored.push(asStored(message))
    if (last(stored.at(-1)!)) break
  }
  await messages.close()
  return stored
}

function asStored(message: JsMsg): Stored {
  return {
    sequence: message.seq,
    subject: message.subject,
    body: message.string(),
    header: (name) => message.headers?.get(name) ?? '',
  }
}
