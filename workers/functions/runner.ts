import type { Call, CallFault, CallReply } from '../../schemas/functions/call.ts'
import type { CallTallies } from './counters.ts'
import type { FunctionHosts, HostReply } from './hosts.ts'
import { ProgramMissing, type programs } from './programs.ts'

export interface RunnerOptions {
  /** Name of this worker. */
  readonly worker: string
  readonly hosts: Pick<FunctionHosts, 'invoke'>
  readonly programs: ReturnType<typeof programs>
  readonly tallies: CallTallies
  /** Longest run of a handler. */
  readonly timeoutMs: number
  /** Into the log of the function. */
  readonly log: (call: Call, level: string, text: string) => void
  readonly onObservation: (observation: RunObservation) => void
}

/** A call that failed through no fault of the function's. */
export type RunObservation = {
  readonly type: 'call-fault'
  readonly functionId: string
  readonly invocationId: string
  readonly error: unknown
}

export interface RunResult {
  readonly reply: CallReply
  readonly body: Uint8Array
  /** Whether the user's code had begun. */
  readonly started: boolean
}

/** `again`: the call was counted when it ran before. */
export type Runner = (call: Call, body: Uint8Array, again?: boolean) => Promise<RunResult>

const nothing = new Uint8Array()

/** How often an idempotent call whose host was lost runs. */
const maxAttempts = 3

/** Counts a call and runs it in a host. The hosts run again what may; what had effects, only where the function allows it. Never throws. */
export function runner(options: RunnerOptions): Runner {
  const { worker, tallies, log, onObservation } = options
  return async (call, body, again = false) => {
    const startedAt = performance.now()
    if (!again) tallies.count(call.fn, call.rev)
    const { fn: functionId, id: invocationId } = call
    try {
      const reply = await invoke(options, call, body)
      if (reply.kind === 'fault' && reply.code === 'threw') log(call, 'error', reply.stack ?? reply.message)
      return resultOf(reply, worker)
    } catch (error) {
      onObservation({ type: 'call-fault', functionId, invocationId, error })
      const code = error instanceof ProgramMissing ? 'not-found' : 'internal'
      return failed(worker, { code, message: '' }, performance.now() - startedAt, false)
    }
  }
}

async function invoke({ hosts, programs, timeoutMs }: RunnerOptions, call: Call, body: Uint8Array): Promise<HostReply> {
  const { method, path, query, headers } = call
  for (let attempt = 1; ; attempt++) {
    const reply = await hosts.invoke({
      functionId: call.fn,
      revision: call.rev,
      invocationId: call.id,
      envVersion: call.env,
      program: () => programs.load(call),
      request: { method, path, query, headers, body },
      timeoutMs,
    })
    const lost = reply.kind === 'fault' && reply.code === 'host-died'
    if (!lost || attempt === maxAttempts || call.idempotent !== true) return reply
  }
}

function resultOf(reply: HostReply, worker: string): RunResult {
  if (reply.kind === 'fault') {
    const { code, message, durationMs, started } = reply
    return failed(worker, { code, message }, durationMs, started)
  }
  const { status, headers, body, durationMs } = reply
  return { reply: { status, headers, durationMs, worker }, body, started: true }
}

function failed(worker: string, fault: CallFault, durationMs: number, started: boolean): RunResult {
  return { reply: { status: 500, fault, durationMs, worker }, body: nothing, started }
}
