import type { FastifyInstance } from 'fastify'
import { asking } from '../../bus/publish.ts'
import type { ProvisioningService } from './service.ts'

const checkMs = 2_000

/** `GET /healthz` says that the process answers, `GET /readyz` that it reaches the bus and a worker; also below `/api`. */
export function healthRoutes(app: FastifyInstance, service: ProvisioningService): void {
  for (const prefix of ['', '/api']) {
    app.get(`${prefix}/healthz`, async () => ({ status: 'ok' }))
    app.get(`${prefix}/readyz`, async (_request, reply) => {
      const [bus, worker] = await Promise.all([
        part(() => asking(service.bus, () => service.bus.manager.streams.info('EVT_PROVISIONING'))),
        part(() => service.ask('engines', {}, {}, checkMs)),
      ])
      const ready = bus === 'ok' && worker === 'ok'
      reply.code(ready ? 200 : 503)
      return { status: ready ? 'ready' : 'not-ready', bus, worker }
    })
  }
}

/** Why a part is away is for the log of whoever runs it, not for everybody who asks. */
async function part(check: () => Promise<unknown>): Promise<'ok' | 'away'> {
  const late = Promise.withResolvers<'away'>()
  const timer = setTimeout(() => late.resolve('away'), checkMs)
  const asked = check().then(
    () => 'ok' as const,
    () => 'away' as const,
  )
  try {
    return await Promise.race([asked, late.promise])
  } finally {
    clearTimeout(timer)
  }
}
