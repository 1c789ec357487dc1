import { createHash } from 'node:crypto'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { newId } from '../../bus/message.ts'
import { Rejected } from '../../schemas/failure.ts'
import type { SavedTrigger } from '../../schemas/workflows/trigger.ts'
import type { TriggerConfig } from '../../schemas/workflows/trigger-plan.ts'
import { defaultSignatureHeader, signatureMistake } from '../../schemas/workflows/trigger-signature.ts'
import { invalid } from '../http/request.ts'
import { executionAnswers, waitField } from './execution-wait.ts'
import { loadFlow } from './flow-store.ts'
import { idempotencyKey } from './request.ts'
import type { WorkflowService } from './service.ts'
import { startTriggered } from './trigger-start.ts'
import { loadTrigger, tellRefused, triggerOfKey } from './trigger-store.ts'
import { gatherDelivery } from './webhook-batch.ts'
import { webhookBodyOf } from './webhook-body.ts'
import { WebhookRate } from './webhook-rate.ts'

type ByKey = { Params: { key: string } }

const maxBodyBytes = 1024 * 1024
const maxParameters = 100
const defaultWaitSeconds = 60
const keySyntax = /^[A-Za-z0-9_-]{16,128}$/
/** Who calls is no business of the flow. */
const withheld = ['authorization', 'cookie', 'proxy-authorization']
const credential = /^\$\{([A-Z][A-Z0-9_]*)(?:\.([A-Za-z_][A-Za-z0-9_]*))?\}$/

/** `/webhook/{key}`: whoever knows the key starts the trigger's flow, with the body, the headers and the query as its input. */
export async function webhookRoutes(app: FastifyInstance, service: WorkflowService): Promise<void> {
  // Whoever calls chooses the type; other routes know theirs.
  await app.register(async (own) => {
    own.addContentTypeParser('*', { parseAs: 'buffer' }, (_request, body, done) => done(null, body))
    webhookRoute(own, service)
  })
}

function webhookRoute(app: FastifyInstance, service: WorkflowService): void {
  const answers = executionAnswers(service)
  const rate = new WebhookRate()
  const config = { role: 'public', audit: 'webhook.fire' } as const
  app.route<ByKey>({
    method: ['GET', 'POST', 'PUT', 'PATCH'],
    url: '/api/v1/webhook/:key',
    exposeHeadRoute: false,
    bodyLimit: maxBodyBytes,
    config,
    handler: async (request, reply) => {
      const { saved } = await triggerOf(service, request.params.key)
      const told = saved.config as TriggerConfig<'webhook'>
      allowMethod(told, request, reply)
      const retryAfterSeconds = rate.take(saved.triggerId, service.now())
      if (retryAfterSeconds !== null) {
        reply.header('Retry-After', String(retryAfterSeconds))
        throw new Rejected('http/too-many-requests', 'The webhook is called too often')
      }
      const signature = await checkSignature(service, saved, request)
      const { wait, query } = parametersOf(request)
      const { body, members } = await webhookBodyOf(request)
      const key = idempotencyKey(request)
      // A delivery that is sent again under its signature is the same.
      const cause = key !== null ? `key/${key}` : signature === null ? `call/${newId()}` : `signed/${signature}`
      const brings = { method: request.method, headers: headersOf(request), query, body }
      if (told.batch !== undefined) {
        if (wait !== null) throw invalid('wait', 'cannot be asked of a webhook that gathers its deliveries')
        const delivery = { at: service.now(), ...brings }
        const deliveryId = await gatherDelivery(service, saved, { cause, delivery })
        return await reply.code(202).send({ status: 'GATHERED', deliveryId })
      }
      const firing = { cause, brings, body: members, at: service.now() }
      const started = await startTriggered(service, saved, firing).catch((error) => refused(service, saved, error))
      return await answers.answer(reply, started, wait ?? (told.wait === true ? defaultWaitSeconds : 0))
    },
  })
}

