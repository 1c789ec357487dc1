import type { FastifyRequest } from 'fastify'
import { LRUCache } from 'lru-cache'
import type { CommandMessage } from '../../schemas/data/change.ts'
import { Rejected } from '../../schemas/failure.ts'
import { type Catalog, type Table, tableKey } from '../data/catalog.ts'
import type { ReadLimits } from '../data/read-limits.ts'
import { isStale } from '../data/stale.ts'
import type { CallContext, TransactionalDatabase } from '../data/statement.ts'
import { hinted, perhaps, shown } from '../data/suggestion.ts'
import type { Authenticate, Principal } from '../http/auth.ts'

/** What the REST routes work with; everything a stranger can make grow in it is bounded. */
export interface RestService {
  /** The one schema whose tables are resources (`app.allowed-schema`). */
  readonly schema: string
  readonly catalog: { current(): Catalog; reload(): Promise<Catalog> }
  readonly database: TransactionalDatabase
  readonly authenticate: Authenticate
  readonly limits: ReadLimits
  /** Whether writes put their command into the write-ahead log, where change capture finds it. */
  readonly emitCommands: boolean
}

/** Compiled statements by catalog version and request shape. */
export function compiledCache<Compiled extends object>(): LRUCache<string, Compiled> {
  return new LRUCache<string, Compiled>({
    max: 5000,
    maxSize: 32 * 1024 * 1024,
    sizeCalculation: (_, key) => key.length + 4096,
  })
}

/** @throws {Rejected} `data/unknown-table` */
export function tableNamed(catalog: Catalog, schema: string, name: string): Table {
  const table = catalog.tables.get(tableKey(schema, name))
  if (table) return table
  const names = [...catalog.tables.values()].filter((other) => other.schema === schema).map((other) => other.name)
  throw new Rejected('data/unknown-table', `There is no table ${shown(name)}`, {
    details: { table: name.slice(0, 100) },
    ...hinted(perhaps(name, names)),
  })
}

export function readContext(principal: Principal): CallContext {
  return { ...identity(principal), readOnly: true }
}

/** The context of a write: with change capture on it carries the command, which the same transaction writes into the log. */
export function writeContext(
  service: RestService,
  principal: Principal,
  request: FastifyRequest,
  operation: string,
): CallContext {
  if (!service.emitCommands) return { ...identity(principal), readOnly: false }
  const trace = request.headers.traceparent
  const command: CommandMessage = {
    commandId: request.id,
    actor: principal.actor,
    operation,
    ...(typeof trace === 'string' && /^[0-9a-f-]{55}$/.test(trace) ? { trace } : {}),
  }
  return { ...identity(principal), readOnly: false, command: JSON.stringify(command) }
}

function identity({ role, claims, anonymous }: Principal): Pick<CallContext, 'role' | 'claims' | 'anonymous'> {
  return { anonymous, ...(role === undefined ? {} : { role }), ...(claims === undefined ? {} : { claims }) }
}

/**
 * Does the work on the catalog as it is; when the database says that the catalog is out of date, once more on a fresh one. So a DDL
 * change fails no request, however soon after it the request comes.
 */
export async function onCurrentCatalog<Result>(
  service: RestService,
  work: (catalog: Catalog) => Promise<Result>,
): Promise<Result> {
  const before = service.catalog.current()
  try {
    return await work(before)
  } catch (error) {
    if (!isStale(error)) throw error
    const after = await service.catalog.reload()
    if (after.version === before.version) throw error
    return await work(after)
  }
}

/** Path and query of a request, still escaped. */
export function splitUrl(url: string): { readonly segments: readonly string[]; readonly query: URLSearchParams } {
  const at = url.indexOf('?')
  const path = at < 0 ? url : url.slice(0, at)
  return { segments: path.split('/').slice(3), query: new URLSearchParams(at < 0 ? '' : url.slice(at + 1)) }
}
