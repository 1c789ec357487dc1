import { derivedId } from './derived-id.ts'
import type { Run } from './execution-state.ts'

/** One time that a run is run: what is found out in another one is not its result. */
export interface Turn {
  readonly attempt: number
  readonly round: number
  readonly generation: number
}

export function turnOf({ attempt, round, generation = 0 }: Pick<Run, 'attempt' | 'round' | 'generation'>): Turn {
  return { attempt, round, generation }
}

/** Whether a run is in the hands of a worker, or on its way there, for this turn. */
export function awaits(run: Run | undefined, turn: Turn): run is Run {
  return run?.status === 'scheduled' && isTurn(run, turn)
}

export function isTurn(run: Run, { attempt, round, generation }: Turn): boolean {
  return run.attempt === attempt && run.round === round && (run.generation ?? 0) === generation
}

/** A longer key is told by its digest, for headers have little room. */
const maxKeyLength = 200

/** Of messages about a turn. */
export function turnId(executionId: string, key: string, { attempt, round, generation }: Turn): string {
  const run = key.length > maxKeyLength ? derivedId(key) : key
  return `${executionId}/${run}/${attempt}/${round}${generation === 0 ? '' : `/${generation}`}`
}
