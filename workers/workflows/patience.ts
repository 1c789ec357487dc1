import { BusUnavailable } from '../../bus/connect.ts'
import { pause } from '../../bus/pause.ts'
import { BusUnanswered } from '../../bus/publish.ts'
import type { TaskFiles, TaskKv } from './plugin.ts'
import { collected } from './task-files.ts'

const retryMs = 250

/**
 * Asks until the bus is there again: that it is away says nothing about a task, and is never its result.
 * @throws {BusUnavailable} only when the signal says that nobody waits any more; whatever else the call throws
 */
export async function outwait<T>(call: () => Promise<T>, signal: AbortSignal): Promise<T> {
  for (;;) {
    try {
      return await call()
    } catch (error) {
      if (!(error instanceof BusUnavailable) || signal.aborted) throw error
      await pause(retryMs, signal)
    }
  }
}

/** The key-value store for one attempt at a task, whose time is also the patience it has. */
export function patientKv(kv: TaskKv, signal: AbortSignal): TaskKv {
  return {
    get: (namespace, key) => outwait(() => kv.get(namespace, key), signal),
    async put(namespace, key, value, options) {
      const put = () => kv.put(namespace, key, value, options)
      if (options?.version === undefined) return await outwait(put, signal)
      // What was not answered may be there, and would then be in its own way.
      return await unlessUnanswered(put, signal)
    },
    delete: (namespace, key) => outwait(() => kv.delete(namespace, key), signal),
    keys: (namespace, prefix) => outwait(() => kv.keys(namespace, prefix), signal),
  }
}

async function unlessUnanswered<T>(call: () => Promise<T>, signal: AbortSignal): Promise<T> {
  let unanswered: BusUnanswered | null = null
  const given = await outwait(async () => {
    try {
      return await call()
    } catch (error) {
      if (!(error instanceof BusUnanswered)) throw error
      unanswered = error
      return null
    }
  }, signal)
  if (unanswered !== null) throw unanswered
  return given as T
}

/** As `patientKv`. A stream is read once, before. */
export function patientFiles(files: TaskFiles, signal: AbortSignal): TaskFiles {
  return {
    async put(given) {
      const bytes = given instanceof Uint8Array ? given : await collected(given)
      return await outwait(() => files.put(bytes), signal)
    },
    get: (uri) => outwait(() => files.get(uri), signal),
  }
}
