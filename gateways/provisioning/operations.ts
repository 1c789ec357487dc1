import type { FastifyReply, FastifyRequest } from 'fastify'
import { decide } from '../../bus/decide.ts'
import { eventSubject } from '../../bus/subject.ts'
import { type ErrorCode, errorCodes } from '../../schemas/errors.ts'
import { Rejected } from '../../schemas/failure.ts'
import {
  decideOperation,
  decideSettings,
  type Instance,
  instance,
  requireInstance,
} from '../../schemas/provisioning/instance.ts'
import type { OperationType } from '../../schemas/provisioning/instance-facts.ts'
import { isUnderWay } from '../../schemas/provisioning/operation.ts'
import { shownInstance } from './instance-view.ts'
import { goneSignal, operationIdOf } from './request.ts'
import type { ProvisioningService } from './service.ts'

export function instancePlace(projectName: string) {
  return { stream: 'EVT_PROVISIONING', subject: eventSubject('provisioning', 'instance', projectName) }
}

/** @throws {Rejected} `provisioning/not-found` */
export function existing({ instances }: ProvisioningService, projectId: string): Instance {
  return requireInstance(instances.get(projectId), projectId)
}

/** An instance that is ready, was once, or may become so. @throws {Rejected} `provisioning/not-found`, `provisioning/invalid-state` */
export function answerable(service: ProvisioningService, projectId: string): Instance {
  const found = existing(service, projectId)
  if (found.created || isUnderWay(found.operation)) return found
  throw new Rejected('provisioning/invalid-state', `${projectId} was never ready: delete it and provision it again`)
}

/** Asks the worker that looks after an instance. @throws {Rejected} also as `answerable` does */
export async function askOf<T>(
  service: ProvisioningService,
  projectId: string,
  question: string,
  params: object = {},
  timeoutMs?: number,
): Promise<T> {
  const { place } = answerable(service, projectId)
  return await service.ask<T>(question, { projectId, place }, params, timeoutMs)
}

interface Wanted {
  readonly type: OperationType
  readonly request?: Readonly<Record<string, unknown>>
}

export type Settled = NonNullable<Awaited<ReturnType<ProvisioningService['instances']['settled']>>>

/**
 * Begins an operation on an instance and waits for its end, at most so many seconds.
 * @throws {Rejected} as the decision does, and what the operation failed with; {BusUnavailable}
 */
export async function operate(
  service: ProvisioningService,
  http: { readonly request: FastifyRequest; readonly reply: FastifyReply },
  projectId: string,
  { type, request = {} }: Wanted,
  seconds: number,
): Promise<Settled> {
  const id = operationIdOf(http.request, projectId)
  const by = service.actorOf(http.request)
  const { sequence } = await decide(service.bus, {
    ...instancePlace(projectId),
    aggregate: instance,
    actor: by,
    decide: (state) => decideOperation(state, projectId, { id, type, request, by, at: service.now() }),
  })
  await service.instances.passed(projectId, sequence)
  return await settle(service, http.reply, projectId, id, seconds)
}

/** @throws {Rejected} what the operation failed with */
export async function settle(
  { instances }: ProvisioningService,
  reply: FastifyReply,
  projectId: string,
  id: string,
  seconds: number,
): Promise<Settled> {
  const settled = await instances.settled(projectId, id, seconds * 1_000, goneSignal(reply))
  if (settled === null) {
    throw new Rejected('provisioning/operation-not-found', `${projectId} knows no operation ${id} any more`)
  }
  if (settled.state !== 'FAILED' || seconds === 0) return settled
  throw failureOf(settled)
}

function failureOf({ id, type, error }: Settled): Rejected {
  const code = error !== null && error.code in errorCodes ? (error.code as ErrorCode) : 'provisioning/operation-failed'
  const blamed = error?.field === undefined ? {} : { field: error.field, reason: error.message }
  return new Rejected(code, error?.message ?? `${type} has failed`, {
    details: { ...blamed, operation: { id, type, error } },
  })
}

/** 202 with the record and its operation while it is under way; the given status with what is told when it has ended. */
export function replyInstance(
  service: ProvisioningService,
  reply: FastifyReply,
  projectId: string,
  settled: Settled,
  status = 200,
): FastifyReply {
  const record = shownInstance(existing(service, projectId), service.now())
  reply.header('Location', `/api/provision/${projectId}`)
  return reply.code(isUnderWay(settled) ? 202 : status).send(record)
}

/** Changes what needs no work of the servers. @throws {Rejected} as the decision does; {BusUnavailable} */
export async function changeSettings(
  service: ProvisioningService,
  request: FastifyRequest,
  projectId: string,
  settings: Parameters<typeof decideSettings>[2],
): Promise<void> {
  const by = service.actorOf(request)
  const { sequence } = await decide(service.bus, {
    ...instancePlace(projectId),
    aggregate: instance,
    actor: by,
    decide: (state) => decideSettings(state, projectId, settings, { by, at: service.now() }),
  })
  await service.instances.passed(projectId, sequence)
}
