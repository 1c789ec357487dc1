import type { FastifyInstance } from 'fastify'
import { Value } from 'typebox/value'
import { cronMistake, isTimeZone, nextTick } from '../../schemas/cron.ts'
import { decideSetTriggers } from '../../schemas/functions/function.ts'
import { ChangeTrigger, CronTrigger, isCron, maxTriggers, type Trigger } from '../../schemas/functions/trigger.ts'
import { functionId, invalid, readObject } from './request.ts'
import { allowManagement, type FunctionService } from './service.ts'

type WithId = { readonly Params: { readonly id: string } }

/** When a function is called by itself: at the times of a cron expression, or with every change of a table's rows. */
export function triggerRoutes(app: FastifyInstance, service: FunctionService): void {
  const { view, store } = service
  app.get<WithId>('/scripts/:id/triggers', async (request) => {
    await allowManagement(service, request)
    return shown(service, functionId(request.params.id))
  })
  app.put<WithId>('/scripts/:id/triggers', async (request) => {
    await allowManagement(service, request)
    const id = functionId(request.params.id)
    view.get(id)
    const triggers = readTriggers(request.body)
    await store.change(id, (state, moment) => decideSetTriggers(state, { functionId: id, triggers }, moment))
    return shown(service, id)
  })
}

function shown({ view }: FunctionService, id: string) {
  const { state } = view.get(id)
  const now = Date.now()
  const triggers = state.triggers.map((trigger) => {
    const next = isCron(trigger) ? nextTick(trigger, now) : null
    return { ...trigger, ...(next !== null && { nextAt: new Date(next).toISOString() }) }
  })
  return { id, triggers }
}

function readTriggers(body: unknown): Trigger[] {
  const { triggers } = readObject(body, ['triggers'])
  if (!Array.isArray(triggers)) throw invalid('triggers must be a list')
  if (triggers.length > maxTriggers) throw invalid(`A function may have ${maxTriggers} triggers`)
  const read = triggers.map((value, index) => readTrigger(value, `triggers[${index}]`))
  const names = read.map(({ name }) => name)
  const twice = names.find((name, index) => names.indexOf(name) !== index)
  if (twice !== undefined) throw invalid(`triggers: the name "${twice}" is there twice`)
  return read
}

function readTrigger(value: unknown, place: string): Trigger {
  if (typeof value !== 'object' || value === null) throw invalid(`${place} must be an object`)
  if ('cron' in value === 'table' in value) throw invalid(`${place} needs either cron or table`)
  const schema = 'cron' in value ? CronTrigger : ChangeTrigger
  const unknown = Object.keys(value).find((name) => !Object.hasOwn(schema.properties, name))
  if (unknown !== undefined) throw invalid(`${place} has an unknown field "${unknown.slice(0, 100)}"`)
  const [first] = Value.Errors(schema, value)
  if (first?.instancePath.startsWith('/operations'))
    throw invalid(`${place}.operations must be a list of ${operations}`)
  if (first !== undefined) throw invalid(`${place}${first.instancePath.replaceAll('/', '.')} ${first.message}`)
  const trigger = value as Trigger
  if (isCron(trigger)) checkCron(trigger, place)
  return trigger
}

const operations = 'INSERT, UPDATE, DELETE and TRUNCATE'

function checkCron(trigger: CronTrigger, place: string): void {
  const { timezone = 'UTC' } = trigger
  if (!isTimeZone(timezone)) throw invalid(`${place}.timezone must be an IANA name such as Europe/Stockholm`)
  const mistake = cronMistake(trigger, Date.now())
  if (mistake !== null) throw invalid(`${place}.cron${mistake.startsWith('will') ? '' : ':'} ${mistake}`)
}
