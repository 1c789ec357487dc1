import type { Consumer, Producer } from '@platformatic/kafka'
import { TaskFailure } from '../../plugin.ts'
import { tlsOptions } from '../server-properties.ts'
import type { Broker, BrokerRun, Inbox, OutgoingMessage } from './broker.ts'
import { boundCodecs } from './broker-kafka-codecs.ts'
import { kafkaFailure } from './broker-kafka-failure.ts'
import { type Client, KafkaGuard } from './broker-kafka-guard.ts'
import { consume } from './broker-kafka-receive.ts'

const closeMs = 300

/** Opens a Kafka, which is connected to with the first operation. Source: https://kafka.apache.org/protocol */
export async function openKafka(run: BrokerRun): Promise<Broker> {
  const { signal } = run.given
  const kafka = await import('@platformatic/kafka')
  boundCodecs(kafka.compressionsAlgorithms)
  const guard = new KafkaGuard(run.given)
  const options = clientOptions(run, guard)
  const clients: Client[] = []
  const opened = <Each extends Client>(client: Each): Each => {
    guard.watch(client)
    clients.push(client)
    return client
  }
  const asking = async <T>(work: () => Promise<T>): Promise<T> => {
    try {
      return await run.broken.or(work())
    } catch (error) {
      signal.throwIfAborted()
      throw kafkaFailure(error)
    }
  }
  return {
    publish: (message) => asking(() => publish(opened(new kafka.Producer(options)), message, run)),
    receive: (inbox) => asking(() => receive(opened(new kafka.Consumer(groupOptions(options, run))), inbox, run)),
    request: async () => {
      throw new TaskFailure('refused', 'The operation request needs MQTT, NATS or AMQP: Kafka knows no answers')
    },
    async close() {
      const late = new Promise((resolve) => setTimeout(resolve, closeMs).unref())
      const closing = clients.map((client) => Promise.resolve(client.close(true as never)).catch(() => undefined))
      await Promise.race([Promise.all(closing), late])
      guard.letGo()
    },
  }
}

function clientOptions({ given, place }: BrokerRun, guard: KafkaGuard) {
  const { tls, saslMechanism } = given.input
  const isSecure = place.scheme === 'kafkas' || tls !== undefined
  return {
    clientId: 'busbar',
    bootstrapBrokers: [{ host: place.host, port: place.port }],
    retries: 2,
    retryDelay: 200,
    connectTimeout: 10_000,
    timeout: 10_000,
    autocreateTopics: false,
    ...(isSecure && { tls: guard.secure(tlsOptions(tls ?? {}, place.host), tls?.serverName) }),
    ...(place.user !== '' && {
      sasl: { mechanism: saslMechanism, username: place.user, password: place.password },
    }),
  }
}

function groupOptions(options: ReturnType<typeof clientOptions>, { given }: BrokerRun) {
  // Nobody is in the group of one that has none: it has to be named all the same.
  const { group = 'busbar' } = given.input
  return { ...options, groupId: group, autocommit: false, sessionTimeout: 6_000, heartbeatInterval: 1_000 }
}

async function publish(
  producer: Producer,
  { topic, payload, id }: OutgoingMessage,
  { given }: BrokerRun,
): Promise<Record<string, unknown>> {
  const { key, headers, contentType, qos } = given.input
  const named = { ...headers, ...(contentType !== undefined && { 'content-type': contentType }), 'idempotency-key': id }
  const { offsets = [] } = await producer.send({
    messages: [
      {
        topic,
        value: payload,
        headers: new Map(Object.entries(named).map(([name, value]) => [Buffer.from(name), Buffer.from(value)])),
        ...(key !== undefined && { key: Buffer.from(key) }),
      },
    ],
    acks: qos === 0 ? 0 : -1,
  })
  const [first] = offsets
  return first === undefined ? {} : { partition: first.partition, offset: Number(first.offset) }
}

async function receive(consumer: Consumer, inbox: Inbox, run: BrokerRun): Promise<void> {
  const { group } = run.given.input
  consumer.topics.track(run.given.input.topic!)
  if (group !== undefined) await consumer.joinGroup()
  const read = await consume(consumer, inbox, run)
  if (group === undefined) return
  // A task that fails after this has had them.
  if (read.length > 0) await consumer.commit({ offsets: [...read] })
  await consumer.leaveGroup(true)
}
