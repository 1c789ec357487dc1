import type { FunctionKv } from './kv.ts'
import { KvFull, KvRefused } from './kv-room.ts'
import { pack, unpack } from './sandbox/wire.ts'

/** Answers an operation of a function in `settle`'s form: `'='` + packet or `'!'` + JSON `{name, message}`. Never throws. */
export type PerformOperation = (
  functionId: string,
  name: string,
  argument: string,
  signal: AbortSignal,
) => Promise<string>

/** The key-value namespaces as functions use them. */
export type KvAccess = Pick<FunctionKv, 'get' | 'put' | 'delete' | 'list'>

export const refused = (name: string, message: string): string => `!${JSON.stringify({ name, message })}`

/** What functions ask of the supervisor: `fetch`, and their key-value namespace. */
export function supervisorOperations(kv: KvAccess, fetch: PerformOperation): PerformOperation {
  return async (functionId, name, argument, signal) => {
    try {
      if (name === 'fetch') return await fetch(functionId, name, argument, signal)
      return `=${await keyValue(kv, functionId, name, argument)}`
    } catch (error) {
      if (error instanceof KvFull) return refused('QuotaExceededError', error.message)
      if (error instanceof KvRefused) return refused('TypeError', error.message)
      return refused('Error', 'The operation is not possible at the moment')
    }
  }
}

async function keyValue(kv: KvAccess, functionId: string, name: string, argument: string): Promise<string> {
  if (name === 'kv-put') {
    const { head, rest } = unpack<[string, { expirationTtl?: number }]>(argument)
    await kv.put(functionId, head[0], rest, head[1].expirationTtl)
    return pack(null)
  }
  const [first] = JSON.parse(argument) as [never]
  if (name === 'kv-get') {
    const value = await kv.get(functionId, first)
    return value === null ? pack(false) : pack(true, value)
  }
  if (name === 'kv-delete') {
    await kv.delete(functionId, first)
    return pack(null)
  }
  if (name === 'kv-list') return pack(await kv.list(functionId, first))
  throw new Error(`No operation ${name}`)
}
