import type { FastifyInstance } from 'fastify'
import { asking } from '../../bus/publish.ts'
import type { WorkflowService } from './service.ts'

type Part = 'ok' | 'away'

const checkMs = 2_000

/** `GET /healthz` says that the process answers, `GET /readyz` that it reaches the database and the bus; also below `/api/v1`. */
export function healthRoutes(app: FastifyInstance, { bus, database }: WorkflowService): void {
  const config = { role: 'public' } as const
  for (const prefix of ['', '/api/v1']) {
    app.get(`${prefix}/healthz`, { config }, async () => ({ status: 'ok' }))
    app.get(`${prefix}/readyz`, { config }, async (_request, reply) => {
      const [databasePart, busPart] = await Promise.all([
        part(() => database.query('select 1')),
        part(() => asking(bus, () => bus.manager.streams.info('EVT_EXECUTIONS'))),
      ])
      const ready = databasePart === 'ok' && busPart === 'ok'
      reply.code(ready ? 200 : 503)
      return { status: ready ? 'ready' : 'not-ready', database: databasePart, bus: busPart }
    })
  }
}

/** Why a part is away is for the log of whoever runs it, not for everybody who asks. */
async function part(check: () => Promise<unknown>): Promise<Part> {
  const late = Promise.withResolvers<Part>()
  const timer = setTimeout(() => late.resolve('away'), checkMs)
  const asked = check().then(
    (): Part => 'ok',
    (): Part => 'away',
  )
  try {
    return await Promise.race([asked, late.promise])
  } finally {
    clearTimeout(timer)
  }
}
