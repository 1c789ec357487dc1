import type { Bus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { execution } from '../../schemas/workflows/execution.ts'
import { decideCancel } from '../../schemas/workflows/execution-decide.ts'
import { isEnded } from '../../schemas/workflows/execution-state.ts'
import { executionPlace } from './executions.ts'
import { announceAbort, sendCommand } from './follow-ups.ts'

/** Cancels an execution that was started for a task which is not waited for any more, and what it has started itself. @throws {BusUnavailable} */
export async function stopChild(bus: Bus, executionId: string, now: number): Promise<void> {
  const { facts, sequence } = await decide(bus, {
    ...executionPlace(executionId),
    aggregate: execution,
    actor: 'busbar',
    decide: (state) => {
      if (state.stage === 'absent' || isEnded(state.stage)) return []
      return decideCancel(state, { by: 'busbar', now, kill: false })
    },
  })
  if (facts.length === 0) return
  announceAbort(bus, executionId)
  await sendCommand(bus, executionId, { type: 'nudge' }, `${executionId}/stopped/${sequence}`)
}
