import { TaskFailure } from '../../plugin.ts'

/** What the operations are told; each names in `needs` what it cannot do without. */
interface RedisInput {
  readonly key?: string
  readonly keys?: readonly string[]
  readonly value?: unknown
  readonly values?: readonly unknown[]
  readonly field?: string
  readonly fields?: Readonly<Record<string, unknown>>
  readonly members?: readonly { readonly member: string; readonly score: number }[]
  readonly by: number
  readonly ttlMs?: number
  readonly onlyIf?: 'absent' | 'present'
  readonly side: 'left' | 'right'
  readonly from: number
  readonly to: number
  readonly descending: boolean
  readonly channel?: string
  readonly command?: readonly (string | number | boolean)[]
}

export interface RedisOperation {
  readonly title: string
  readonly needs: readonly string[]
  /** More than one run as a transaction, and the last one answers. */
  readonly commands: (input: RedisInput) => readonly (readonly string[])[]
  /** Makes the output of the answer; absent: as it is. */
  readonly value?: (reply: unknown, input: RedisInput) => unknown
}

/** Commands that administer the server, run programs in it, change what a connection is, or never answer. */
const denied = new Set(
  (
    'ACL AUTH BGREWRITEAOF BGSAVE CLIENT CLUSTER CONFIG DEBUG EVAL EVALSHA EVAL_RO EVALSHA_RO FAILOVER FCALL FCALL_RO FLUSHALL ' +
    'FLUSHDB FUNCTION HELLO LATENCY MIGRATE MODULE MONITOR MULTI EXEC DISCARD WATCH PSUBSCRIBE PSYNC QUIT REPLICAOF RESET ' +
    'RESTORE-ASKING SAVE SCRIPT SELECT SHUTDOWN SLAVEOF SLOWLOG SSUBSCRIBE SUBSCRIBE SWAPDB SYNC'
  ).split(' '),
)

function text(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}

const valuesOf = ({ value, values }: RedisInput): string[] => {
  const all = values ?? (value === undefined ? [] : [value])
  if (all.length === 0) throw new TaskFailure('refused', 'properties.value is needed, or properties.values')
  return all.map(text)
}

const keysOf = ({ key, keys }: RedisInput): string[] => {
  const all = keys ?? (key === undefined ? [] : [key])
  if (all.length === 0) throw new TaskFailure('refused', 'properties.key is needed, or properties.keys')
  return [...all]
}

const one =
  (...given: (string | ((input: RedisInput) => string | readonly string[]))[]) =>
  (input: RedisInput) => [given.flatMap((each) => (typeof each === 'string' ? [each] : each(input)))]

const key = (input: RedisInput): string => input.key!
const field = (input: RedisInput): string => input.field!

const toBoolean = (reply: unknown): boolean => Number(reply) > 0
const toNumber = (reply: unknown): number => Number(reply)
const toRecord = (reply: unknown): Record<string, unknown> => {
  const flat = reply as unknown[]
  return Object.fromEntries(Array.from({ length: flat.length / 2 }, (_, at) => [flat[at * 2], flat[at * 2 + 1]]))
}

/** Whole numbers and others are added by two commands. */
const adding = (whole: string, other: string, place: readonly string[], by: number): string[] => [
  Number.isSafeInteger(by) ? whole : other,
  ...place,
  String(by),
]

