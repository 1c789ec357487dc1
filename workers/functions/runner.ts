import type { CallFault, CallReply } from '../../schemas/functions/call.ts'
import type { CallTarget } from '../../schemas/functions/target.ts'
import type { CallTallies } from './counters.ts'
import type { FunctionHosts, HostCall } from './hosts.ts'
import type { programs } from './programs.ts'

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
  readonly hosts: Pick<FunctionHosts, 'run'>
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

/**
 * Counts a call and runs it in a host, then tells what it has come to; never throws. The hosts run again what may; what had effects, only
 * where the function allows it. `again`: the call was counted when it ran before.
 */
export type Runner = (call: HeldCall, tell: (result: RunResult) => void, again?: boolean) => void

const nothing = new Uint8Array()

/** How often an idempotent call whose host was lost runs. */
const maxAttempts = 3

export function runner({ hosts, programs, tallies, timeoutMs, log, onObservation }: RunnerOptions): Runner {
  const attempt = (count: number, call: HeldCall, hostCall: HostCall, tell: (result: RunResult) => void) => {
    hosts.run(hostCall, (reply) => {
      if (reply.kind === 'response')
        tell({ head: reply.head, fault: null, body: reply.body, durationMs: reply.durationMs })
      else if (reply.code === 'host-died' && call.target.idempotent === true && count < maxAttempts) {
        attempt(count + 1, call, hostCall, tell)
      } else {
        if (reply.code === 'threw') log(call, 'error', reply.stack ?? reply.message)
        tell(failed({ code: reply.code, message: reply.message }, reply.durationMs))
      }
    })
  }
  const load = async (call: HeldCall) => {
    try {
      return await programs.load(call.target)
    } catch (error) {
      onObservation({ type: 'call-fault', functionId: call.target.fn, invocationId: call.id, error })
      throw error
    }
  }
  return (call, tell, again = false) => {
    const { id: invocationId, target, start, body } = call
    const { fn: functionId, rev: revision, env: envVersion } = target
    if (!again) tallies.count(functionId, revision)
    const program = () => load(call)
    attempt(1, call, { functionId, revision, invocationId, envVersion, program, start, body, timeoutMs }, tell)
  }
}

/** A call that came to nothing. */
export function failed(fault: CallFault, durationMs: number): RunResult {
  const reply: CallReply = { status: 500, fault }
  return { head: JSON.stringify(reply), fault, body: nothing, durationMs }
}
