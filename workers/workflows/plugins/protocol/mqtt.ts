import { createHash } from 'node:crypto'
import { definePlugin, TaskFailure, type TaskRun } from '../../plugin.ts'
import { needProperties, serverPlace } from '../server-properties.ts'
import { Broken, type Broker, type BrokerRun, Inbox, type OutgoingMessage } from './broker.ts'
import { openAmqp } from './broker-amqp.ts'
import { openKafka } from './broker-kafka.ts'
import { openMqtt } from './broker-mqtt.ts'
import { openNats } from './broker-nats.ts'
import { BrokerInput, BrokerOutput } from './broker-properties.ts'

const ports = { mqtt: 1883, mqtts: 8883, nats: 4222, amqp: 5672, amqps: 5671, kafka: 9092, kafkas: 9093 }

const openers: Readonly<Record<string, (run: BrokerRun) => Promise<Broker>>> = {
  mqtt: openMqtt,
  mqtts: openMqtt,
  nats: openNats,
  amqp: openAmqp,
  amqps: openAmqp,
  kafka: openKafka,
  kafkas: openKafka,
}

const needed: Readonly<Record<BrokerInput['operation'], readonly string[]>> = {
  publish: ['topic'],
  request: ['topic'],
  receive: [],
  keyGet: ['bucket', 'key'],
  keyPut: ['bucket', 'key'],
  keyDelete: ['bucket', 'key'],
}

/** Source: OASIS MQTT 5.0 and 3.1.1; NATS client protocol and JetStream; AMQP 0-9-1 with RabbitMQ's confirms; Kafka protocol */
export const mqtt = definePlugin({
  id: 'mqtt.publish',
  name: 'Messaging',
  category: 'Protocol',
  description:
    'Sends messages over MQTT, NATS, AMQP (RabbitMQ) or Kafka, asks and waits for the answer, waits for messages, and keeps values in NATS. ' +
    'Messages carry the key of the task, by which receivers tell doubles.',
  needs:
    'A broker: MQTT 3.1.1 or 5, NATS 2.10 or newer, RabbitMQ, or Kafka 3.5 or newer. Kafka is tested with the broker that comes with librdkafka for tests',
  input: BrokerInput,
  output: BrokerOutput,
  example: `name: tell-orders
tasks:
  - name: tell
    type: mqtt.publish
    properties:
      url: mqtt://localhost:1883
      topic: orders/new
      payload: { order: 42 }
`,
  async run(given: TaskRun<BrokerInput>) {
    const { input, signal } = given
    needProperties(input, needed[input.operation])
    const place = serverPlace(input, ports)
    const payload = await payloadOf(given)
    const inbox = new Inbox(input.operation === 'request' ? { ...input, maxMessages: 1 } : input)
    const broken = new Broken(signal)
    let broker: Broker | null = null
    try {
      broker = await openers[place.scheme]!({ given, place, broken })
      const told = await perform(broker, given, payload, inbox)
      return { messages: [...inbox.messages], value: null, result: {}, ...told }
    } catch (error) {
      signal.throwIfAborted()
      throw error
    } finally {
      await broker?.close()
    }
  },
})

async function perform(broker: Broker, { input, idempotencyKey }: TaskRun<BrokerInput>, payload: Buffer, inbox: Inbox) {
  const { operation, topic = '', waitMs } = input
  const id = createHash('sha256').update(idempotencyKey).digest('hex').slice(0, 32)
  const message: OutgoingMessage = { topic, payload, id }
  switch (operation) {
    case 'publish':
      return { result: await broker.publish(message) }
    case 'request':
      await broker.request(message, inbox)
      if (inbox.messages.length === 0) throw new TaskFailure('timeout', `No answer after ${waitMs} ms`)
      return {}
    case 'receive':
      if (topic === '' && input.consumer === undefined)
        throw new TaskFailure('refused', 'properties.topic is needed for the operation receive')
      await broker.receive(inbox)
      return {}
    default:
      if (broker.key === undefined)
        throw new TaskFailure('refused', `The operation ${operation} needs a server of nats://`)
      return { value: await broker.key(operation, payload) }
  }
}

async function payloadOf({ input, services }: TaskRun<BrokerInput>): Promise<Buffer> {
  const { payload, file, operation, maxBytes } = input
  const isSent = operation === 'publish' || operation === 'request' || operation === 'keyPut'
  if (!isSent) return Buffer.alloc(0)
  if ((payload === undefined) === (file === undefined))
    throw new TaskFailure(
      'refused',
      `properties.payload or properties.file is needed for the operation ${operation}, and only one`,
    )
  const bytes =
    file === undefined
      ? Buffer.from(typeof payload === 'string' ? payload : JSON.stringify(payload))
      : Buffer.from(await services.files.get(file))
  if (bytes.length <= maxBytes) return bytes
  throw new TaskFailure('refused', `The message is larger than ${maxBytes} bytes`)
}
