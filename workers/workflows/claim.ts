import { AppendConflict, append } from '../../bus/append.ts'
import { type Bus, BusUnavailable } from '../../bus/connect.ts'
import { carrying } from '../../bus/decide.ts'
import { newId } from '../../bus/message.ts'
import { pause } from '../../bus/pause.ts'
import { evolveAll, execution } from '../../schemas/workflows/execution.ts'
import { decideClaim } from '../../schemas/workflows/execution-decide.ts'
import type { TaskResult } from '../../schemas/workflows/task-result.ts'
import { awaits, type Turn } from '../../schemas/workflows/turn.ts'
import { type Executions, executionPlace } from './executions.ts'

const retryMs = 250
/** At most, before a claim that came in between others is tried again. */
const conflictMs = 50

interface Claimant {
  readonly bus: Bus
  readonly executions: Executions
  /** Its name. */
  readonly worker: string
  readonly now: () => number
}

interface Claiming {
  readonly executionId: string
  readonly run: string
  readonly turn: Turn
  /** Nobody waits for it any more. */
  readonly signal: AbortSignal
}

/** Of a task that must not run twice and is claimed: it has run, in part or to its end. */
export const claimedByAnother: TaskResult = {
  kind: 'failure',
  failure: { message: 'A worker died while it ran, and it must not run twice', kind: 'lost' },
}

/**
 * Claims a task that must not run twice; false when somebody else has. A bus that is away is waited for.
 * @throws {BusUnavailable} when the signal is aborted
 */
export async function claim(
  { bus, executions, worker, now }: Claimant,
  { executionId, run, turn, signal }: Claiming,
): Promise<boolean> {
  const { events } = execution
  for (let unanswered = false; ; ) {
    try {
      const { state, sequence, trail } = await executions.load(executionId)
      const facts = decideClaim(state, { run, turn, worker, now: now() })
      // By ourselves, when that was stored and not answered.
      if (facts.length === 0) return unanswered && awaits(state.runs[run], turn) && state.runs[run].claimedBy === worker
      const carried = carrying(execution, evolveAll(state, facts), { trail, facts })
      const message = { id: newId(), facts, actor: worker, causation: worker, ...carried }
      await append(bus, { ...executionPlace(executionId), expectedSequence: sequence, events, message })
      return true
    } catch (error) {
      const passes = error instanceof BusUnavailable || error instanceof AppendConflict
      if (!passes || signal.aborted) throw error
      unanswered ||= error instanceof BusUnavailable
      await pause(error instanceof BusUnavailable ? retryMs : Math.random() * conflictMs, signal)
    }
  }
}
