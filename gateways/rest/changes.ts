import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { Rejected, Unavailable } from '../../schemas/failure.ts'
import type { Table } from '../data/catalog.ts'
import { accessTo, openView, rowView } from '../data/changes-access.ts'
import { compileChangeFilter } from '../data/changes-filter.ts'
import { ChangeGuard, type GuardedStream } from '../data/changes-guard.ts'
import type { ChangeHub } from '../data/changes-hub.ts'
import { readSnapshot } from '../data/changes-snapshot.ts'
import type { ChangeRequest, ChangeSink } from '../data/changes-subscription.ts'
import type { Filter } from '../data/read-ast.ts'
import { openEventStream } from '../http/sse.ts'
import { openSocketStream, registerWebSockets, requireOrigin } from '../http/websocket.ts'
import { eventStreamSink, socketSink } from './changes-sink.ts'
import { type ChangesQuery, parseChanges } from './parse-changes.ts'
import { onCurrentCatalog, type RestService, readContext, tableNamed } from './service.ts'

export interface ChangeRouteOptions {
  /** Origins whose pages may open WebSockets; `*` for any. */
  readonly corsOrigins: readonly string[]
  /** Between two signs of life. Default 15,000. */
  readonly heartbeatMs?: number
  /** What a browser waits before it connects again. Default 2,000. */
  readonly retryMs?: number
  /** Most rows a stream begins with. Default 10,000. */
  readonly maxSnapshotRows?: number
  /** How often the rights of open streams are looked at again. Default 10,000. */
  readonly recheckMs?: number
}

/** A stream that may be opened. */
interface Opening {
  readonly table: Table
  readonly request: ChangeRequest
  readonly guarded: Omit<GuardedStream, 'end'>
  /** Nothing is sent but changes. */
  readonly quiet: boolean
}

type Routes = Required<ChangeRouteOptions> & {
  readonly service: RestService
  readonly hub: ChangeHub | null
  readonly guard: ChangeGuard
  readonly beats: Set<() => void>
}

/** Clients have nothing to say on a stream. */
const maxPayloadBytes = 4_096

/**
 * `GET /api/v1/<table>/changes` (server-sent events) and `ws://<host>/ws/<table>/changes`. Closing the app ends the streams.
 * @param hub null when the bus is off: both answer 503 `data/changes-unavailable`
 */
export async function changeRoutes(
  app: FastifyInstance,
  service: RestService,
  hub: ChangeHub | null,
  options: ChangeRouteOptions,
): Promise<void> {
  const { heartbeatMs = 15_000, retryMs = 2_000, maxSnapshotRows = 10_000, recheckMs = 10_000 } = options
  const guard = new ChangeGuard({ catalog: service.catalog, database: service.database, recheckMs })
  const { corsOrigins } = options
  const routes: Routes = {
    ...{ corsOrigins, heartbeatMs, retryMs, maxSnapshotRows, recheckMs },
    ...{ service, hub, guard, beats: new Set() },
  }
  const beating = setInterval(() => {
    for (const beat of routes.beats) beat()
  }, heartbeatMs)
  // Before the plugin's own, which closes WebSockets without a word.
  app.addHook('preClose', async () => {
    clearInterval(beating)
    guard.close()
    await hub?.close()
  })
  await registerWebSockets(app, { maxPayloadBytes })
  app.get('/api/v1/:table/changes', { exposeHeadRoute: false }, async (request, reply) => {
    requireEventStream(request.headers.accept)
    serveEventStream(routes, reply, await open(routes, request))
    return reply
  })
  socketRoute(app, routes)
}

function socketRoute(app: FastifyInstance, routes: Routes): void {
  const openings = new WeakMap<FastifyRequest, Opening>()
  app.route({
    method: 'GET',
    url: '/ws/:table/changes',
    exposeHeadRoute: false,
    // Refused before the upgrade, so that the client gets a status and the one error shape.
    preHandler: async (request) => {
      if (request.ws !== true) return
      requireOrigin(request, routes.corsOrigins)
      openings.set(request, await open(routes, request))
    },
    handler: async () => {
      throw new Rejected('http/bad-request', 'This is a WebSocket', {
        hint: 'Connect with ws://, or read /api/v1/<table>/changes as server-sent events.',
      })
    },
    wsHandler: (socket, request) => {
      const { table, quiet, ...opening } = openings.get(request)!
      const stream = openSocketStream(socket)
      serve(routes, opening, socketSink(stream, table, quiet), stream)
    },
  })
}

