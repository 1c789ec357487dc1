import type { FastifyInstance, FastifyRequest, HTTPMethods } from 'fastify'
import { Unavailable } from '../../schemas/failure.ts'
import { callResponse } from './answer.ts'
import { acceptInvocation } from './invocations.ts'
import { callBody, callRequest } from './request.ts'
import { allowCall, type FunctionService } from './service.ts'

const methods: HTTPMethods[] = ['GET', 'HEAD', 'POST', 'PUT', 'PATCH', 'DELETE']
/** How long a call waits for the first worker, such as at a restart. */
const workerWaitMs = 1_500

/** Calls of functions, by any method. */
export function invokeRoute(app: FastifyInstance, service: FunctionService): void {
  const { view, calls, workers, timeoutMs } = service
  const seconds = timeoutMs / 1000
  app.route<{ Params: { id: string } }>({
    method: methods,
    url: '/invoke/:id',
    handler: async (request, reply) => {
      if (service.authenticator.enabled) await allowCall(service, request)
      const { target } = view.get(request.params.id)
      if (wantsAsync(request)) return acceptInvocation(service, target, request, reply)
      if (!workers.some && !(await workers.someWithin(workerWaitMs))) {
        throw new Unavailable('functions/unavailable', 'No function worker runs now; send the request again')
      }
      const answer = await calls.call(target, callRequest(request.raw), callBody(request))
      const { status, headers, body } = callResponse(answer, seconds)
      reply.code(status).headers(headers)
      return body === null ? reply.send() : reply.send(body)
    },
  })
}

function wantsAsync({ headers }: FastifyRequest): boolean {
  const { prefer } = headers
  return prefer !== undefined && /(?:^|,)\s*respond-async\s*(?:[,;]|$)/i.test([prefer].flat().join(','))
}
