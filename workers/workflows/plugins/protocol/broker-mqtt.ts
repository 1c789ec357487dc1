import { randomBytes } from 'node:crypto'
import type { IClientPublishOptions, IPublishPacket, MqttClient } from 'mqtt'
import { TaskFailure } from '../../plugin.ts'
import { secureSocket } from '../secure-socket.ts'
import { tlsOptions } from '../server-properties.ts'
import type { Broker, BrokerRun, Inbox, OutgoingMessage } from './broker.ts'

/** Opens a broker of MQTT. Source: OASIS MQTT 5.0 and 3.1.1 */
export async function openMqtt(run: BrokerRun): Promise<Broker> {
  const { given, broken } = run
  const { input } = given
  const client = await connectMqtt(run)
  const publish = async (message: OutgoingMessage, more: Record<string, unknown> = {}) => {
    await asking(client.publishAsync(message.topic, message.payload, publishOptions(run, message, more)))
  }
  const subscribe = async (topic: string) => {
    const [granted] = await asking(client.subscribeAsync(topic, { qos: input.qos }))
    if (granted !== undefined && granted.qos >= 128)
      throw new TaskFailure('refused', `The broker refused the topic ${topic}`)
  }
  const asking = async <T>(work: Promise<T>): Promise<T> => {
    try {
      return await broken.or(work)
    } catch (error) {
      throw mqttFailure(error)
    }
  }
  return {
    async publish(message) {
      await publish(message)
      return {}
    },
    async receive(inbox) {
      client.on('message', (topic, payload, packet) => deliver(inbox, topic, payload, packet))
      await subscribe(input.topic!)
      await inbox.wait(broken)
    },
    async request(message, inbox) {
      const replyTopic = input.replyTopic ?? `busbar/answers/${message.id}/${randomBytes(6).toString('hex')}`
      client.on('message', (topic, payload, packet) => {
        const correlation = packet.properties?.correlationData
        // One that answers something else; of version 4 there is no telling.
        if (correlation === undefined || correlation.toString() === message.id) deliver(inbox, topic, payload, packet)
      })
      await subscribe(replyTopic)
      await publish(message, { responseTopic: replyTopic, correlationData: Buffer.from(message.id) })
      await inbox.wait(broken)
    },
    close: () => end(client),
  }
}

function deliver(inbox: Inbox, topic: string, payload: Buffer, { retain, qos, properties }: IPublishPacket): void {
  inbox.add(topic, payload, { retain, qos, ...properties?.userProperties })
}

function publishOptions(
  { given }: BrokerRun,
  { id }: OutgoingMessage,
  more: Record<string, unknown>,
): IClientPublishOptions {
  const { qos, retain, version, headers, contentType, expiresMs } = given.input
  if (version === 4) return { qos, retain }
  return {
    qos,
    retain,
    properties: {
      userProperties: { ...headers, 'Idempotency-Key': id },
      ...(contentType !== undefined && { contentType }),
      ...(expiresMs !== undefined && { messageExpiryInterval: Math.ceil(expiresMs / 1_000) }),
      ...more,
    },
  }
}

async function connectMqtt({ given, place, broken }: BrokerRun): Promise<MqttClient> {
  const { input, services, signal } = given
  const { default: driver } = await import('mqtt')
  const plain = await services.net.connect({ host: place.host, port: place.port, signal })
  const isSecure = place.scheme === 'mqtts' || input.tls !== undefined
  const stream = isSecure ? await secureSocket(plain, tlsOptions(input.tls ?? {}, place.host)) : plain
  const client = new driver.MqttClient(() => stream, {
    protocolVersion: input.version,
    clientId: `busbar-${randomBytes(8).toString('hex')}`,
    clean: true,
    reconnectPeriod: 0,
    connectTimeout: 10_000,
    keepalive: 30,
    ...(place.user !== '' && { username: place.user }),
    ...(place.password !== '' && { password: place.password }),
    // Larger ones are not sent to us.
    ...(input.version === 5 && { properties: { maximumPacketSize: Math.min(input.maxBytes + 65_536, 268_435_455) } }),
  })
  client.on('error', (error) => broken.fail(mqttFailure(error)))
  client.on('close', () => broken.fail(new TaskFailure('unavailable', 'The broker closed the connection')))
  try {
    await broken.or(new Promise<void>((resolve) => client.once('connect', () => resolve())))
    return client
  } catch (error) {
    end(client)
    stream.destroy()
    throw error
  }
}

function end(client: MqttClient): void {
  client.removeAllListeners('message')
  // Says goodbye, so that no will is carried out, and waits for nobody.
  if (client.connected) client.end(true)
  else client.stream?.destroy()
}

/** Reason codes of what can pass. Source: MQTT 5.0 section 2.4, 3.1.1 section 3.2.2.3 */
const passing = new Set([3, 136, 137, 139, 141, 142, 147, 150, 151, 152, 156, 157])

function mqttFailure(error: unknown): TaskFailure {
  if (error instanceof TaskFailure) return error
  const { code, message } = error as { code?: number | string; message: string }
  if (typeof code === 'number')
    return new TaskFailure(
      passing.has(code) ? 'unavailable' : 'refused',
      `The broker refused it (${code}): ${message}`,
      error,
    )
  if (/timeout/i.test(message)) return new TaskFailure('timeout', 'The broker does not answer', error)
  if (/^E[A-Z]+$/.test(code ?? '') || /closed|disconnect/i.test(message))
    return new TaskFailure('unavailable', `The connection broke: ${code ?? message}`, error)
  return new TaskFailure('refused', message, error)
}
