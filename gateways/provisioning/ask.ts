import type { Bus } from '../../bus/connect.ts'
import { asking } from '../../bus/publish.ts'
import { provisioningSubject } from '../../bus/subject.ts'
import { type ErrorCode, errorCodes } from '../../schemas/errors.ts'
import { Rejected, Unavailable } from '../../schemas/failure.ts'
import type { Requested } from '../../schemas/provisioning/instance-facts.ts'
import type { Answer, Question } from '../../schemas/provisioning/question.ts'
import type { ProvisioningService } from './service.ts'

const defaultMs = 15_000

/** Asks the workers over core NATS; what they refuse is thrown as if it had been refused here. */
export function asker(bus: Bus): ProvisioningService['ask'] {
  return async <T>(
    question: string,
    { projectId, place }: { readonly projectId?: string; readonly place?: string | null },
    params: object = {},
    timeoutMs = defaultMs,
  ) => {
    const asked: Question = { question, params: { ...params }, ...(projectId !== undefined && { projectId }) }
    let reply: Answer
    try {
      const subject = provisioningSubject(place ?? 'any')
      const message = await asking(bus, () =>
        bus.connection.request(subject, JSON.stringify(asked), { timeout: timeoutMs }),
      )
      reply = message.json<Answer>()
    } catch (cause) {
      throw new Unavailable('http/unavailable', 'No provisioning worker answers', { retryAfterSeconds: 2, cause })
    }
    if ('answer' in reply) return reply.answer as T
    throw failed(reply.failure)
  }
}

/** Parameters for which there is no server yet. @throws {Rejected} `provisioning/invalid-parameter`; {Unavailable} when no worker answers */
export async function requireParameters(
  service: ProvisioningService,
  { databaseType, version, parameters }: Pick<Requested, 'databaseType' | 'version' | 'parameters'>,
): Promise<void> {
  if (Object.keys(parameters).length === 0) return
  await service.ask('check-new-parameters', {}, { databaseType, version, parameters })
}

function failed({ kind, code, message, details, hint }: Extract<Answer, { failure: unknown }>['failure']): Error {
  const known: ErrorCode = code in errorCodes ? (code as ErrorCode) : 'http/internal'
  const detail = { ...(details !== undefined && { details }), ...(hint !== undefined && { hint }) }
  if (kind === 'rejected') return new Rejected(known, message, detail)
  if (kind === 'unavailable') return new Unavailable('http/unavailable', message, { ...detail, retryAfterSeconds: 2 })
  return new Error(message)
}
