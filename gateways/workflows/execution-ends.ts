import { LRUCache } from 'lru-cache'
import type { Bus } from '../../bus/connect.ts'
import { endedSubjects, unescapeToken } from '../../bus/subject.ts'
import { type ExecutionEnd, readEnd } from '../../schemas/workflows/execution-end.ts'

/** The ends of executions as workers tell of them, for all who wait in this process. */
export interface ExecutionEnds {
  /**
   * Resolves when the execution is told to have ended, when the time is over, or with the signal, whatever is first. Null when it was not told
   * how it has ended.
   */
  told(executionId: string, timeoutMs: number, signal: AbortSignal): Promise<ExecutionEnd | null>
}

const known = new WeakMap<Bus, ExecutionEnds>()

/** Listens as long as the bus is connected to. */
export function executionEnds(bus: Bus): ExecutionEnds {
  const ends = known.get(bus) ?? listen(bus)
  known.set(bus, ends)
  return ends
}

/** A short execution can end before anybody has begun to wait for it. */
const remembered = 512

function listen(bus: Bus): ExecutionEnds {
  const waiting = new Map<string, Set<(end: ExecutionEnd | null) => void>>()
  const recent = new LRUCache<string, ExecutionEnd>({ max: remembered })
  bus.connection.subscribe(endedSubjects, {
    callback: (error, message) => {
      if (error !== null) return
      const executionId = unescapeToken(message.subject.split('.').at(-1)!)
      const told = readEnd(message.string())
      const listeners = waiting.get(executionId)
      if (told !== null && listeners === undefined) recent.set(executionId, told)
      for (const end of listeners ?? []) end(told)
    },
  })
  return {
    async told(executionId, timeoutMs, signal) {
      const known = recent.get(executionId)
      if (known !== undefined) return known
      return await new Promise((resolve) => {
        const others = waiting.get(executionId) ?? new Set()
        waiting.set(executionId, others)
        const end = (told: ExecutionEnd | null) => {
          clearTimeout(timer)
          signal.removeEventListener('abort', abort)
          others.delete(end)
          if (others.size === 0) waiting.delete(executionId)
          resolve(told)
        }
        const abort = () => end(null)
        const timer = setTimeout(abort, timeoutMs)
        signal.addEventListener('abort', abort)
        others.add(end)
      })
    },
  }
}
