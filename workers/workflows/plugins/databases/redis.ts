import type { RedisClientType } from 'redis'
import { type Static, Type } from 'typebox'
import { definePlugin, TaskFailure, type TaskRun } from '../../plugin.ts'
import { accountProperties, needProperties, serverPlace, TlsSettings, tlsOptions } from '../server-properties.ts'
import { type RedisOperation, redisOperations } from './redis-operations.ts'

const names = Object.keys(redisOperations) as (keyof typeof redisOperations)[]

const Scalar = Type.Union([Type.String(), Type.Number(), Type.Boolean()])

const Input = Type.Object(
  {
    url: Type.String({
      description: 'Where the server is, and the number of the database; `rediss://` speaks TLS',
      examples: ['redis://localhost:6379/0'],
    }),
    ...accountProperties,
    tls: Type.Optional(TlsSettings),
    operation: Type.Union(
      names.map((name) => Type.Literal(name, { description: redisOperations[name].title })),
      { description: 'What to do', examples: ['get'] },
    ),
    key: Type.Optional(Type.String({ description: 'The key; of all but some operations', examples: ['cart:42'] })),
    keys: Type.Optional(
      Type.Array(Type.String(), { description: 'Several keys: delete, exists', examples: [['cart:42', 'cart:43']] }),
    ),
    value: Type.Optional(
      Type.Unknown({
        description: 'The value: a text; anything else is stored as JSON. set, push, publish, setAdd, hashSet',
        examples: ['three apples'],
      }),
    ),
    values: Type.Optional(
      Type.Array(Type.Unknown(), { description: 'Several values: push, setAdd, setRemove', examples: [['a', 'b']] }),
    ),
    field: Type.Optional(Type.String({ description: 'Field of a hash', examples: ['total'] })),
    fields: Type.Optional(
      Type.Record(Type.String(), Type.Unknown(), { description: 'Fields to set: hashSet', examples: [{ total: 3 }] }),
    ),
    members: Type.Optional(
      Type.Array(
        Type.Object({
          member: Type.String({ description: 'The member', examples: ['ada'] }),
          score: Type.Number({ description: 'Its score', examples: [12.5] }),
        }),
        { description: 'Members of a sorted set: sortedAdd', examples: [[{ member: 'ada', score: 12.5 }]] },
      ),
    ),
    by: Type.Number({ description: 'How much is added: increment, hashIncrement', default: 1, examples: [5] }),
    ttlMs: Type.Optional(
      Type.Integer({
        description: 'How long the key lives, milliseconds: set, expire, increment',
        minimum: 1,
        examples: [60_000],
      }),
    ),
    onlyIf: Type.Optional(
      Type.Union([Type.Literal('absent'), Type.Literal('present')], {
        description: 'Sets only a key that is not there yet, or one that is',
        examples: ['absent'],
      }),
    ),
    side: Type.Union([Type.Literal('left'), Type.Literal('right')], {
      description: 'Which end of a list: push, pop',
      default: 'right',
      examples: ['left'],
    }),
    from: Type.Integer({
      description: 'First index of a range; negative ones count from the end',
      default: 0,
      examples: [0],
    }),
    to: Type.Integer({ description: 'Last index of a range', default: -1, examples: [9] }),
    descending: Type.Boolean({ description: 'Highest score first: sortedRange', default: false, examples: [true] }),
    match: Type.String({ description: 'Pattern of keys: scan', default: '*', examples: ['cart:*'] }),
    limit: Type.Integer({
      description: 'Most keys that are given: scan',
      default: 1_000,
      minimum: 1,
      maximum: 100_000,
      examples: [100],
    }),
    channel: Type.Optional(Type.String({ description: 'Channel: publish', examples: ['orders'] })),
    command: Type.Optional(
      Type.Array(Scalar, {
        description: 'A command and its arguments: command',
        minItems: 1,
        examples: [['STRLEN', 'cart:42']],
      }),
    ),
    maxBytes: Type.Integer({
      description: 'A larger answer, as JSON, fails the task',
      default: 4_194_304,
      minimum: 1,
      maximum: 67_108_864,
      examples: [65_536],
    }),
    timeoutMs: Type.Integer({
      description: 'Longest wait for an answer, milliseconds',
      default: 30_000,
      minimum: 1,
      examples: [5_000],
    }),
  },
  { additionalProperties: false },
)
type Given = TaskRun<Static<typeof Input>>

