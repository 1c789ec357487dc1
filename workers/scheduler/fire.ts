import type { Bus } from '../../bus/connect.ts'
import type { SavedTrigger } from '../../schemas/workflows/trigger.ts'
import { type Firing, firedExecution, firedExecutionId } from '../../schemas/workflows/trigger-fire.ts'
import { startExecution } from '../workflows/start-execution.ts'

/** A trigger wanted to start an execution, and its flow is gone or disabled, or refuses the inputs. */
export interface RefusedObservation {
  readonly type: 'trigger-refused'
  readonly triggerId: string
  readonly flowId: string
  readonly error: unknown
}

/** Starts the execution that belongs to a cause, once. @returns its id; null when it was refused @throws {BusUnavailable} */
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
    onObservation({ type: 'trigger-refused', triggerId, flowId, error })
    return null
  }
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
