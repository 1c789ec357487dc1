import type { Socket } from 'node:net'
import type { Msg, NatsConnection } from '@nats-io/transport-node'
import { TaskFailure } from '../../plugin.ts'
import { tlsOptions } from '../server-properties.ts'
import type { Broken, Broker, BrokerRun, Inbox, OutgoingMessage } from './broker.ts'

/** Opens a NATS. Other servers of its cluster are not connected to. */
export async function openNats(run: BrokerRun): Promise<Broker> {
  const { given, broken } = run
  const { input } = given
  const connection = await connectNats(run)
  const asking = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await broken.or(work())
    } catch (error) {
      given.signal.throwIfAborted()
      throw natsFailure(error)
    }
  }
  return {
    publish: (message) => asking(() => publish(connection, message, input)),
    receive: (inbox) =>
      asking(() => (input.consumer === undefined ? listen(connection, run, inbox) : fetchFrom(connection, run, inbox))),
    request: (message, inbox) =>
      asking(async () => {
        const headers = await headersOf(message, input)
        const answer = await connection.request(message.topic, message.payload, { timeout: input.waitMs, headers })
        deliver(inbox, answer)
      }),
    key: (operation, value) => asking(() => onKey(connection, operation, value, input)),
    close: async () => await connection.close().catch(() => undefined),
  }
}

const greetingMs = 5_000

type Input = BrokerRun['given']['input']

async function connectNats({ given, place, broken }: BrokerRun): Promise<NatsConnection> {
  const { input, services, signal } = given
  const [{ connect }, [address]] = await Promise.all([
    import('@nats-io/transport-node'),
    services.net.resolve(place.host, signal),
  ])
  await greeted(await services.net.connect({ host: place.host, port: place.port, signal }), broken)
  const server = address!.family === 6 ? `[${address!.address}]:${place.port}` : `${address!.address}:${place.port}`
  const connecting = connect({
    servers: server,
    name: 'busbar',
    timeout: greetingMs,
    reconnect: false,
    ignoreClusterUpdates: true,
    noAsyncTraces: true,
    ...(place.user !== '' && { user: place.user, pass: place.password }),
    ...(input.token !== undefined && { token: input.token }),
    ...(input.tls !== undefined && { tls: tlsOptions(input.tls, place.host) as never }),
  })
  try {
    const connection = await broken.or(connecting)
    void connection.closed().then((error) => broken.fail(new TaskFailure('unavailable', 'The connection broke', error)))
    return connection
  } catch (error) {
    // It may still come about.
    connecting.then((late) => late.close()).catch(() => undefined)
    signal.throwIfAborted()
    throw natsFailure(error)
  }
}

/** The library keeps a connection to a server that says nothing for ever: this asks first whether it speaks. */
async function greeted(socket: Socket, broken: Broken): Promise<void> {
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  socket.once('data', (chunk) => {
    if (chunk.toString('latin1').startsWith('INFO ')) resolve()
    else reject(new TaskFailure('refused', 'The server does not speak NATS'))
  })
  socket.once('close', () => reject(new TaskFailure('unavailable', 'The server closed the connection')))
  const late = () => reject(new TaskFailure('timeout', 'The server does not answer'))
  const timer = setTimeout(late, greetingMs)
  try {
    await broken.or(promise)
  } finally {
    clearTimeout(timer)
    socket.destroy()
  }
}

async function headersOf({ id }: OutgoingMessage, { headers, contentType }: Input) {
  const { headers: make } = await import('@nats-io/transport-node')
  const made = make()
  for (const [name, value] of Object.entries(headers)) made.append(name, value)
  if (contentType !== undefined) made.set('Content-Type', contentType)
  made.set('Nats-Msg-Id', id)
  return made
}

/** Into a stream, unless nobody has to confirm it: there its id makes it one, however often it is sent. */
async function publish(connection: NatsConnection, message: OutgoingMessage, input: Input) {
  const headers = await headersOf(message, input)
  if (input.qos === 0) {
    connection.publish(message.topic, message.payload, { headers })
    await connection.flush()
    return {}
  }
  const { jetstream } = await import('@nats-io/jetstream')
  const { stream, seq, duplicate } = await jetstream(connection).publish(message.topic, message.payload, { headers })
  return { stream, sequence: seq, duplicate }
}

async function listen(connection: NatsConnection, { given, broken }: BrokerRun, inbox: Inbox): Promise<void> {
  const subscription = connection.subscribe(given.input.topic!, {
    callback: (error, message) => (error === null ? void deliver(inbox, message) : broken.fail(natsFailure(error))),
  })
  await connection.flush()
  await inbox.wait(broken)
  subscription.unsubscribe()
}

/** Acknowledged as they come: a task that fails after this has had them. */
async function fetchFrom(connection: NatsConnection, { given }: BrokerRun, inbox: Inbox): Promise<void> {
  const { consumer, maxMessages, waitMs } = given.input
  const [stream, name] = consumer!.split('/') as [string, string]
  const { jetstream } = await import('@nats-io/jetstream')
  const found = await jetstream(connection).consumers.get(stream, name)
  // The server waits for a second at least.
  const messages = await found.fetch({ max_messages: maxMessages, expires: Math.max(1_000, waitMs) })
  for await (const message of messages) {
    const headers = Object.fromEntries(
      [...(message.headers ?? [])].map(([header, values]) => [header, values.join(', ')]),
    )
    if (!inbox.add(message.subject, message.data, { ...headers, sequence: message.seq })) break
    await message.ackAck()
  }
}

function deliver(inbox: Inbox, { subject, data, headers }: Msg): void {
  inbox.add(subject, data, Object.fromEntries([...(headers ?? [])].map(([name, values]) => [name, values.join(', ')])))
}

async function onKey(
  connection: NatsConnection,
  operation: 'keyGet' | 'keyPut' | 'keyDelete',
  value: Buffer,
  { bucket, key }: Input,
) {
  const { Kvm } = await import('@nats-io/kv')
  const store = await new Kvm(connection).open(bucket!)
  if (operation === 'keyPut') await store.put(key!, value)
  if (operation === 'keyDelete') await store.delete(key!)
  if (operation !== 'keyGet') return null
  const entry = await store.get(key!)
  return entry === null || entry.operation !== 'PUT' ? null : entry.string()
}

function natsFailure(error: unknown): TaskFailure {
  if (error instanceof TaskFailure) return error
  const { name = '', message = '', code } = error as { name?: string; message?: string; code?: string }
  const { status } = error as { status?: number }
  if (/CERT|SSL|TLS|SELF_SIGNED|UNABLE_TO/.test(String(code)) || /tls/i.test(message))
    return new TaskFailure('refused', `TLS is not possible: ${message}`, error)
  if (name === 'TimeoutError') return new TaskFailure('timeout', 'NATS does not answer', error)
  const { name: cause } = (error as { cause?: { cause?: { name?: string } } }).cause?.cause ?? {}
  if (/NoResponders/.test(`${name} ${cause}`) || /no responders/i.test(message))
    return new TaskFailure('refused', 'Nobody answers the subject: with qos 1 a stream has to take it', error)
  if (/Authorization|Permission|UserAuthentication/.test(name))
    return new TaskFailure('refused', `NATS refused it: ${message}`, error)
  if (/Connection|Closed|Draining|Disconnect/.test(name) || /^E[A-Z]+$/.test(String(code)) || status === 503)
    return new TaskFailure('unavailable', `The connection broke: ${message}`, error)
  return new TaskFailure('refused', `NATS refused it: ${message}`, error)
}
