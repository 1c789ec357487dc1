import type { ChannelModel, ConfirmChannel, ConsumeMessage, Options } from 'amqplib'
import { TaskFailure } from '../../plugin.ts'
import { tlsOptions } from '../server-properties.ts'
import type { Broker, BrokerRun, Inbox, OutgoingMessage } from './broker.ts'

/** Opens a RabbitMQ. Source: AMQP 0-9-1, https://www.rabbitmq.com/docs/confirms */
export async function openAmqp(run: BrokerRun): Promise<Broker> {
  const { given, broken } = run
  const { input } = given
  const connection = await connectAmqp(run)
  const asking = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await broken.or(work())
    } catch (error) {
      given.signal.throwIfAborted()
      throw amqpFailure(error)
    }
  }
  const open = async () => {
    const channel = await connection.createConfirmChannel()
    channel.on('error', (error) => broken.fail(amqpFailure(error)))
    return channel
  }
  return {
    publish: (message) => asking(async () => await publish(await open(), message, run)),
    receive: (inbox) =>
      asking(async () => {
        const channel = await open()
        await channel.prefetch(Math.min(input.maxMessages, 65_535))
        // Acknowledged as they come: a task that fails after this has had them. What is too much goes back to the queue.
        await channel.consume(
          input.topic!,
          (message) => message !== null && deliver(inbox, message) && channel.ack(message),
        )
        await inbox.wait(broken)
        await channel.close()
      }),
    request: (message, inbox) =>
      asking(async () => {
        const channel = await open()
        // RabbitMQ's own queue for answers: there for as long as the connection.
        const replyTo = 'amq.rabbitmq.reply-to'
        const take = (answer: ConsumeMessage | null) => {
          if (answer?.properties.correlationId === message.id) deliver(inbox, answer)
        }
        await channel.consume(replyTo, take, { noAck: true })
        await publish(channel, message, run, { replyTo, correlationId: message.id })
        await inbox.wait(broken)
      }),
    close: async () => {
      const closed = connection.close().catch(() => undefined)
      await Promise.race([closed, new Promise((resolve) => setTimeout(resolve, 300).unref())])
      streamOf(connection)?.destroy()
    },
  }
}

async function connectAmqp({ given, place, broken }: BrokerRun): Promise<ChannelModel> {
  const { input, services, signal } = given
  const { default: driver } = await import('amqplib')
  const { host, port } = place
  const isSecure = place.scheme === 'amqps' || input.tls !== undefined
  const [address] = await services.net.resolve(host, signal)
  // For TLS it takes a connection that is there; without, it makes one, to the address that was checked.
  const secure = isSecure
    ? { socket: await services.net.connect({ host, port, signal }), ...tlsOptions(input.tls ?? {}, host) }
    : { signal }
  const connecting = driver.connect(
    {
      protocol: isSecure ? 'amqps' : 'amqp',
      hostname: address!.address,
      port,
      username: place.user === '' ? 'guest' : place.user,
      password: place.password === '' ? 'guest' : place.password,
      vhost: place.path === '' ? '/' : place.path,
      heartbeat: 30,
    },
    { ...secure, timeout: 10_000, noDelay: true, clientProperties: { connection_name: 'busbar' } },
  )
  try {
    const connection = await broken.or(connecting)
    connection.on('error', (error) => broken.fail(amqpFailure(error)))
    connection.on('close', () => broken.fail(new TaskFailure('unavailable', 'The broker closed the connection')))
    return connection
  } catch (error) {
    connecting.then((late) => late.close()).catch(() => undefined)
    signal.throwIfAborted()
    throw amqpFailure(error)
  }
}

function streamOf(connection: ChannelModel): { destroy(): void } | undefined {
  return (connection.connection as { stream?: { destroy(): void } }).stream
}

/** Confirmed by the broker, unless nobody has to; one that leads to no queue comes back. */
async function publish(
  channel: ConfirmChannel,
  { topic, payload, id }: OutgoingMessage,
  { given }: BrokerRun,
  more: Options.Publish = {},
): Promise<Record<string, unknown>> {
  const { exchange, qos, retain, headers, contentType, expiresMs } = given.input
  let returned: string | null = null
  channel.on('return', ({ fields }) => {
    returned = (fields as { replyText?: string }).replyText ?? 'NO_ROUTE'
  })
  channel.publish(exchange, topic, payload, {
    messageId: id,
    headers,
    mandatory: qos > 0,
    persistent: retain,
    ...(contentType !== undefined && { contentType }),
    ...(expiresMs !== undefined && { expiration: expiresMs }),
    ...more,
  })
  await channel.waitForConfirms()
  if (returned !== null) throw new TaskFailure('refused', `No queue takes the message: ${returned}`)
  return {}
}

function deliver(inbox: Inbox, { content, fields, properties }: ConsumeMessage): boolean {
  const { messageId, contentType, headers } = properties
  const told = {
    ...headers,
    ...(messageId !== undefined && { messageId }),
    ...(contentType !== undefined && { contentType }),
  }
  return inbox.add(fields.routingKey, content, told)
}

/** What can pass: CONNECTION-FORCED, RESOURCE-LOCKED, RESOURCE-ERROR, INTERNAL-ERROR. Source: AMQP 0-9-1 section 1.2 */
const passing = new Set([320, 405, 506, 541])

function amqpFailure(error: unknown): TaskFailure {
  if (error instanceof TaskFailure) return error
  const { code, message = '' } = error as { code?: number | string; message?: string }
  if (typeof code === 'number')
    return new TaskFailure(passing.has(code) ? 'unavailable' : 'refused', `The broker refused it: ${message}`, error)
  if (/Expected ConnectionOpenOk/.test(message))
    return new TaskFailure(
      'refused',
      'The broker refused it: there is no such virtual host, or it is not for the account',
      error,
    )
  if (/ACCESS.REFUSED|Handshake terminated by server: 40[34]|NOT_ALLOWED|NOT-ALLOWED/.test(message))
    return new TaskFailure('refused', `The broker refused it: ${message}`, error)
  if (/CERT|SSL|TLS|SELF_SIGNED|UNABLE_TO/.test(code ?? ''))
    return new TaskFailure('refused', `TLS is not possible: ${message}`, error)
  if (/ETIMEDOUT|Heartbeat timeout/.test(`${code} ${message}`))
    return new TaskFailure('timeout', 'The broker does not answer', error)
  if (/^E[A-Z]+$/.test(code ?? '') || /clos|end(ed)?\b/i.test(message))
    return new TaskFailure('unavailable', `The connection broke: ${code ?? message}`, error)
  return new TaskFailure('refused', message, error)
}