export const redisOperations = {
  get: { title: 'The text of a key', needs: ['key'], commands: one('GET', key) },
  set: {
    title: 'Sets a key; gives whether it was set',
    needs: ['key', 'value'],
    commands: one(
      'SET',
      key,
      ({ value }) => text(value),
      ({ ttlMs }) => (ttlMs === undefined ? [] : ['PX', String(ttlMs)]),
      ({ onlyIf }) => (onlyIf === undefined ? [] : [onlyIf === 'absent' ? 'NX' : 'XX']),
    ),
    value: (reply) => reply !== null,
  },
  delete: { title: 'Deletes keys; gives how many there were', needs: [], commands: one('DEL', keysOf) },
  exists: { title: 'How many of the keys there are', needs: [], commands: one('EXISTS', keysOf) },
  expire: {
    title: 'Lets a key live for `ttlMs`; gives whether there is one',
    needs: ['key', 'ttlMs'],
    commands: one('PEXPIRE', key, ({ ttlMs }) => String(ttlMs)),
    value: toBoolean,
  },
  timeToLive: {
    title: 'Milliseconds that a key still lives; -1 for ever, -2 when there is none',
    needs: ['key'],
    commands: one('PTTL', key),
  },
  increment: {
    title: 'Adds to a number, which lives for `ttlMs` when it is new; gives the sum',
    needs: ['key'],
    commands(input) {
      const add = adding('INCRBY', 'INCRBYFLOAT', [key(input)], input.by)
      // Only a new counter gets a life: that of a window ends with it.
      return input.ttlMs === undefined ? [add] : [['SET', key(input), '0', 'PX', String(input.ttlMs), 'NX'], add]
    },
    value: toNumber,
  },
  scan: { title: 'Keys that fit a pattern', needs: [], commands: () => [] },
  hashGet: { title: 'A field of a hash', needs: ['key', 'field'], commands: one('HGET', key, field) },
  hashGetAll: { title: 'All fields of a hash', needs: ['key'], commands: one('HGETALL', key), value: toRecord },
  hashSet: {
    title: 'Sets fields of a hash; gives how many are new',
    needs: ['key'],
    commands: one('HSET', key, ({ field: name, value, fields }) => {
      const all = Object.entries(fields ?? (name === undefined ? {} : { [name]: value }))
      if (all.length === 0) throw new TaskFailure('refused', 'properties.fields is needed, or field and value')
      return all.flatMap(([each, set]) => [each, text(set)])
    }),
  },
  hashDelete: { title: 'Deletes a field of a hash', needs: ['key', 'field'], commands: one('HDEL', key, field) },
  hashIncrement: {
    title: 'Adds to a field of a hash; gives the sum',
    needs: ['key', 'field'],
    commands: (input) => [adding('HINCRBY', 'HINCRBYFLOAT', [key(input), field(input)], input.by)],
    value: toNumber,
  },
  push: {
    title: 'Adds to an end of a list; gives its length',
    needs: ['key'],
    commands: one(({ side }) => (side === 'left' ? 'LPUSH' : 'RPUSH'), key, valuesOf),
  },
  pop: {
    title: 'Takes the value at an end of a list',
    needs: ['key'],
    commands: one(({ side }) => (side === 'left' ? 'LPOP' : 'RPOP'), key),
  },
  range: {
    title: 'Values of a list, by index',
    needs: ['key'],
    commands: one(
      'LRANGE',
      key,
      ({ from }) => String(from),
      ({ to }) => String(to),
    ),
  },
  setAdd: { title: 'Adds to a set; gives how many are new', needs: ['key'], commands: one('SADD', key, valuesOf) },
  setRemove: {
    title: 'Takes out of a set; gives how many there were',
    needs: ['key'],
    commands: one('SREM', key, valuesOf),
  },
  setMembers: { title: 'Members of a set', needs: ['key'], commands: one('SMEMBERS', key) },
  setHas: {
    title: 'Whether a value is in a set',
    needs: ['key', 'value'],
    commands: one('SISMEMBER', key, ({ value }) => text(value)),
    value: toBoolean,
  },
  sortedAdd: {
    title: 'Adds to a sorted set; gives how many are new',
    needs: ['key', 'members'],
    commands: one('ZADD', key, ({ members }) => members!.flatMap(({ member, score }) => [String(score), member])),
  },
  sortedRange: {
    title: 'Members of a sorted set with their scores, by index',
    needs: ['key'],
    commands: one(
      'ZRANGE',
      key,
      ({ from }) => String(from),
      ({ to }) => String(to),
      ({ descending }) => (descending ? ['REV'] : []),
      'WITHSCORES',
    ),
    value: (reply) => Object.entries(toRecord(reply)).map(([member, score]) => ({ member, score: Number(score) })),
  },
  sortedRemove: {
    title: 'Takes members out of a sorted set; gives how many there were',
    needs: ['key'],
    commands: one('ZREM', key, valuesOf),
  },
  publish: {
    title: 'Sends a message to a channel; gives how many got it',
    needs: ['channel', 'value'],
    commands: one(
      'PUBLISH',
      ({ channel }) => channel!,
      ({ value }) => text(value),
    ),
  },
  command: {
    title: 'Any other command',
    needs: ['command'],
    commands({ command }) {
      const [name, ...rest] = command!.map(String)
      if (denied.has(name!.toUpperCase()))
        throw new TaskFailure('refused', `properties.command: ${name!.toUpperCase()} is not for tasks`)
      return [[name!, ...rest]]
    },
  },
} as const satisfies Record<string, RedisOperation>
