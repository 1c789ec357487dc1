import { mkdtemp, rm } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Compile } from 'typebox/compile'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { checkedInput } from '../../workers/workflows/checked-input.ts'
import type { TaskFailure, TaskRun, TaskServices } from '../../workers/workflows/plugin.ts'
import { taskFetch } from '../../workers/workflows/task-fetch.ts'
import { taskNet } from '../../workers/workflows/task-net.ts'

interface CallOptions {
  readonly signal?: AbortSignal
  /** As in the configuration; default: loopback, as in the one-machine start. */
  readonly allow?: readonly string[]
  readonly key?: string
}

/** What tasks of this test have stored. */
export const files = new Map<string, Uint8Array>()

/** Runs a plugin of the catalogue with everything of the platform that needs no bus. */
export async function callPlugin(
  id: string,
  properties: Record<string, unknown>,
  { signal = new AbortController().signal, allow = ['loopback'], key = 'e1/call' }: CallOptions = {},
): Promise<Record<string, unknown>> {
  const plugin = catalogue.find(({ manifest }) => manifest.id === id)!
  const input = checkedInput(plugin, properties)
  const folder = await mkdtemp(join(tmpdir(), 'busbar-test-'))
  const egress = { allow, deny: [] }
  const silent = () => undefined
  const given: TaskRun<unknown> = {
    input,
    signal,
    log: { debug: silent, info: silent, warn: silent, error: silent },
    idempotencyKey: key,
    scratch: async () => folder,
    services: {
      fetch: taskFetch(egress),
      net: taskNet(egress),
      files: storedFiles,
      containers: null,
    } as unknown as TaskServices,
    task: { executionId: 'e1', flowId: 'f', namespace: 'n', run: 'call', attempt: 1 },
  }
  try {
    const output = (await plugin.run(given)) as Record<string, unknown>
    const [wrong] = Compile(plugin.output).Errors(output)
    if (wrong !== undefined) throw new Error(`outputs${wrong.instancePath} ${wrong.message}`)
    return JSON.parse(JSON.stringify(output))
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

const storedFiles: TaskServices['files'] = {
  async put(given) {
    const parts: Uint8Array[] = []
    if (given instanceof Uint8Array) parts.push(given)
    else for await (const part of given) parts.push(part)
    const bytes = Buffer.concat(parts)
    const uri = `busbar:///files/${files.size}`
    files.set(uri, bytes)
    return { uri, sizeBytes: bytes.length }
  },
  async get(uri) {
    const bytes = files.get(uri)
    if (bytes === undefined) throw new Error(`there is no ${uri}`)
    return bytes
  },
}

/** What `t.rejects` compares a task's failure with. */
export function failure(kind: TaskFailure['kind'], message: string | RegExp = /./): Error {
  return { kind, message } as unknown as Error
}

/** How many TCP connections this process has. */
export function openSockets(): number {
  return process.getActiveResourcesInfo().filter((each) => each === 'TCPSocketWrap').length
}
