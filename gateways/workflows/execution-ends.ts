import type { Bus } from '../../bus/connect.ts'
import { endedSubjects, unescapeToken } from '../../bus/subject.ts'

/** The ends of executions as workers tell of them, for all who wait in this process. */
export interface ExecutionEnds {
  /** Resolves when the execution is told to have ended, when the time is over, or with the signal, whatever is first. */
  told(executionId: string, timeoutMs: number, signal: AbortSignal): Promise<void>
}

const known = new WeakMap<Bus, ExecutionEnds>()

/** Listens as long as the bus is connected to. */
export function executionEnds(bus: Bus): ExecutionEnds {
  const ends = known.get(bus) ?? listen(bus)
  known.set(bus, ends)
  return ends
}

function listen(bus: Bus): ExecutionEnds {
  const waiting = new Map<string, Set<() => void>>()
  bus.connection.subscribe(endedSubjects, {
    callback: (error, { subject }) => {
      if (error !== null) return
      for (const end of waiting.get(unescapeToken(subject.split('.').at(-1)!)) ?? []) end()
    },
  })
  return {
    told(executionId, timeoutMs, signal) {
      return new Promise((resolve) => {
        const others = waiting.get(executionId) ?? new Set()
        waiting.set(executionId, others)
        const end = () => {
          clearTimeout(timer)
          signal.removeEventListener('abort', end)
          others.delete(end)
          if (others.size === 0) waiting.delete(executionId)
          resolve()
        }
        const timer = setTimeout(end, timeoutMs)
        signal.addEventListener('abort', end)
        others.add(end)
      })
    },
  }
}
