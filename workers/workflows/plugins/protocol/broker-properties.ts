import { type Static, Type } from 'typebox'
import { accountProperties, TlsSettings } from '../server-properties.ts'

const operations = {
  publish: 'Sends a message',
  request: 'Sends a message and waits for the answer to it',
  receive: 'Waits for messages',
  keyGet: 'NATS: the value of a key',
  keyPut: 'NATS: sets a key',
  keyDelete: 'NATS: deletes a key',
} as const
const names = Object.keys(operations) as (keyof typeof operations)[]

/** What is asked of a broker. */
export const BrokerInput = Type.Object(
  {
    url: Type.String({
      description:
        'The broker: `mqtt://` or `mqtts://` for MQTT, `nats://` for NATS, `amqp://` or `amqps://` for RabbitMQ (with its virtual host), `kafka://` or `kafkas://` for Kafka',
      examples: ['mqtt://localhost:1883'],
    }),
    ...accountProperties,
    token: Type.Optional(
      Type.String({ description: 'NATS: token, in place of an account', examples: ['${NATS.token}'] }),
    ),
    tls: Type.Optional(TlsSettings),
    version: Type.Union([Type.Literal(4), Type.Literal(5)], {
      description: 'MQTT: version of the protocol, 4 for 3.1.1',
      default: 5,
      examples: [4],
    }),
    operation: Type.Union(
      names.map((name) => Type.Literal(name, { description: operations[name] })),
      { description: 'What to do', default: 'publish', examples: ['publish'] },
    ),
    topic: Type.Optional(
      Type.String({
        description:
          'Topic of MQTT or Kafka, subject of NATS, routing key or queue of AMQP; with wildcards where messages are received, but for Kafka',
        examples: ['orders/new'],
      }),
    ),
    exchange: Type.String({
      description: 'AMQP: exchange that is sent to; the empty one leads to the queue of the name',
      default: '',
      examples: ['orders'],
    }),
    payload: Type.Optional(
      Type.Unknown({ description: 'The message: a text; anything else is sent as JSON', examples: [{ order: 42 }] }),
    ),
    file: Type.Optional(
      Type.String({ description: 'Or the bytes of a file of another task', examples: ['{{ outputs.render.uri }}'] }),
    ),
    headers: Type.Record(Type.String(), Type.String(), {
      description: 'Headers; user properties of MQTT 5',
      default: {},
      examples: [{ source: 'shop' }],
    }),
    contentType: Type.Optional(Type.String({ description: 'What the message is', examples: ['application/json'] })),
    qos: Type.Union([Type.Literal(0), Type.Literal(1), Type.Literal(2)], {
      description:
        '0: nobody confirms it; 1: the broker does, on NATS a stream and there once for each task, on Kafka every replica in step; 2: exactly once, of MQTT alone',
      default: 1,
      examples: [0],
    }),
    retain: Type.Boolean({
      description: 'MQTT: kept for those who come later; AMQP: survives a restart of the broker',
      default: false,
      examples: [true],
    }),
    expiresMs: Type.Optional(
      Type.Integer({
        description: 'How long the message is of use, milliseconds: MQTT 5, AMQP',
        minimum: 1,
        examples: [60_000],
      }),
    ),
    replyTopic: Type.Optional(
      Type.String({
        description: 'MQTT: where the answer is sent; default: a topic of its own',
        examples: ['answers/busbar'],
      }),
    ),
    consumer: Type.Optional(
      Type.String({
        description: 'NATS: durable consumer to receive from, as `stream/consumer`, in place of a subject',
        pattern: '^[^/.*> ]+/[^/.*> ]+$',
        examples: ['ORDERS/billing'],
      }),
    ),
    bucket: Type.Optional(
      Type.String({ description: 'NATS: bucket of the key', pattern: '^[A-Za-z0-9_-]+$', examples: ['settings'] }),
    ),
    key: Type.Optional(
      Type.String({
        description: 'NATS: the key; Kafka: key of the message, which keeps those of a key in order',
        examples: ['shop.open'],
      }),
    ),
    group: Type.Optional(
      Type.String({
        description:
          'Kafka: consumer group that shares the messages and goes on where it was; without one all are received',
        minLength: 1,
        maxLength: 255,
        examples: ['billing'],
      }),
    ),
    fromStart: Type.Boolean({
      description:
        'Kafka: whether to begin with the oldest message in place of the next new one, where a group has not been before',
      default: false,
      examples: [true],
    }),
    saslMechanism: Type.Enum(['SCRAM-SHA-256', 'SCRAM-SHA-512', 'PLAIN'], {
      description: 'Kafka: how the account is shown; PLAIN tells the broker the password',
      default: 'SCRAM-SHA-256',
      examples: ['PLAIN'],
    }),
    maxMessages: Type.Integer({
      description: 'Most messages that are received; the task ends with the last of them',
      default: 1,
      minimum: 1,
      maximum: 10_000,
      examples: [10],
    }),
    waitMs: Type.Integer({
      description: 'Longest wait for messages or an answer, milliseconds; what came until then is given',
      default: 10_000,
      minimum: 1,
      maximum: 3_600_000,
      examples: [60_000],
    }),
    maxBytes: Type.Integer({
      description: 'More bytes of messages than this fail the task',
      default: 4_194_304,
      minimum: 1,
      maximum: 67_108_864,
      examples: [65_536],
    }),
  },
  { additionalProperties: false },
)
export type BrokerInput = Static<typeof BrokerInput>

export const BrokerOutput = Type.Object({
  messages: Type.Array(Type.Unknown(), {
    description: 'What was received: text as it is, other bytes in base64',
    examples: [[{ topic: 'orders/new', payload: '{"order":42}', encoding: 'utf8', headers: {} }]],
  }),
  value: Type.Unknown({ description: 'Value of the key; null when there is none', examples: ['yes'] }),
  result: Type.Record(Type.String(), Type.Unknown(), {
    description:
      'What the broker says of what was sent: on NATS stream, sequence and whether it had it already; on Kafka partition and offset',
    examples: [{ stream: 'ORDERS', sequence: 7, duplicate: false }],
  }),
})
