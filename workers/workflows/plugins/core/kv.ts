import { setTimeout as delay } from 'node:timers/promises'
import { Type } from 'typebox'
import { definePlugin, TaskFailure, type TaskKv, type TaskRun } from '../../plugin.ts'
import { needed } from '../content.ts'
import { durationMs } from '../duration.ts'

const maxTries = 50
const maxKeys = 10_000

const input = Type.Object(
  {
    operation: Type.Union(
      [
        Type.Literal('get'),
        Type.Literal('put'),
        Type.Literal('delete'),
        Type.Literal('list'),
        Type.Literal('cas'),
        Type.Literal('increment'),
      ],
      {
        description:
          '`get`, `put`, `delete`, `list` the keys, `cas` (put if the key is still at `version`), or `increment` a number, which no other task can come between (one whose worker dies in that moment may count twice)',
        default: 'get',
        examples: ['put'],
      },
    ),
    key: Type.Optional(
      Type.String({ description: 'The key; all but `list` need one', minLength: 1, examples: ['cursor'] }),
    ),
    value: Type.Optional(
      Type.Unknown({ description: 'What `put` and `cas` write: any JSON value', examples: [{ page: 7 }] }),
    ),
    version: Type.Optional(
      Type.Integer({
        description: 'For `cas`: the version that the key has to be at, as `get` gave it; 0 when it must not be there',
        minimum: 0,
        examples: [3],
      }),
    ),
    by: Type.Number({ description: 'For `increment`: how much is added', default: 1, examples: [-1] }),
    ttl: Type.Optional(
      Type.Union([Type.String(), Type.Number()], {
        description: 'For writing: after which time the key goes away; without one it stays',
        examples: ['24h'],
      }),
    ),
    prefix: Type.String({ description: 'For `list`: what the keys begin with', default: '', examples: ['user/'] }),
    otherwise: Type.Unknown({
      description: 'For `get`: what is given when there is no such key',
      default: null,
      examples: [0],
    }),
    namespace: Type.Optional(
      Type.String({ description: 'Another namespace than that of the flow', minLength: 1, examples: ['shared'] }),
    ),
  },
  { additionalProperties: false },
)

export const kv = definePlugin({
  id: 'core.kv',
  name: 'Key-value store',
  category: 'Core',
  description:
    'Reads and writes the key-value store of the namespace, which outlives executions: cursors, counters, what was seen last.',
  input,
  output: Type.Object({
    key: Type.Union([Type.String(), Type.Null()], { description: 'The key', examples: ['cursor'] }),
    value: Type.Unknown({ description: 'The value that it has now; null when there is none', examples: [7] }),
    version: Type.Integer({ description: 'Its version now; 0 when there is none', examples: [4] }),
    found: Type.Boolean({ description: 'Whether it was there before', examples: [true] }),
    keys: Type.Array(Type.String(), { description: 'What `list` has found, up to 10000', examples: [['user/1']] }),
  }),
  example: `name: count-runs
tasks:
  - name: count
    type: core.kv
    properties:
      operation: increment
      key: runs
  - name: tell
    type: util.log
    properties: { message: 'Run number {{ outputs.count.value }}' }
`,
  async run(task) {
    const { operation, prefix } = task.input
    const namespace = task.input.namespace ?? task.task.namespace
    if (operation === 'list') {
      const keys = await task.services.kv.keys(namespace, prefix)
      return { key: null, value: null, version: 0, found: keys.length > 0, keys: keys.slice(0, maxKeys) }
    }
    const key = needed(task.input.key, 'key', operation)
    return { key, keys: [], ...(await perform[operation](task, namespace, key)) }
  },
})

type KvTask = TaskRun<{
  readonly value?: unknown
  readonly version?: number
  readonly by: number
  readonly ttl?: string | number
  readonly otherwise: unknown
}>

interface Entry {
  readonly value: unknown
  readonly version: number
  readonly found: boolean
}

const perform: Readonly<
  Record<
    'get' | 'put' | 'delete' | 'cas' | 'increment',
    (task: KvTask, namespace: string, key: string) => Promise<Entry>
  >
> = {
  async get({ input: { otherwise }, services }, namespace, key) {
    const entry = await services.kv.get(namespace, key)
    return entry === null ? { value: otherwise, version: 0, found: false } : { ...entry, found: true }
  },
  async put({ input, services }, namespace, key) {
    const value = needed(input.value, 'value', 'put')
    const before = await services.kv.get(namespace, key)
    return { value, version: await services.kv.put(namespace, key, value, lifetime(input)), found: before !== null }
  },
  async delete({ services }, namespace, key) {
    return { value: null, version: 0, found: await services.kv.delete(namespace, key) }
  },
  async cas({ input, services }, namespace, key) {
    const value = needed(input.value, 'value', 'cas')
    const version = needed(input.version, 'version', 'cas')
    const written = await services.kv.put(namespace, key, value, { ...lifetime(input), version })
    return { value, version: written, found: version > 0 }
  },
  async increment({ input, services, signal }, namespace, key) {
    for (let tries = 1; ; tries++) {
      const before = await services.kv.get(namespace, key)
      const value = sum(before?.value ?? 0, input.by)
      const version = before?.version ?? 0
      try {
        const written = await services.kv.put(namespace, key, value, { ...lifetime(input), version })
        return { value, version: written, found: before !== null }
      } catch (error) {
        if (!(await isBehind(services.kv, namespace, key, version, error))) throw error
        if (tries >= maxTries) throw new TaskFailure('unavailable', `Too many tasks write the key ${key}`, error)
        await delay(Math.random() * 5 * tries, undefined, { signal })
      }
    }
  },
}

/** A refusal because of the version, rather than of what is written. */
async function isBehind(kv: TaskKv, namespace: string, key: string, version: number, error: unknown): Promise<boolean> {
  if (!(error instanceof TaskFailure) || error.kind !== 'refused') return false
  return ((await kv.get(namespace, key))?.version ?? 0) !== version
}

function sum(value: unknown, by: number): number {
  if (typeof value === 'number') return value + by
  throw new TaskFailure('refused', `properties.key holds no number, but ${JSON.stringify(value).slice(0, 100)}`)
}

function lifetime({ ttl }: { readonly ttl?: string | number }): { readonly ttlMs?: number } {
  return ttl === undefined ? {} : { ttlMs: durationMs(ttl, 'properties.ttl') }
}
