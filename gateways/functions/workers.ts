import type { Bus } from '../../bus/connect.ts'
import { functionWorkersSubject } from '../../bus/subject.ts'
import { type Presence, presenceMs } from '../../schemas/functions/call.ts'

/** The function workers that are there. */
export interface FunctionWorkers {
  readonly some: boolean
  /** Resolves when one is there, or the time is over. */
  someWithin(timeoutMs: number): Promise<boolean>
  /** Resolves when every worker has flushed what it counted until now, or `flushWaitMs` are over. */
  flushed(): Promise<void>
  close(): void
}

const goneMs = 3.5 * presenceMs
const flushWaitMs = 1_000

export function watchWorkers({ connection }: Bus): FunctionWorkers {
  const seen = new Map<string, number>()
  const waiting = new Set<() => void>()
  const presence = connection.subscribe(functionWorkersSubject('presence'), {
    callback: (error, message) => {
      if (error !== null) return
      const { worker, leaving } = message.json<Presence>()
      if (leaving === true) seen.delete(worker)
      else seen.set(worker, performance.now())
      for (const arrive of waiting) arrive()
    },
  })
  connection.publish(functionWorkersSubject('ask'))
  const sweep = setInterval(() => {
    const since = performance.now() - goneMs
    for (const [worker, at] of seen) if (at < since) seen.delete(worker)
  }, presenceMs)
  const flush = async () => {
    if (seen.size === 0) return
    const inbox = `${functionWorkersSubject('flush')}`
    const options = { strategy: 'count', maxMessages: seen.size, maxWait: flushWaitMs } as const
    for await (const _answer of await connection.requestMany(inbox, '', options)) void _answer
  }
  let running: Promise<void> | null = null
  let next: Promise<void> | null = null
  return {
    get some() {
      return seen.size > 0
    },
    someWithin(timeoutMs) {
      if (seen.size > 0) return Promise.resolve(true)
      return new Promise((resolve) => {
        const end = (there: boolean) => {
          clearTimeout(timer)
          waiting.delete(arrive)
          resolve(there)
        }
        const arrive = () => seen.size > 0 && end(true)
        const timer = setTimeout(end, timeoutMs, false)
        waiting.add(arrive)
      })
    },
    flushed() {
      // One that runs may have begun before what the caller wants to see: the next one is for all who came meanwhile.
      const begin = () => {
        next = null
        running = flush()
          .catch(() => undefined)
          .finally(() => {
            running = null
          })
        return running
      }
      if (running === null) return begin()
      next ??= running.then(begin)
      return next
    },
    close() {
      clearInterval(sweep)
      presence.unsubscribe()
    },
  }
}
