import type { HostExit } from './host-process.ts'
import type { Job } from './job.ts'

/** Which calls may have ended a host process. */
export interface Verdict {
  readonly suspects: readonly Job[]
  /** All suspects are calls of this one's function, and nobody else can have done it. */
  readonly guilty: Job | null
}

/** `here`: the calls that were in the process. `doomed`: it was to end anyway. */
export function verdictOf(exit: HostExit, here: readonly Job[], doomed: boolean): Verdict {
  if (doomed || byAnother(exit)) return { suspects: [], guilty: null }
  const suspects = suspectsOf(exit, here)
  const functions = new Set(suspects.map(({ call }) => call.functionId))
  // A call that was answered, at its time-out, can have a thread that went on.
  const strangers = exit.running.some((id) => !here.some((job) => job.id === id))
  return { suspects, guilty: functions.size === 1 && !strangers ? suspects[0]! : null }
}

/** Killed from outside by somebody else: no function is to blame. */
function byAnother({ killed, signal }: HostExit): boolean {
  return killed === null && (signal === 'SIGKILL' || signal === 'SIGTERM' || signal === 'SIGINT')
}

/** The calls whose code may have brought the host down. */
function suspectsOf({ killed, running, holder }: HostExit, here: readonly Job[]): Job[] {
  const ids = killed === 'unresponsive' && holder !== 0 ? [holder] : running
  return here.filter(({ id }) => ids.includes(id))
}
