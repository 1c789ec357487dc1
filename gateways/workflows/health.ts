import type { FastifyInstance } from 'fastify'
import { asking } from '../../bus/publish.ts'
import { projectionLag } from '../../projections/positions.ts'
import { workflowProjection } from '../../projections/workflows/projection.ts'
import type { WorkflowService } from './service.ts'

type Part = 'ok' | 'away' | 'behind'

const checkMs = 2_000
/** What the read models have not folded for so long they do not fold, or they are being made anew. */
const behindSeconds = 60

/**
 * `GET /healthz` says that the process answers, `GET /readyz` that it reaches the database and the bus and that the read models
 * follow; also below `/api/v1`.
 */
export function healthRoutes(app: FastifyInstance, service: Pick<WorkflowService, 'bus' | 'database' | 'now'>): void {
  const { bus, database } = service
  const config = { role: 'public' } as const
  for (const prefix of ['', '/api/v1']) {
    app.get(`${prefix}/healthz`, { config }, async () => ({ status: 'ok' }))
    app.get(`${prefix}/readyz`, { config }, async (_request, reply) => {
      const [databasePart, busPart, projection] = await Promise.all([
        part(() => database.query('select 1')),
        part(() => asking(bus, () => bus.manager.streams.info('EVT_EXECUTIONS'))),
        part(async () => {
          const lags = await projectionLag(service, workflowProjection)
          return lags.some(({ seconds }) => seconds > behindSeconds) ? 'behind' : 'ok'
        }),
      ])
      const ready = [databasePart, busPart, projection].every((each) => each === 'ok')
      reply.code(ready ? 200 : 503)
      return { status: ready ? 'ready' : 'not-ready', database: databasePart, bus: busPart, projection }
    })
  }
}

/** Why a part is away is for the log of whoever runs it, not for everybody who asks. */
async function part(check: () => Promise<unknown>): Promise<Part> {
  const late = Promise.withResolvers<Part>()
  const timer = setTimeout(() => late.resolve('away'), checkMs)
  const asked = check().then(
    (told): Part => (told === 'behind' ? told : 'ok'),
    (): Part => 'away',
  )
  try {
    return await Promise.race([asked, late.promise])
  } finally {
    clearTimeout(timer)
  }
}
