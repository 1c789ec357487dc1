import { programKey } from './host/call.ts'
import type { HostCall, HostFault, HostReply } from './host-call.ts'
import type { HostProcess } from './host-process.ts'
import { Journal } from './journal.ts'
import type { Standing } from './standings.ts'

/** A call that is not answered yet. */
export interface Job {
  /** In frames; not 0. */
  readonly id: number
  readonly call: HostCall
  readonly standing: Standing
  /** Of the isolate it runs in. */
  key: string
  /** It has an isolate for itself. */
  apart: boolean
  /** Of performance.now(). */
  readonly at: number
  readonly deadline: number
  /** Where it is; null while it waits for a place. */
  host: HostProcess | null
  /** Host processes that ended with it in them. */
  deaths: number
  /** Something of it may have left the host that its journal does not have: it may not run again. */
  effects: boolean
  readonly journal: Journal
  readonly answer: (reply: HostReply) => void
}

export function newJob(id: number, call: HostCall, standing: Standing, answer: (reply: HostReply) => void): Job {
  const { functionId, revision, envVersion } = call
  const at = performance.now()
  return {
    id,
    call,
    standing,
    key: programKey(functionId, revision, envVersion),
    apart: false,
    at,
    deadline: at + call.timeoutMs,
    host: null,
    deaths: 0,
    effects: false,
    journal: new Journal(),
    answer,
  }
}

/**
 * It runs again: from here on what it asks for is looked up in its journal. Where something is in there, it gets an isolate for itself, for
 * among several calls nobody could tell which of them asks.
 */
export function beginAgain(job: Job): void {
  const { functionId, revision, envVersion } = job.call
  job.host = null
  job.deaths += 1
  job.journal.rewind()
  if (job.journal.atEnd) return
  job.apart = true
  job.key = programKey(functionId, revision, envVersion, job.id)
}

export function faultOf(at: number, code: HostFault['code'], started: boolean, message: string): HostFault {
  return { kind: 'fault', code, started, message, stack: null, durationMs: performance.now() - at }
}
