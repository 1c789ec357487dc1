import { setTimeout as sleep } from 'node:timers/promises'
import { describe } from './explain.ts'

/** A server or role process that is up. */
export interface Running {
  readonly url?: string
  /** Resolves with the reason when it is gone, however that came. */
  readonly ended: Promise<string>
  stop(): Promise<void>
  /** At once, without a goodbye. */
  kill(): Promise<void>
}

export interface Service {
  readonly name: string
  start(): Promise<Running>
}

export interface Kept {
  readonly name: string
  readonly url: string | undefined
  stop(): Promise<void>
  kill(): Promise<void>
}

const firstPauseMs = 500
const longestPauseMs = 30_000
/** Who ran this long is not in a crash loop. */
const steadyMs = 60_000

/**
 * Starts a service and starts it again whenever it ends, with a growing pause; every such outcome is told in one line.
 * The first start must succeed, its failure is the caller's.
 */
export async function keepRunning(service: Service, tell: (line: string) => void): Promise<Kept> {
  let running = await service.start()
  const stopping = new AbortController()
  const { url } = running
  const watch = async () => {
    for (let pauseMs = firstPauseMs; ; pauseMs = Math.min(pauseMs * 2, longestPauseMs)) {
      const startedAt = performance.now()
      const reason = await running.ended
      if (stopping.signal.aborted) return
      if (performance.now() - startedAt > steadyMs) pauseMs = firstPauseMs
      tell(`${service.name} ended (${reason}); starting it again in ${pauseMs / 1000} s`)
      if (!(await startAgain(pauseMs))) return
    }
  }
  const startAgain = async (firstPause: number) => {
    for (let pauseMs = firstPause; ; pauseMs = Math.min(pauseMs * 2, longestPauseMs)) {
      await sleep(pauseMs, undefined, { signal: stopping.signal }).catch(() => undefined)
      if (stopping.signal.aborted) return false
      try {
        running = await service.start()
        tell(`${service.name} runs again`)
        return true
      } catch (error) {
        tell(`${service.name} did not start: ${describe(error).split('\n')[0]}`)
      }
    }
  }
  const watching = watch()
  return {
    name: service.name,
    url,
    async stop() {
      stopping.abort()
      await running.stop()
      await watching
      // A start that was under way when we were told to stop has brought a new one.
      await running.stop()
    },
    async kill() {
      stopping.abort()
      await running.kill()
    },
  }
}
