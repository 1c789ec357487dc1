import type { Bus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import type { Rejected } from '../../schemas/failure.ts'
import { decideRefused, type SavedTrigger, trigger } from '../../schemas/workflows/trigger.ts'
import { type Firing, firedExecution, firedExecutionId } from '../../schemas/workflows/trigger-fire.ts'
import { startExecution } from '../workflows/start-execution.ts'
import { triggerPlace } from './trigger-view.ts'

/** A trigger wanted to start an execution, and its flow is gone or disabled, or refuses the inputs. */
export interface RefusedObservation {
  readonly type: 'trigger-refused'
  readonly triggerId: string
  readonly flowId: string
  readonly error: unknown
}

/** Starts the execution that belongs to a cause, once; that it was refused is kept with the trigger. @returns its id; null when it was refused @throws {BusUnavailable} */
export async function fireTrigger(
  bus: Bus,
  { saved }: SavedTrigger,
  firing: Firing,
  onObservation: (observation: RefusedObservation) => void,
): Promise<string | null> {
  const { triggerId, flowId } = saved
  try {
    await startExecution(bus, flowId, ({ latest }) => firedExecution(saved, latest.plan, firing))
    return firedExecutionId(triggerId, firing.cause)
  } catch (error) {
    if ((error as Error).name !== 'Rejected') throw error
    await tellRefused(bus, { triggerId, flowId }, error as Rejected, onObservation)
    return null
  }
}

/** @throws {BusUnavailable} */
export async function tellRefused(
  bus: Bus,
  { triggerId, flowId }: { readonly triggerId: string; readonly flowId: string },
  error: Rejected,
  onObservation: (observation: RefusedObservation) => void,
): Promise<void> {
  onObservation({ type: 'trigger-refused', triggerId, flowId, error })
  const refusal = { code: error.code, message: error.message, at: Date.now() }
  await decide(bus, {
    ...triggerPlace(triggerId),
    aggregate: trigger,
    actor: 'busbar',
    decide: (state) => decideRefused(state, refusal),
  })
}

/** JSON, or else the text. */
export function bodyOf(data: Uint8Array): unknown {
  const text = Buffer.from(data).toString('utf8')
  try {
    return JSON.parse(text)
  } catch {
    return text
  }
}