function serveEventStream(routes: Routes, reply: FastifyReply, { table, quiet, ...opening }: Opening): void {
  const stream = openEventStream(reply, { retryMs: routes.retryMs })
  serve(routes, opening, eventStreamSink(stream, table, quiet), stream)
}

function serve(
  { hub, guard, beats }: Routes,
  { request, guarded }: Pick<Opening, 'request' | 'guarded'>,
  sink: ChangeSink,
  connection: { beat(): void; onClose(listener: () => void): void },
): void {
  const subscription = hub!.subscribe(request, sink)
  const forget = guard.watch({ ...guarded, end: (reason, text) => subscription.end(reason, text) })
  const beat = () => connection.beat()
  beats.add(beat)
  connection.onClose(() => {
    beats.delete(beat)
    forget()
    subscription.close()
  })
}

/** Everything that can refuse a stream, before a byte of it is sent. */
async function open(routes: Routes, request: FastifyRequest): Promise<Opening> {
  const { service, hub } = routes
  const query = new URLSearchParams(request.raw.url?.split('?').slice(1).join('?'))
  const principal = await service.authenticate(request.headers, query)
  const context = readContext(principal)
  if (hub === null) {
    throw new Unavailable('data/changes-unavailable', 'Change streams are off', {
      retryAfterSeconds: 60,
      hint: 'Set app.nats.enabled (APP_NATS_ENABLED) to true and app.nats.url to a nats-server with JetStream.',
    })
  }
  const lastEventId = String(request.headers['last-event-id'] ?? '')
  return await onCurrentCatalog(service, async (catalog) => {
    const table = tableNamed(catalog, service.schema, (request.params as { readonly table: string }).table)
    requireTable(table)
    const parsed = parseChanges(catalog, table, query, { limits: service.limits, lastEventId })
    await hub.requireAvailable(table.schema, table.name)
    const opened = await prepare(routes, table, parsed, context)
    const guarded = { ...opened.guarded, expiresAt: principal.expiresAt ?? null }
    return { ...opened, table, guarded, quiet: !parsed.placed }
  })
}

async function prepare(
  { service: { database }, maxSnapshotRows }: Routes,
  table: Table,
  { types, filter, parameters, from, snapshot }: ChangesQuery,
  context: GuardedStream['context'],
) {
  const access = await accessTo(table, database, context)
  const { columns, byRow } = access
  if (filter !== null && columns !== null) requireReadable(filter, columns)
  const passes = await compileChangeFilter(filter, parameters, table, { database, context })
  const request: ChangeRequest = {
    schema: table.schema,
    table: table.name,
    types,
    filter: passes,
    view: byRow ? rowView(table, columns, database, context) : openView(columns),
    from,
    snapshot: snapshot
      ? () => readSnapshot({ table, columns, filter, parameters, maxRows: maxSnapshotRows }, database, context)
      : null,
  }
  const boundToColumns = byRow || filter !== null
  return { request, guarded: { table, access, context, boundToColumns } }
}

/** What a filter lets through would tell what the column holds. */
function requireReadable(filter: Filter, columns: ReadonlySet<string>): void {
  if (filter.kind === 'not') requireReadable(filter.item, columns)
  else if (filter.kind === 'and' || filter.kind === 'or')
    for (const item of filter.items) requireReadable(item, columns)
  else if (filter.kind === 'compare' && !columns.has(filter.column)) {
    throw new Rejected('data/forbidden', `${filter.column} may not be read`, { details: { field: filter.column } })
  }
}

function requireTable({ kind, name }: Table): void {
  if (kind === 'table' || kind === 'partitioned-table') return
  throw new Rejected('http/not-found', `${name} is no table: only tables have changes`, {
    details: { table: name, kind },
    hint: 'Watch the tables it reads.',
  })
}

/** @throws {Rejected} `http/not-acceptable` */
function requireEventStream(accept: string | undefined): void {
  if (accept === undefined || accept === '' || /text\/event-stream|text\/\*|\*\/\*/i.test(accept)) return
  throw new Rejected('http/not-acceptable', 'Changes come as text/event-stream', {
    hint: 'Send Accept: text/event-stream, or connect to /ws/<table>/changes.',
  })
}
