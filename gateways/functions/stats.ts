import type { FastifyInstance } from 'fastify'
import { counterValues } from '../../bus/counters.ts'
import { activeRevision } from '../../schemas/functions/function.ts'
import { callsCounter } from '../../schemas/functions/last-call.ts'
import { allowManagement, type FunctionService } from './service.ts'
import type { FunctionEntry } from './view.ts'

interface ScriptEntry {
  readonly id: string
  readonly invocations: number
  /** Milliseconds since the deployment. */
  readonly uptime: number
  /** ISO 8601; absent before the first call. */
  readonly lastInvoked?: string
}

/** Health, the list of functions and the figures. Source: specification C. */
export function statsRoutes(app: FastifyInstance, service: FunctionService): void {
  const { view, maxFunctions } = service
  const startedAt = performance.now()
  app.get('/health', async () => ({ status: 'healthy', scripts: view.size, uptime: performance.now() - startedAt }))
  app.get('/scripts', async (request) => {
    await allowManagement(service, request)
    return { scripts: await scriptEntries(service) }
  })
  app.get('/stats', async (request) => {
    await allowManagement(service, request)
    const scripts = await scriptEntries(service)
    return { totalScripts: scripts.length, maxScripts: maxFunctions, scripts }
  })
}

async function scriptEntries({ bus, view, workers, lastCalls }: FunctionService): Promise<readonly ScriptEntry[]> {
  await workers.flushed()
  const functions = view.all()
  const names = functions.map(({ id, state }) => callsCounter(id, state.revision))
  const counts = await inPages(names, (page) => counterValues(bus, page))
  const called = functions.map(({ id }, index) => (counts[index] === 0 ? null : lastCalls.get(id)))
  const last = await Promise.all(called)
  return functions.map((entry, index) => scriptEntry(entry, counts[index] ?? 0, last[index]?.value))
}

function scriptEntry(
  { id, state }: FunctionEntry,
  invocations: number,
  last: { readonly revision: number; readonly at: number } | undefined,
): ScriptEntry {
  const uptime = Math.max(0, Date.now() - activeRevision(state).at)
  const known = last !== undefined && last.revision === state.revision
  return { id, invocations, uptime, ...(known && { lastInvoked: new Date(last.at).toISOString() }) }
}

const pageSize = 500

async function inPages<T, R>(all: readonly T[], read: (page: readonly T[]) => Promise<readonly R[]>): Promise<R[]> {
  const results: R[] = []
  for (let at = 0; at < all.length; at += pageSize) results.push(...(await read(all.slice(at, at + pageSize))))
  return results
}
