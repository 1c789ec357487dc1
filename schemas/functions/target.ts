import type { Call } from './call.ts'
import { activeRevision, type DeployedState } from './function.ts'

/** What a call takes from the function it is for. */
export type CallTarget = Pick<Call, 'fn' | 'rev' | 'seq' | 'env' | 'envSeq' | 'idempotent'>

/** Of a state whose sequences are known (`placed`). */
export function callTarget(id: string, state: DeployedState): CallTarget {
  const { revision, sequence, idempotent } = activeRevision(state)
  const { envSequence } = state
  const env = envSequence === null ? 0 : state.envVersion
  return { fn: id, rev: revision, seq: sequence, env, envSeq: envSequence, ...(idempotent && { idempotent }) }
}
