import type { CallBody } from './body.ts'
import { request, tell } from './host.ts'
import { create, freeze, jsonParse, jsonStringify, NativeTypeError, toText } from './intrinsics.ts'
import { report } from './log.ts'
import type { GuestCall } from './operations.ts'
import { pack, unpack } from './wire.ts'

/** The promises of all calls that were given to waitUntil and are still open. */
let waiting = 0
export const isWaiting = (): boolean => waiting > 0

async function waitFor(promise: unknown): Promise<void> {
  waiting++
  try {
    await promise
  } catch (error) {
    report('A promise given to waitUntil was rejected', error)
  }
  if (--waiting === 0) tell(0, 'waits-done')
}

let env: Readonly<Record<string, string>> = freeze(create(null))
export function setEnv(envJson: string): void {
  const given = jsonParse(envJson) as Record<string, string>
  const copy = create(null) as Record<string, string>
  for (const name in given) copy[name] = toText(given[name])
  env = freeze(copy)
}

const keyOf = (key: unknown): string => {
  if (typeof key !== 'string' || key === '') throw new NativeTypeError('A key must be a string that is not empty')
  return key
}

/** The key-value namespace of this function. */
const kv = freeze({
  /** The value put under the key; undefined when there is none. */
  async get(key: unknown): Promise<unknown> {
    const { head, rest } = unpack<boolean>(await request('kv-get', jsonStringify([keyOf(key)])))
    return head ? jsonParse(rest) : undefined
  },
  /** Puts a JSON value. `expirationTtl`: seconds. */
  async put(key: unknown, value: unknown, options?: { expirationTtl?: unknown }): Promise<void> {
    const text = jsonStringify(value)
    if (text === undefined) throw new NativeTypeError('The value has no JSON form')
    const ttl = options?.expirationTtl
    if (ttl !== undefined && !(typeof ttl === 'number' && ttl > 0))
      throw new NativeTypeError('expirationTtl must be a number of seconds above 0')
    await request('kv-put', pack([keyOf(key), ttl === undefined ? {} : { expirationTtl: ttl }], text))
  },
  async delete(key: unknown): Promise<void> {
    await request('kv-delete', jsonStringify([keyOf(key)]))
  },
  async list(options?: { prefix?: unknown; limit?: unknown; cursor?: unknown }): Promise<unknown> {
    const asked = { prefix: options?.prefix, limit: options?.limit, cursor: options?.cursor ?? undefined }
    return unpack(await request('kv-list', jsonStringify([asked]))).head
  },
})

/** The handler's second argument. */
export interface CallContext {
  readonly headers: Readonly<Record<string, string>>
  readonly method: string
  readonly query: GuestCall['query']
  readonly functionId: string
  readonly revision: number
  readonly invocationId: string
  readonly env: Readonly<Record<string, string>>
  readonly kv: typeof kv
  /** Keeps the isolate alive after the reply until the promise has settled. */
  readonly waitUntil: (promise: unknown) => void
  /** The request body as it came. */
  readonly rawBody: () => Uint8Array
}

export function contextOf(call: GuestCall, body: CallBody): CallContext {
  const { headers, method, query, functionId, revision, invocationId } = call
  return {
    headers,
    method,
    query,
    functionId,
    revision,
    invocationId,
    env,
    kv,
    waitUntil: (promise) => void waitFor(promise),
    rawBody: () => body.bytes,
  }
}
