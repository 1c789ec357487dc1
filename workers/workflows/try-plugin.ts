import { createHash } from 'node:crypto'
import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { checkedInput } from './checked-input.ts'
import {
  type ControlRun,
  type Plugin,
  TaskFailure,
  type TaskFiles,
  type TaskKv,
  type TaskLog,
  type TaskServices,
} from './plugin.ts'
import { taskFetch } from './task-fetch.ts'
import { taskNet } from './task-net.ts'

interface TryOptions {
  readonly signal?: AbortSignal
  /** In place of those that are made for the trial. */
  readonly services?: Partial<TaskServices>
  /** Default: `trial/task`. */
  readonly idempotencyKey?: string
}

interface Tried {
  readonly outputs: unknown
  readonly log: readonly { readonly level: keyof TaskLog; readonly message: string }[]
}

/**
 * Runs a plugin once outside of the engine, for its tests: the properties are checked as the engine does, the key-value store and the
 * files are in memory, and requests may go to this machine too.
 *
 * @throws {TaskFailure} what the plugin throws, and `refused` for a wrong property
 */
export async function tryPlugin(plugin: Plugin, properties: unknown, options: TryOptions = {}): Promise<Tried> {
  const { signal = new AbortController().signal, services = {}, idempotencyKey = 'trial/task' } = options
  const log: { level: keyof TaskLog; message: string }[] = []
  const line = (level: keyof TaskLog) => (message: string) => {
    log.push({ level, message })
  }
  let folder: string | null = null
  try {
    const given: ControlRun<unknown> = {
      input: checkedInput(plugin, properties),
      signal,
      log: { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') },
      idempotencyKey,
      scratch: async () => {
        folder ??= await mkdtemp(join(tmpdir(), 'busbar-trial-'))
        return folder
      },
      services: { ...trialServices(), ...services },
      task: { executionId: 'trial', flowId: 'trial', namespace: 'default', run: 'task', attempt: 1 },
      round: 0,
      blocks: [],
      childId: 'trial-child',
    }
    return { outputs: await plugin.run(given), log }
  } finally {
    if (folder !== null) await rm(folder, { recursive: true, force: true })
  }
}

/** A new set has an empty store; give one to several trials and they share it. */
export function trialServices(): TaskServices {
  const egress = { allow: ['loopback'], deny: [] }
  return {
    fetch: taskFetch(egress),
    net: taskNet(egress),
    kv: trialKv(),
    files: trialFiles(),
    scripts: true,
    containers: null,
    value: async (json) => ({ json }),
  }
}

function trialFiles(): TaskFiles {
  const stored = new Map<string, Uint8Array>()
  return {
    async put(given) {
      const bytes = given instanceof Uint8Array ? given : await collected(given)
      const uri = `busbar:///files/${createHash('sha256').update(bytes).digest('hex')}`
      stored.set(uri, bytes)
      return { uri, sizeBytes: bytes.length }
    },
    async get(uri) {
      const bytes = stored.get(uri)
      if (bytes === undefined) throw new TaskFailure('refused', `There is no file ${uri}`)
      return bytes
    },
  }
}

async function collected(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const parts: Uint8Array[] = []
  for await (const chunk of chunks) parts.push(chunk)
  return Buffer.concat(parts)
}

function trialKv(): TaskKv {
  const stored = new Map<string, { readonly value: unknown; readonly version: number }>()
  const place = (namespace: string, key: string) => JSON.stringify([namespace, key])
  let versions = 0
  return {
    get: async (namespace, key) => stored.get(place(namespace, key)) ?? null,
    async put(namespace, key, value, { version } = {}) {
      const before = stored.get(place(namespace, key))?.version ?? 0
      if (version !== undefined && version !== before) {
        throw new TaskFailure('refused', `The key ${key} is at version ${before}`)
      }
      versions++
      stored.set(place(namespace, key), { value, version: versions })
      return versions
    },
    delete: async (namespace, key) => stored.delete(place(namespace, key)),
    async keys(namespace, prefix) {
      const all = [...stored.keys()].map((each) => JSON.parse(each) as [string, string])
      return all.flatMap(([space, key]) => (space === namespace && key.startsWith(prefix) ? [key] : [])).sort()
    },
  }
}
