import { setTimeout as delay } from 'node:timers/promises'
import type { FastifyReply } from 'fastify'
import type { Bus } from '../../bus/connect.ts'
import { Unavailable } from '../../schemas/failure.ts'
import { type ExecutionState, isEnded } from '../../schemas/workflows/execution.ts'
import { loadExecution } from './execution-commands.ts'
import { outputText } from './execution-view.ts'
import { statusOf } from './executions.ts'
import { wholeNumber } from './request.ts'
import type { WorkflowService } from './service.ts'

const maxWaitSeconds = 300
const maxWaiting = 1_000
const firstPollMs = 5
const lastPollMs = 200

/** How long an answer waits, in seconds. @throws {Rejected} `http/bad-request` */
export function waitField(value: unknown): number {
  return wholeNumber('wait', value, { min: 0, max: maxWaitSeconds })
}

export interface ExecutionAnswers {
  /**
   * What is said of an execution that was just accepted: with seconds to wait its result, when it has ended before they are over.
   * @throws {Unavailable} when too many wait
   */
  answer(reply: FastifyReply, state: ExecutionState, seconds: number): Promise<object>
}

export function executionAnswers({ bus }: Pick<WorkflowService, 'bus'>): ExecutionAnswers {
  let waiting = 0
  return {
    async answer(reply, state, seconds) {
      const { executionId, tasksTotal } = state.created!
      const accepted = { executionId, status: statusOf(state), tasksTotal }
      if (seconds === 0 || isEnded(state.stage)) return seconds === 0 ? accepted : await result(bus, state)
      if (waiting >= maxWaiting) {
        throw new Unavailable('http/unavailable', 'Too many requests wait for the end of an execution', {
          details: { executionId },
        })
      }
      waiting++
      try {
        const ended = await endOf(bus, executionId, { seconds, gone: goneSignal(reply) })
        return ended === null ? accepted : await result(bus, ended)
      } finally {
        waiting--
      }
    },
  }
}

/** Null when the time is over before. @throws {BusUnavailable} */
async function endOf(
  bus: Bus,
  executionId: string,
  { seconds, gone }: { readonly seconds: number; readonly gone: AbortSignal },
): Promise<ExecutionState | null> {
  const until = performance.now() + seconds * 1_000
  for (let pollMs = firstPollMs; ; pollMs = Math.min(lastPollMs, pollMs * 1.5)) {
    const state = await loadExecution(bus, executionId)
    if (isEnded(state.stage)) return state
    const leftMs = until - performance.now()
    if (leftMs <= 0 || gone.aborted) return null
    await delay(Math.min(pollMs, leftMs), undefined, { signal: gone }).catch(() => undefined)
  }
}

/** Nobody waits for a caller who has left. */
function goneSignal({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController()
  raw.once('close', () => gone.abort())
  return gone.signal
}

async function result(bus: Bus, state: ExecutionState) {
  const { created, outputs, failure } = state
  return {
    executionId: created!.executionId,
    status: statusOf(state),
    tasksTotal: created!.tasksTotal,
    outputs: outputs === null ? null : await outputText(bus, outputs),
    error: failure === null ? null : failure.message,
  }
}
