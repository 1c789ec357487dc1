import type { CallFault, CallReply } from '../../schemas/functions/call.ts'
import type { CallTarget } from '../../schemas/functions/target.ts'
import type { CallTallies } from './counters.ts'
import type { FunctionHosts, HostReply } from './hosts.ts'
import { ProgramMissing, type programs } from './programs.ts'

/** A call as a worker has it. */
export interface HeldCall {
  /** Invocation id. */
  readonly id: string
  readonly target: CallTarget
  /** What the handler is told of the request, JSON. */
  readonly start: string | Uint8Array
  readonly body: Uint8Array
}

export interface RunnerOptions {
  readonly hosts: Pick<FunctionHosts, 'invoke'>
  readonly programs: ReturnType<typeof programs>
  readonly tallies: CallTallies
  /** Longest run of a handler. */
  readonly timeoutMs: number
  /** Into the log of the function. */
  readonly log: (call: HeldCall, level: string, text: string) => void
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
  /** A `CallReply` as JSON; empty for status 200 and JSON. */
  readonly head: string
  readonly fault: CallFault | null
  readonly body: Uint8Array
  readonly durationMs: number
}

/** `again`: the call was counted when it ran before. */
export type Runner = (call: HeldCall, again?: boolean) => Promise<RunResult>

const nothing = new Uint8Array()

/** How often an idempotent call whose host was lost runs. */
const maxAttempts = 3

/** Counts a call and runs it in a host. The hosts run again what may; what had effects, only where the function allows it. Never throws. */
export function runner(options: RunnerOptions): Runner {
  const { tallies, log, onObservation } = options
  return async (call, again = false) => {
    const startedAt = performance.now()
    const { fn: functionId, rev } = call.target
    if (!again) tallies.count(functionId, rev)
    try {
      const reply = await invoke(options, call)
      if (reply.kind === 'response')
        return { head: reply.head, fault: null, body: reply.body, durationMs: reply.durationMs }
      if (reply.code === 'threw') log(call, 'error', reply.stack ?? reply.message)
      return failed({ code: reply.code, message: reply.message }, reply.durationMs)
    } catch (error) {
      onObservation({ type: 'call-fault', functionId, invocationId: call.id, error })
      const code = error instanceof ProgramMissing ? 'not-found' : 'internal'
      return failed({ code, message: '' }, performance.now() - startedAt)
    }
  }
}

async function invoke({ hosts, programs, timeoutMs }: RunnerOptions, call: HeldCall): Promise<HostReply> {
  const { id, target, start, body } = call
  const hostCall = {
    functionId: target.fn,
    revision: target.rev,
    invocationId: id,
    envVersion: target.env,
    program: () => programs.load(target),
    start,
    body,
    timeoutMs,
  }
  for (let attempt = 1; ; attempt++) {
    const reply = await hosts.invoke(hostCall)
    const lost = reply.kind === 'fault' && reply.code === 'host-died'
    if (!lost || attempt === maxAttempts || target.idempotent !== true) return reply
  }
}

/** A call that came to nothing. */
export function failed(fault: CallFault, durationMs: number): RunResult {
  const reply: CallReply = { status: 500, fault }
  return { head: JSON.stringify(reply), fault, body: nothing, durationMs }
}
