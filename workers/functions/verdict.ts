import type { HostExit } from './host-process.ts'
import type { Job } from './job.ts'

/** Which calls may have ended a host process. */
export interface Verdict {
  readonly suspects: readonly Job[]
  /** Whose doing it was; null when nobody can tell. */
  readonly guilty: Guilty | null
}

interface Guilty {
  readonly functionId: string
  readonly revision: number
  /** All suspects are its calls. Else none of its code ran: the process's own thread was doing what the function had asked for. */
  readonly ran: boolean
}

const nobody: Verdict = { suspects: [], guilty: null }

/** `here`: the calls that were in the process. `doomed`: it was to end anyway. */
export function verdictOf(exit: HostExit, here: readonly Job[], doomed: boolean): Verdict {
  if (doomed || byAnother(exit)) return nobody
  if (exit.killed === 'unresponsive') return hungVerdict(exit, here)
  const suspects = here.filter(({ id }) => exit.running.includes(id))
  const functions = new Set(suspects.map(({ call }) => call.functionId))
  // A call that was answered, at its time-out, can have a thread that went on.
  const strangers = exit.running.some((id) => !here.some((job) => job.id === id))
  return { suspects, guilty: functions.size === 1 && !strangers ? guiltyOf(suspects[0]!) : null }
}

/** Killed from outside by somebody else: no function is to blame. */
function byAnother({ killed, signal }: HostExit): boolean {
  return killed === null && (signal === 'SIGKILL' || signal === 'SIGTERM' || signal === 'SIGINT')
}

/** The process's own thread did not come back: that for which it worked last kept it, whoever ran in other threads meanwhile. */
function hungVerdict({ running, holder, lastKey }: HostExit, here: readonly Job[]): Verdict {
  const holds = here.find(({ id }) => id === holder)
  if (holds !== undefined) return { suspects: [holds], guilty: guiltyOf(holds) }
  if (lastKey === null) return nobody
  const suspects = here.filter(({ id, key }) => key === lastKey && running.includes(id))
  if (suspects.length > 0) return { suspects, guilty: guiltyOf(suspects[0]!) }
  const [functionId = '', revision = ''] = lastKey.split('\n')
  return { suspects: [], guilty: { functionId, revision: Number(revision), ran: false } }
}

function guiltyOf({ call: { functionId, revision } }: Job): Guilty {
  return { functionId, revision, ran: true }
}
