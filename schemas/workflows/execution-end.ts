import { type Ending, type ExecutionState, isEnded } from './execution-state.ts'

/** How an execution has ended, as workers tell those who wait for it. */
export interface ExecutionEnd extends Pick<ExecutionState, 'outputs' | 'failure'> {
  readonly stage: Ending
  /** Of the message that ended it, in `EVT_EXECUTIONS`. */
  readonly sequence: number
}

/** A larger one is told without what it gave. */
const maxBytes = 16 * 1024

/** What `ended.executions.<id>` carries; empty where whoever hears it has to look for himself. */
export function endMessage(state: ExecutionState, sequence: number): string {
  const { stage, outputs, failure } = state
  const text = JSON.stringify({ stage, sequence, outputs, failure })
  return isEnded(stage) && text.length <= maxBytes ? text : ''
}

/** Null when it says only that there is an end. */
export function readEnd(message: string): ExecutionEnd | null {
  return message === '' ? null : (JSON.parse(message) as ExecutionEnd)
}
