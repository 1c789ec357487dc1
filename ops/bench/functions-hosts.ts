import { callStart, readReplyHead } from '../../schemas/functions/call.ts'
import { type FunctionHosts, type HostReply, startFunctionHosts } from '../../workers/functions/hosts.ts'
import { rssMb } from './processes.ts'

/** The isolate hosts without a gateway and a bus. */
export interface BareHosts {
  readonly hosts: FunctionHosts
  call(functionId: string, body: string): Promise<HostReply>
  /** Resident memory of the host processes. */
  memoryMb(): number
}

/** Every function is `export const handler = <source>`; `sourceOf` knows it by its id. */
export async function bareHosts(sourceOf: (functionId: string) => string): Promise<BareHosts> {
  const absent = async () => '!{"name":"TypeError","message":"There is no network here"}'
  const kv = {
    get: async () => null,
    put: async () => {},
    delete: async () => {},
    list: async () => ({ keys: [], cursor: null }),
  }
  const quiet = { onLog: () => {}, onObservation: () => {} }
  const hosts = await startFunctionHosts({
    hosts: 2,
    maxIsolates: 1_200,
    hostMemoryMb: 4_096,
    fetch: absent,
    kv,
    ...quiet,
  })
  let calls = 0
  return {
    hosts,
    call(functionId, body) {
      return hosts.invoke({
        functionId,
        revision: 1,
        invocationId: `call-${++calls}`,
        envVersion: 0,
        program: async () => ({ code: `exports.handler = ${sourceOf(functionId)}`, sourceMap: null, env: {} }),
        timeoutMs: 30_000,
        start: callStart({ fn: functionId, rev: 1 }, `call-${calls}`, {
          method: 'POST',
          path: `/invoke/${functionId}`,
          query: {},
          headers: { 'content-type': 'application/json' },
        }),
        body: Buffer.from(body),
      })
    },
    memoryMb: () => hosts.stats().pids.reduce((sum, pid) => sum + (rssMb(pid) ?? 0), 0),
  }
}

export function requireResponse(reply: HostReply): void {
  if (reply.kind !== 'response' || readReplyHead(reply.head).status !== 200)
    throw new Error(`A call failed: ${JSON.stringify(reply)}`)
}
