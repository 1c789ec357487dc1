import type { FastifyReply } from 'fastify'
import type { Bus } from '../../bus/connect.ts'
import { load } from '../../bus/load.ts'
import { Unavailable } from '../../schemas/failure.ts'
import { type ExecutionState, execution, isEnded } from '../../schemas/workflows/execution.ts'
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
        const found = seconds === 0 ? created : await endOf(bus, created, seconds, goneSignal(reply))
        await readable('EVT_EXECUTIONS', found.sequence)
        if (seconds > 0 && isEnded(found.state.stage)) return await result(bus, found.state)
        return { executionId, status: statusOf(created.state), tasksTotal }
      } finally {
        waiting--
      }
    },
  }
}

/** Also what has not ended, when the time is over. @throws {BusUnavailable} */
async function endOf(
  bus: Bus,
  created: CreatedExecution,
  seconds: number,
  gone: AbortSignal,
): Promise<CreatedExecution> {
  const { executionId } = created.state.created!
  const until = performance.now() + seconds * 1_000
  const ends = executionEnds(bus)
  let found = created
  for (let lookMs = firstLookMs; !isEnded(found.state.stage); lookMs = Math.min(lastLookMs, lookMs * 2)) {
    const leftMs = until - performance.now()
    if (leftMs <= 0 || gone.aborted) return found
    await ends.told(executionId, Math.min(lookMs, leftMs), gone)
    found = await load(bus, execution, executionPlace(executionId))
  }
  return found
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
