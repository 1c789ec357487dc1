import { LRUCache } from 'lru-cache'
import type { Bus } from '../../bus/connect.ts'
import { readBytes, storeBytes } from '../../bus/objects.ts'
import type { Value } from '../../schemas/workflows/task-result.ts'
import type { ScopeSources } from './scope.ts'

/** A larger output lies in the object store. */
const maxInlineValueBytes = 16 * 1024
/** Of items that are kept in memory. */
const maxListBytes = 64 * 1024 ** 2

/** What tasks give: small ones are kept in the events, large ones in the object store. All of it throws {BusUnavailable}. */
export interface TaskValues extends Pick<ScopeSources, 'read' | 'item'> {
  readonly store: (json: unknown) => Promise<Value>
}

export function taskValues(bus: Bus): TaskValues {
  /** Items of loops, by digest: each of their tasks asks for one. */
  const lists = new LRUCache<string, readonly unknown[]>({ max: 100, maxSize: maxListBytes })
  const read = async (value: Value): Promise<unknown> => {
    if ('json' in value) return value.json
    return JSON.parse(Buffer.from(await readBytes(bus, value.object)).toString('utf8'))
  }
  return {
    read,
    async item(list, index) {
      if ('json' in list) return (list.json as readonly unknown[])[index] ?? null
      const known = lists.get(list.object)
      const items = known ?? ((await read(list)) as readonly unknown[])
      if (known === undefined) lists.set(list.object, items, { size: list.sizeBytes })
      // Nobody gets the list itself, so it can be shared.
      return structuredClone(items[index] ?? null)
    },
    async store(json) {
      const text = JSON.stringify(json ?? null)
      const sizeBytes = Buffer.byteLength(text)
      if (sizeBytes <= maxInlineValueBytes) return { json: json ?? null }
      return { object: await storeBytes(bus, Buffer.from(text)), sizeBytes }
    },
  }
}
