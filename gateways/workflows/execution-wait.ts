import type { FastifyReply } from 'fastify'
import type { Bus } from '../../bus/connect.ts'
import { load } from '../../bus/load.ts'
import { Unavailable } from '../../schemas/failure.ts'
import { execution } from '../../schemas/workflows/execution.ts'
import type { ExecutionEnd } from '../../schemas/workflows/execution-end.ts'
import { isEnded } from '../../schemas/workflows/execution-state.ts'
import { executionPlace } from './execution-commands.ts'
import { executionEnds } from './execution-ends.ts'
import type { CreatedExecution } from './execution-start.ts'
import { outputText } from './execution-view.ts'
import { statusOf } from './executions.ts'
import { wholeNumber } from './request.ts'
import type { WorkflowService } from './service.ts'

const maxWaitSeconds = 300
const maxWaiting = 1_000
/** What is told of ends can get lost: how long until it is looked, and the longest time between looks. */
const firstLookMs = 200
const lastLookMs = 2_000

/** How long an answer waits, in seconds. @throws {Rejected} `http/bad-request` */
export function waitField(value: unknown): number {
  return wholeNumber('wait', value, { min: 0, max: maxWaitSeconds })
}

export interface ExecutionAnswers {
  /**
   * What is said of an execution that was just accepted: with seconds to wait its result, when it has ended before they are over. The read
   * models hold what is told.
   * @throws {Unavailable} when too many wait
   */
  answer(reply: FastifyReply, accepted: CreatedExecution, seconds: number): Promise<object>
}

export function executionAnswers({ bus, readable }: Pick<WorkflowService, 'bus' | 'readable'>): ExecutionAnswers {
  let waiting = 0
  return {
    async answer(reply, created, seconds) {
      const { executionId, tasksTotal } = created.state.created!
      if (seconds > 0 && waiting >= maxWaiting) {
        throw new Unavailable('http/unavailable', 'Too many requests wait for the end of an execution', {
          details: { executionId },
        })
      }
      waiting++
      try {
        const end = seconds === 0 ? null : await endOf(bus, created, seconds, goneSignal(reply))
        await readable('EVT_EXECUTIONS', end?.sequence ?? created.sequence)
        if (end === null) return { executionId, status: statusOf(created.state), tasksTotal }
        const outputs = end.outputs === null ? null : await outputText(bus, end.outputs)
        return { executionId, status: statusOf(end), tasksTotal, outputs, error: end.failure?.message ?? null }
      } finally {
        waiting--
      }
    },
  }
}

/** Null when it has not ended and the time is over. @throws {BusUnavailable} */
async function endOf(
  bus: Bus,
  created: CreatedExecution,
  seconds: number,
  gone: AbortSignal,
): Promise<ExecutionEnd | null> {
  const { executionId } = created.state.created!
  const until = performance.now() + seconds * 1_000
  const ends = executionEnds(bus)
  let found = ended(created)
  for (let lookMs = firstLookMs; found === null; lookMs = Math.min(lastLookMs, lookMs * 2)) {
    const leftMs = until - performance.now()
    if (leftMs <= 0 || gone.aborted) return null
    found = await ends.told(executionId, Math.min(lookMs, leftMs), gone)
    found ??= ended(await load(bus, execution, executionPlace(executionId)))
  }
  return found
}

function ended({ state: { stage, outputs, failure }, sequence }: CreatedExecution): ExecutionEnd | null {
  return isEnded(stage) ? { stage, outputs, failure, sequence } : null
}

const left = new Error('The caller has left')

/** Nobody waits for a caller who has left. */
function goneSignal({ raw }: FastifyReply): AbortSignal {
  const gone = new AbortController()
  raw.once('close', () => gone.abort(left))
  return gone.signal
}