/** @throws {Rejected} `workflows/trigger-not-found` also for one that is disabled */
async function triggerOf({ bus, now }: WorkflowService, key: string): Promise<SavedTrigger> {
  const triggerId = keySyntax.test(key) ? await triggerOfKey(bus, key) : null
  const state = triggerId === null ? null : (await loadTrigger(bus, triggerId)).state
  if (state?.stage === 'saved' && state.enabled) {
    const flow = (await loadFlow(bus, state.saved.flowId)).state
    if (flow.stage === 'saved' && flow.enabled) return state
    const disabled = new Rejected('workflows/flow-disabled', 'The flow is disabled')
    if (flow.stage === 'saved') await tellRefused({ bus }, state.saved, disabled, now())
  }
  throw new Rejected('workflows/trigger-not-found', 'There is no such webhook')
}

/** Whoever calls is told, and whoever has made the trigger finds it there. */
async function refused(service: WorkflowService, saved: SavedTrigger['saved'], error: unknown): Promise<never> {
  if (error instanceof Rejected) await tellRefused(service, saved, error, service.now())
  throw error
}

function allowMethod(
  { methods = ['POST'] }: TriggerConfig<'webhook'>,
  { method }: FastifyRequest,
  reply: FastifyReply,
) {
  if ((methods as readonly string[]).includes(method)) return
  reply.header('Allow', methods.join(', '))
  throw new Rejected('http/method-not-allowed', `${method} is not for this webhook`, { details: { allow: methods } })
}

/** The signature, when it is good for this delivery alone; null when there is none such. */
async function checkSignature(
  service: WorkflowService,
  saved: SavedTrigger['saved'],
  request: FastifyRequest,
): Promise<string | null> {
  const told = saved.config as TriggerConfig<'webhook'>
  if (saved.secret === undefined && told.secret === undefined) return null
  const { signatureHeader = defaultSignatureHeader, tolerance } = told
  const secret = await secretOf(service, saved)
  const given = request.headers[signatureHeader.toLowerCase()]
  const text = Array.isArray(given) ? given.join(',') : given
  const delivery = { given: text, body: rawOf(request), key: idempotencyKey(request), now: service.now() }
  const mistake = secret === null ? 'cannot be checked' : signatureMistake({ tolerance }, { ...delivery, secret })
  if (mistake === null) return deliveryOf(text!, delivery.body)
  throw new Rejected('workflows/signature-refused', `${signatureHeader} ${mistake}`)
}

/** Not the header, of which others can be made that fit as well: what was signed, which has a time. */
function deliveryOf(header: string, body: Buffer): string | null {
  const [, time] = /(?:^|,)\s*t=(\d{1,12})\s*(?:,|$)/.exec(header) ?? []
  return time === undefined ? null : `${time}/${createHash('sha256').update(body).digest('hex')}`
}

async function secretOf({ keys, bus, credentialOf }: WorkflowService, saved: SavedTrigger['saved']) {
  if (saved.secret !== undefined) return keys?.open(saved.secret, `trigger/${saved.triggerId}/`) ?? null
  const [, name, field = null] = credential.exec(String(saved.config.secret)) ?? []
  const flow = (await loadFlow(bus, saved.flowId)).state
  if (name === undefined || flow.stage !== 'saved') return null
  return await credentialOf(flow.latest.namespace, name, field)
}

function rawOf({ body }: FastifyRequest): Buffer {
  return Buffer.isBuffer(body) ? body : Buffer.alloc(0)
}

function headersOf({ headers }: FastifyRequest): Readonly<Record<string, unknown>> {
  return Object.fromEntries(Object.entries(headers).filter(([name]) => !withheld.includes(name)))
}

/** All but `wait` is the flow's. @throws {Rejected} `http/bad-request` */
function parametersOf({ url }: FastifyRequest): { wait: number | null; query: Readonly<Record<string, unknown>> } {
  const at = url.indexOf('?')
  const parameters = new URLSearchParams(at < 0 ? '' : url.slice(at + 1))
  const query = new Map<string, string | string[]>()
  let wait: number | null = null
  if (parameters.size > maxParameters) throw invalid('query', `has more than ${maxParameters} parameters`)
  for (const [name, value] of parameters) {
    const known = query.get(name)
    if (name === 'wait') wait = waitField(value)
    else query.set(name, known === undefined ? value : [known, value].flat())
  }
  return { wait, query: Object.fromEntries(query) }
}
