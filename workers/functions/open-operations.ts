import type { OperationHead } from './host/call.ts'
import { toHost } from './host/frames.ts'
import type { HostProcess } from './host-process.ts'
import type { Job } from './job.ts'
import { type PerformOperation, refused } from './supervisor-operations.ts'

interface OpenOperation {
  readonly stopping: AbortController
  /** Whose journal waits for the answer, whatever becomes of the host; null when there is none. */
  readonly job: Job | null
}

interface Operation extends OperationHead {
  readonly argument: string
  /** The calls of the function that are under way in the host. */
  readonly jobs: readonly Job[]
}

/** What the code of a call that is over is told. */
const over = refused('Error', 'The call is over')

/** Operations that change nothing anywhere. */
const harmless: ReadonlySet<string> = new Set(['kv-get', 'kv-list'])

/** What functions have asked the supervisor for, host by host. */
export class OpenOperations {
  readonly #perform: PerformOperation
  readonly #lose: (job: Job) => void
  readonly #open = new Map<HostProcess, Map<number, OpenOperation>>()
  /** Calls with an isolate for themselves whose code goes on although they are over. */
  readonly #lost = new WeakMap<HostProcess, Set<number>>()

  /** `lose`: the call ran again and asked for something else than before. */
  constructor(perform: PerformOperation, lose: (job: Job) => void) {
    this.#perform = perform
    this.#lose = lose
  }

  /** Answers an operation of a host: from the journal of its call, or by doing it. */
  async run(
    host: HostProcess,
    id: number,
    { fn, apart, name, argument, invocationId, jobs }: Operation,
  ): Promise<void> {
    if (this.#lost.get(host)?.has(apart)) {
      host.send(toHost.answer, id, '', over)
      return
    }
    const stopping = new AbortController()
    const perform = () => this.#perform(fn, name, argument, stopping.signal)
    const asking = askingJob(name, invocationId, jobs)
    const job = asking === null || asking.effects ? null : asking
    const kept = job?.journal.next(name, argument, perform)
    const open = this.#of(host)
    open.set(id, { stopping, job: kept === undefined ? null : job })
    const answer = await (kept ?? this.#unkept(host, job, name, asking === null ? jobs : [asking], perform))
    open.delete(id)
    if (kept !== undefined && job?.journal.answered(answer.length).some((done) => !harmless.has(done))) {
      job.effects = true
    }
    host.send(toHost.answer, id, '', answer)
  }

  cancel(host: HostProcess, id: number): void {
    this.#open.get(host)?.get(id)?.stopping.abort()
  }

  hostEnded(host: HostProcess): void {
    for (const { stopping, job } of this.#open.get(host)?.values() ?? []) {
      if (job === null || job.effects) stopping.abort()
    }
    this.#open.delete(host)
  }

  async #unkept(
    host: HostProcess,
    job: Job | null,
    name: string,
    jobs: readonly Job[],
    perform: () => Promise<string>,
  ): Promise<string> {
    if (job !== null && !job.journal.atEnd) {
      this.#lost.set(host, (this.#lost.get(host) ?? new Set()).add(job.id))
      this.#lose(job)
      return over
    }
    if (!harmless.has(name)) for (const each of jobs) each.effects = true
    return await perform()
  }

  #of(host: HostProcess): Map<number, OpenOperation> {
    const open = this.#open.get(host) ?? new Map<number, OpenOperation>()
    this.#open.set(host, open)
    return open
  }
}

/**
 * Which of a function's calls an operation belongs to; null when nobody can tell for sure. In its own store a write may be taken for another
 * call's: done again, it leaves the same value. A request must not be.
 */
function askingJob(name: string, invocationId: string, jobs: readonly Job[]): Job | null {
  if (jobs.length === 1) return jobs[0]!
  return (name.startsWith('kv-') && jobs.find(({ call }) => call.invocationId === invocationId)) || null
}
