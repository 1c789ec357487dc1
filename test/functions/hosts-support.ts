import type { Test } from 'tap'
import { compile } from '../../gateways/functions/compile.ts'
import { callStart, readReplyHead } from '../../schemas/functions/call.ts'
import {
  type FunctionHosts,
  type FunctionHostsOptions,
  type FunctionLogLine,
  type HostObservation,
  type HostReply,
  startFunctionHosts,
} from '../../workers/functions/hosts.ts'

/** Hosts with functions in them, a store in memory, and what they said. */
export interface Stage {
  readonly hosts: FunctionHosts
  readonly logs: FunctionLogLine[]
  readonly observations: HostObservation[]
  /** Keys put, in order. */
  readonly puts: string[]
  /** Makes the source a function's next revision. */
  deploy(functionId: string, source: string): Promise<number>
  call(functionId: string, body?: unknown, options?: CallOptions): Promise<Told>
}

export interface CallOptions {
  readonly timeoutMs?: number
  readonly revision?: number
}

/** A reply in short: `[status, JSON]` or the fault. */
export interface Told {
  readonly status?: number
  readonly value?: unknown
  readonly code?: string
  readonly started?: boolean
  readonly message?: string
  readonly stack?: string | null
  readonly durationMs: number
}

export async function stage(t: Test, options: Partial<FunctionHostsOptions> = {}): Promise<Stage> {
  const logs: FunctionLogLine[] = []
  const observations: HostObservation[] = []
  const puts: string[] = []
  const values = new Map<string, string>()
  const programs = new Map<string, { code: string; sourceMap: string; env: Record<string, string> }>()
  const revisions = new Map<string, number>()
  const hosts = await startFunctionHosts({
    hosts: 2,
    kv: {
      get: async (fn, key) => values.get(`${fn}/${key}`) ?? null,
      put: async (fn, key, json) => {
        puts.push(key)
        values.set(`${fn}/${key}`, json)
      },
      delete: async (fn, key) => void values.delete(`${fn}/${key}`),
      list: async () => ({ keys: [], cursor: null }),
    },
    ...quiet,
    onLog: (line) => logs.push(line),
    onObservation: (observation) => observations.push(observation),
    ...options,
  })
  t.teardown(() => hosts.stop())
  let calls = 0
  return {
    hosts,
    logs,
    observations,
    puts,
    async deploy(functionId, source) {
      const revision = (revisions.get(functionId) ?? 0) + 1
      programs.set(`${functionId}/${revision}`, { ...(await compile(source)), env: {} })
      revisions.set(functionId, revision)
      return revision
    },
    async call(functionId, body = null, { timeoutMs = 10_000, revision = revisions.get(functionId) ?? 0 } = {}) {
      const reply = await hosts.invoke({
        functionId,
        revision,
        invocationId: `call-${++calls}`,
        envVersion: 0,
        program: async () => programs.get(`${functionId}/${revision}`)!,
        timeoutMs,
        start: callStart({ fn: functionId, rev: revision }, `call-${calls}`, {
          method: 'POST',
          path: `/invoke/${functionId}`,
          query: {},
          headers: { 'content-type': 'application/json' },
        }),
        body: Buffer.from(JSON.stringify(body)),
      })
      return told(reply)
    },
  }
}

const quiet = { fetch: async () => '!{"name":"TypeError","message":"There is no network here"}' }

function told(reply: HostReply): Told {
  if (reply.kind === 'fault') {
    const { code, started, message, stack, durationMs } = reply
    return { code, started, message, stack, durationMs }
  }
  const text = Buffer.from(reply.body).toString('utf8')
  return {
    status: readReplyHead(reply.head).status,
    value: text === '' ? undefined : parsed(text),
    durationMs: reply.durationMs,
  }
}

function parsed(text: string): unknown {
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}

export async function until(what: string, holds: () => boolean): Promise<void> {
  for (let waited = 0; !holds(); waited += 20) {
    if (waited > 20_000) throw new Error(`It never came: ${what}`)
    await pause(20)
  }
}

export const pause = (ms: number) => new Promise((resolve) => setTimeout(resolve, ms))

/** Runs attacks in the one host process of functions that are called all the while, and must not lose a call. */
export async function withNeighbours(
  t: Test,
  run: (stage: Stage) => Promise<void>,
  options: Partial<FunctionHostsOptions> = {},
): Promise<void> {
  const here = await stage(t, { hosts: 1, ...options })
  await here.deploy('quick', 'export const handler = (n) => n')
  await here.deploy(
    'waits',
    'export const handler = async (n) => { await new Promise((r) => setTimeout(r, 5)); return n }',
  )
  const wrong: Told[] = []
  let stop = false
  let slowest = 0
  const loops = ['quick', 'waits', 'quick'].map(async (name) => {
    for (let n = 0; !stop; n++) {
      const reply = await here.call(name, n)
      slowest = Math.max(slowest, reply.durationMs)
      if (reply.value !== n) wrong.push(reply)
      await pause(3)
    }
  })
  await run(here)
  stop = true
  await Promise.all(loops)
  t.same(wrong.slice(0, 3), [], 'no neighbour lost a call')
  t.comment(`the slowest call of a neighbour took ${Math.round(slowest)} ms; hosts ended: ${here.hosts.stats().deaths}`)
}
