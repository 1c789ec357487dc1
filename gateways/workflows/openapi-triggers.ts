import {
  anyObject,
  body,
  failures,
  flag,
  json,
  list,
  nullable,
  type Operation,
  type Operations,
  object,
  page,
  query,
  ref,
  text,
  time,
} from './openapi-parts.ts'

const none = failures({ 404: 'There is no such trigger, or it is disabled' })
const trigger = json('The trigger', ref('Trigger'))
const declared = failures({ 409: 'It is written in its flow, or the key is that of another trigger' })
const type = { type: 'string', enum: ['cron', 'interval', 'webhook', 'flow', 'change', 'subject', 'manual'] }
const wait = query('wait', 'Seconds that the answer waits for the end', { type: 'integer', minimum: 0, maximum: 300 })
const once = { name: 'Idempotency-Key', in: 'header', schema: text }
const changed = (summary: string): Operation => ({ summary, responses: { 200: trigger, ...none } })
const sentBody = {
  required: false,
  description:
    "JSON as it is; a form's fields as an object, those of one name as a list; texts and XML as a text; bytes of any other type, and a form's files, as `{contentType, sizeBytes, base64}`, files with `filename`",
  content: {
    'application/json': { schema: {} },
    'application/x-www-form-urlencoded': { schema: anyObject },
    'multipart/form-data': { schema: anyObject },
    'text/*': { schema: text },
    'application/xml': { schema: text },
    '*/*': { schema: { type: 'string', format: 'binary' } },
  },
}
const fired = (summary: string, sent: boolean): Operation => ({
  summary,
  parameters: [wait, once],
  ...(sent && { requestBody: sentBody }),
  responses: {
    200: json('Accepted, or the result', ref('Accepted')),
    202: json('Kept for an execution of several deliveries', object({ status: text, deliveryId: text })),
    ...none,
    ...failures({
      401: 'The signature is missing, wrong or too old',
      405: 'The webhook is not for this method',
      415: 'A multipart body other than multipart/form-data',
      429: 'It is called too often',
    }),
  },
})

export const triggerOperations: Operations = {
  'GET /api/v1/triggers': {
    summary: 'Triggers, newest first',
    parameters: [
      query('namespace', "Of this namespace's flows"),
      query('flowId', 'Of this flow'),
      query('type', 'Of this type', type),
      query('enabled', '`true` or `false`'),
      query('q', 'In the name'),
      ...page,
    ],
    responses: { 200: list('Triggers', ref('Trigger')) },
  },
  'POST /api/v1/triggers': {
    summary: 'Makes a trigger for a flow',
    requestBody: body(ref('TriggerDraft')),
    responses: { 201: trigger, ...failures({ 404: 'There is no such flow' }), ...declared },
  },
  'GET /api/v1/triggers/{id}': { summary: 'A trigger', responses: { 200: trigger, ...none } },
  'PUT /api/v1/triggers/{id}': {
    summary: 'Changes it; what is left out stays',
    requestBody: body(ref('TriggerDraft')),
    responses: { 200: trigger, ...none, ...declared },
  },
  'DELETE /api/v1/triggers/{id}': {
    summary: 'Deletes it',
    responses: { 204: { description: 'It is gone' }, ...none, ...declared },
  },
  'POST /api/v1/triggers/{id}/enable': changed('Lets it start executions'),
  'POST /api/v1/triggers/{id}/disable': changed('Lets it start nothing'),
  'POST /api/v1/triggers/{id}/fire': {
    summary: 'Starts an execution by hand',
    parameters: [once],
    requestBody: body(object({ inputs: anyObject }), { required: false }),
    responses: { 200: json('Accepted', ref('Accepted')), ...none },
  },
  'POST /api/v1/triggers/{id}/backfill': {
    summary: 'Starts an execution for each tick of a range that has none yet, at most 1,000',
    requestBody: body(object({ from: time, to: time }, ['from'])),
    responses: {
      202: json('Accepted', object({ count: { type: 'integer' }, executions: { type: 'array', items: text } })),
      ...none,
    },
  },
  'GET /api/v1/webhook/{key}': fired('Fires a webhook that allows GET', false),
  'POST /api/v1/webhook/{key}': fired('Fires a webhook; the body is its input', true),
  'PUT /api/v1/webhook/{key}': fired('Fires a webhook that allows PUT', true),
  'PATCH /api/v1/webhook/{key}': fired('Fires a webhook that allows PATCH', true),
}

export const triggerSchemas = {
  TriggerDraft: object({ flowId: text, type, name: text, enabled: flag, config: anyObject, inputs: anyObject }),
  Trigger: object(
    {
      id: text,
      flowId: text,
      type,
      name: text,
      enabled: flag,
      config: anyObject,
      inputs: { ...anyObject, description: 'Templates over `trigger`' },
      declared: { ...flag, description: "Whether the flow's YAML says so" },
      lastFiredAt: nullable(time),
      lastExecution: nullable(object({ id: text, status: text, error: nullable(text) })),
      lastRefusal: nullable({
        ...object({ at: time, code: text, error: text }),
        description: 'Why it last could not start an execution',
      }),
      nextFireAt: nullable(time),
      createdAt: time,
      updatedAt: time,
    },
    ['id', 'flowId', 'type', 'name', 'enabled'],
  ),
}