/** Source: https://redis.io/docs/latest/commands/ */
export const redis = definePlugin({
  id: 'db.redis',
  name: 'Redis',
  category: 'Databases',
  description:
    'Keys, counters, hashes, lists, sets, sorted sets and messages of a Redis or Valkey, and any other command but those ' +
    'that administer the server or never end.',
  needs: 'A Redis 6.2 or newer, or a Valkey',
  input: Input,
  output: Type.Object({
    value: Type.Unknown({ description: 'The answer: null for a key that is not there', examples: ['three apples'] }),
  }),
  example: `name: count-visits
tasks:
  - name: count
    type: db.redis
    properties:
      url: redis://localhost:6379/0
      operation: increment
      key: visits
`,
  async run(given) {
    const { input, signal } = given
    const operation: RedisOperation = redisOperations[input.operation]
    needProperties(input, operation.needs)
    const commands = operation.commands(input)
    const client = await openClient(given)
    try {
      const reply = await inTime(all(client, commands, input), given)
      const value = operation.value === undefined ? (reply ?? null) : operation.value(reply, input)
      if (Buffer.byteLength(JSON.stringify(value) ?? '') > input.maxBytes)
        throw new TaskFailure('refused', `The answer is larger than ${input.maxBytes} bytes`)
      return { value }
    } catch (error) {
      signal.throwIfAborted()
      throw redisFailure(error)
    } finally {
      if (client.isOpen) client.destroy()
    }
  },
})

async function openClient({ input, signal, services }: Given): Promise<RedisClientType> {
  const { createClient } = await import('redis')
  const place = serverPlace(input, { redis: 6379, rediss: 6379 })
  const [first] = await services.net.resolve(place.host, signal)
  const secure = place.scheme === 'rediss' || input.tls !== undefined
  const socket = {
    // The address that was checked, so that it is the one connected to.
    host: first!.address,
    port: place.port,
    connectTimeout: connectMs,
    reconnectStrategy: false as const,
    ...(secure && { tls: true as const, ...tlsOptions(input.tls ?? {}, place.host) }),
  }
  const database = /^\d{1,9}$/.test(place.path) ? Number(place.path) : 0
  const client = createClient({
    socket: socket as never,
    ...(place.user !== '' && { username: place.user }),
    ...(place.password !== '' && { password: place.password }),
    database,
    RESP: 2,
    disableClientInfo: true,
    maintNotifications: 'disabled',
  }) as unknown as RedisClientType
  client.on('error', () => undefined)
  try {
    await inTime(client.connect(), { input, signal })
    return client
  } catch (error) {
    // A connection that is about to be made is made all the same.
    client.on('connect', () => client.destroy())
    client.destroy()
    signal.throwIfAborted()
    throw redisFailure(error)
  }
}

const connectMs = 10_000

/** Gives up on what the server does not answer, or the task no longer wants. */
async function inTime<T>(work: Promise<T>, { input, signal }: Pick<Given, 'input' | 'signal'>): Promise<T> {
  const late = Promise.withResolvers<never>()
  const timer = setTimeout(
    () => late.reject(new TaskFailure('timeout', `No answer after ${input.timeoutMs} ms`)),
    input.timeoutMs,
  )
  const stop = () => late.reject(signal.reason)
  signal.addEventListener('abort', stop, { once: true })
  try {
    return await Promise.race([work, late.promise])
  } finally {
    clearTimeout(timer)
    signal.removeEventListener('abort', stop)
  }
}

async function all(client: RedisClientType, commands: readonly (readonly string[])[], input: Given['input']) {
  if (input.operation === 'scan') return await scan(client, input)
  if (commands.length === 1) return await client.sendCommand([...commands[0]!])
  // All of them or none: a counter with a time to live, for one.
  const replies = await Promise.all([['MULTI'], ...commands, ['EXEC']].map((each) => client.sendCommand([...each])))
  const done = replies.at(-1) as unknown as unknown[]
  const failed = done.find((each) => each instanceof Error)
  if (failed !== undefined) throw failed
  return done.at(-1)
}

async function scan(client: RedisClientType, { match, limit }: Given['input']): Promise<string[]> {
  const found = new Set<string>()
  let cursor = '0'
  do {
    const [next, keys] = (await client.sendCommand(['SCAN', cursor, 'MATCH', match, 'COUNT', '500'])) as [
      string,
      string[],
    ]
    for (const key of keys) if (found.size < limit) found.add(key)
    cursor = String(next)
  } while (cursor !== '0' && found.size < limit)
  return [...found]
}

/** What can pass: a server that loads, is full, has no master or waits for a script. */
const passing = /^(BUSY|LOADING|TRYAGAIN|CLUSTERDOWN|MASTERDOWN|OOM|READONLY|NOREPLICAS|ERR max number of clients)/

function redisFailure(error: unknown): TaskFailure {
  if (error instanceof TaskFailure) return error
  const { message = '', code, name = '' } = error as { message?: string; code?: string; name?: string }
  if (name === 'ConnectionTimeoutError') return new TaskFailure('timeout', 'The server does not answer', error)
  if (/CERT|SSL|TLS|ALTNAME|SELF_SIGNED|UNABLE_TO_VERIFY/.test(code ?? ''))
    return new TaskFailure('refused', `TLS is not possible: ${code}`, error)
  if (
    /^E[A-Z]+$/.test(code ?? '') ||
    /Socket|ClientClosed|Disconnect/.test(name) ||
    /Socket closed|client is closed/i.test(message)
  )
    return new TaskFailure('unavailable', `The connection broke: ${code ?? message}`, error)
  return new TaskFailure(passing.test(message) ? 'unavailable' : 'refused', `Redis refused it: ${message}`, error)
}
