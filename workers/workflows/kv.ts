import type { Bus } from '../../bus/connect.ts'
import { KvConflict, KvInvalid } from '../../bus/kv.ts'
import { type KvSpace, kvSpace } from '../../bus/kv-space.ts'
import { workflowsBucket } from '../../bus/topology.ts'
import { kvTypeOf } from '../../schemas/workflows/kv.ts'
import type { Mask } from './mask.ts'
import { TaskFailure, type TaskKv } from './plugin.ts'

const pageKeys = 10_000

/** The key-value store as tasks have it: what it does not take is refused for good. */
export function taskKv(bus: Bus): TaskKv {
  const space: KvSpace = kvSpace(bus, { bucket: workflowsBucket })
  return {
    async get(namespace, key) {
      const item = await refusing(() => space.get(namespace, key))
      return item === null ? null : { value: item.value, version: item.version }
    },
    async put(namespace, key, value, { ttlMs, version } = {}) {
      const write = {
        value,
        type: kvTypeOf(value),
        ...(ttlMs !== undefined && { ttlMs }),
        ...(version !== undefined && { condition: version }),
      }
      return (await refusing(() => space.put(namespace, key, write))).version
    },
    delete: (namespace, key) => refusing(() => space.delete(namespace, key)),
    async keys(namespace, prefix) {
      const { entries } = await refusing(() => space.list(namespace, { prefix, limit: pageKeys }))
      return entries.map(({ key }) => key)
    },
  }
}

/** Nothing that a task has opened gets into the store, where everybody reads it. */
export function maskedKv(kv: TaskKv, mask: Mask): TaskKv {
  return {
    get: (namespace, key) => kv.get(namespace, mask.text(key)),
    put: (namespace, key, value, options) => kv.put(namespace, mask.text(key), mask.value(value), options),
    delete: (namespace, key) => kv.delete(namespace, mask.text(key)),
    keys: (namespace, prefix) => kv.keys(namespace, prefix),
  }
}

async function refusing<T>(call: () => Promise<T>): Promise<T> {
  try {
    return await call()
  } catch (error) {
    if (!(error instanceof KvConflict) && !(error instanceof KvInvalid)) throw error
    throw new TaskFailure('refused', `The key-value store refuses it: ${error.message}`, error)
  }
}
