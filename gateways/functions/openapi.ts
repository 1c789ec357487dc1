import type { FastifyInstance } from 'fastify'
import { stringify } from 'yaml'
import { functionIdPattern } from '../../schemas/functions/function.ts'
import { maxTriggers } from '../../schemas/functions/trigger.ts'
import type { FunctionService } from './service.ts'

const json = (schema: object) => ({ 'application/json': { schema } })
const object = (properties: Record<string, object>, required = Object.keys(properties)) => ({
  type: 'object',
  properties,
  required,
  additionalProperties: false,
})
const text = { type: 'string' }
const whole = { type: 'integer', minimum: 0 }
const time = { type: 'string', format: 'date-time' }
const ref = (name: string) => ({ $ref: `#/components/schemas/${name}` })
const answer = (description: string, schema: object) => ({ description, content: json(schema) })
const failure = (description: string) => answer(description, ref('Error'))
const body = (schema: object, required = true) => ({ required, content: json(schema) })
const idParameter = { name: 'id', in: 'path', required: true, schema: ref('FunctionId') }

/** `GET /openapi.json`, and `.yaml`: OpenAPI 3.1 of the function runtime. */
export function openApiRoute(app: FastifyInstance, service: FunctionService): void {
  const document = {
    openapi: '3.1.0',
    info: { title: 'Busbar function runtime', version: '1' },
    paths: { ...specifiedPaths(service), ...ownPaths() },
    components: { schemas: components(service) },
  }
  const json = JSON.stringify(document)
  app.get('/openapi.json', (_request, reply) => reply.type('application/json; charset=utf-8').send(json))
  app.get('/openapi.yaml', (_request, reply) =>
    reply.type('application/yaml; charset=utf-8').send(stringify(JSON.parse(json))),
  )
}

function specifiedPaths({ maxFunctions, timeoutMs }: FunctionService) {
  const invoke = (operationId: string, more: object) => ({
    operationId,
    responses: {
      '200': { description: "The handler's result as JSON, or the response it made" },
      '202': answer('Accepted, with `Prefer: respond-async`', ref('Accepted')),
      '204': { description: 'The handler returned nothing' },
      '400': failure('No handler function exported'),
      '404': failure('Script not found: <id>'),
      '413': failure('The body is larger than 1 MiB'),
      '429': failure('Too many calls of this function at a time'),
      '500': failure('The handler threw; the text is its message'),
      '502': failure('The worker that ran the call was lost'),
      '503': failure('No worker runs'),
      '504': failure(`Execution timeout (${timeoutMs / 1000}s)`),
    },
    ...more,
  })
  const anyBody = { required: false, content: { '*/*': { schema: {} } } }
  return {
    '/health': { get: { operationId: 'health', responses: { '200': answer('It runs', ref('Health')) } } },
    '/deploy': {
      post: {
        operationId: 'deploy',
        requestBody: body(ref('Deploy')),
        responses: {
          '201': answer('Deployed; a `Warning` header says that there is no handler', object({ id: text, url: text })),
          '400': failure('A field is wrong, or the code does not compile; the text has line and column'),
          '413': failure('The code is larger than 512 KiB'),
          '429': failure(`Max scripts limit reached (${maxFunctions})`),
        },
      },
    },
    '/invoke/{id}': {
      parameters: [idParameter],
      get: invoke('invokeGet', {}),
      post: invoke('invoke', { requestBody: anyBody }),
      put: invoke('invokePut', { requestBody: anyBody }),
      patch: invoke('invokePatch', { requestBody: anyBody }),
      delete: invoke('invokeDelete', {}),
    },
    '/delete/{id}': {
      parameters: [idParameter],
      delete: {
        operationId: 'delete',
        responses: {
          '200': answer('Deleted', object({ status: { const: 'deleted' }, id: text })),
          '404': failure('Not found'),
        },
      },
    },
    '/scripts': {
      get: {
        operationId: 'scripts',
        responses: { '200': answer('All functions', object({ scripts: { type: 'array', items: ref('Script') } })) },
      },
    },
    '/stats': { get: { operationId: 'stats', responses: { '200': answer('The figures', ref('Stats')) } } },
  }
}

function ownPaths() {
  const missing = { '404': failure('Script not found: <id>') }
  const wrong = { '400': failure('A field is wrong; the text names it') }
  const ofScript = (path: string, operations: object) => ({
    [`/scripts/{id}/${path}`]: { parameters: [idParameter], ...operations },
  })
  const operation = (operationId: string, result: object, more: object = {}) => ({
    operationId,
    ...more,
    responses: { '200': answer('Done', result), ...missing, ...('requestBody' in more && wrong) },
  })
  return {
    ...ofScript('revisions', { get: operation('revisions', ref('Revisions')) }),
    '/scripts/{id}/revisions/{revision}': {
      parameters: [idParameter, { name: 'revision', in: 'path', required: true, schema: whole }],
      get: operation('revision', ref('Source')),
    },
    ...ofScript('rollback', {
      post: operation('rollback', object({ id: text, revision: whole }), {
        requestBody: body(object({ revision: whole }, []), false),
      }),
    }),
    ...ofScript('env', {
      get: operation('env', ref('Env')),
      put: operation('setEnv', ref('Env'), { requestBody: body(ref('SetEnv')) }),
    }),
    ...ofScript('triggers', {
      get: operation('triggers', ref('Triggers')),
      put: operation('setTriggers', ref('Triggers'), { requestBody: body(ref('SetTriggers')) }),
    }),
    ...ofScript('logs', {
      get: operation('logs', ref('Logs'), {
        parameters: [{ name: 'limit', in: 'query', schema: { type: 'integer', minimum: 1, maximum: 1000 } }],
      }),
    }),
    '/invocations/{id}': {
      parameters: [{ ...idParameter, schema: text }],
      get: {
        operationId: 'invocation',
        responses: { '200': answer('How it stands', ref('Invocation')), '404': failure('Invocation not found: <id>') },
      },
    },
  }
}

function components({ maxFunctions }: FunctionService) {
  const names = { type: 'object', additionalProperties: text }
  const script = { id: text, invocations: whole, uptime: { type: 'number' }, lastInvoked: time }
  const line = { timestamp: time, level: text, message: text, invocationId: text, revision: whole }
  const trigger = { type: 'object', required: ['name'] }
  return {
    FunctionId: { ...text, pattern: functionIdPattern },
    Error: object({ error: text }),
    Health: object({ status: { const: 'healthy' }, scripts: whole, uptime: { type: 'number', description: 'ms' } }),
    Deploy: object({ id: ref('FunctionId'), code: text, idempotent: { type: 'boolean' } }, ['id', 'code']),
    Script: object(script, ['id', 'invocations', 'uptime']),
    Stats: object({
      totalScripts: whole,
      maxScripts: { const: maxFunctions },
      scripts: { type: 'array', items: ref('Script') },
    }),
    Accepted: object({ id: text, status: { const: 'pending' }, url: text }),
    Invocation: { type: 'object', required: ['id', 'script', 'status'] },
    Revisions: object({ id: text, revisions: { type: 'array', items: { type: 'object' } } }),
    Source: object({ id: text, revision: whole, deployedAt: time, idempotent: { type: 'boolean' }, code: text }),
    Env: object({ id: text, version: whole, variables: names, secrets: { type: 'array', items: text } }),
    SetEnv: object(
      { variables: names, secrets: { type: 'object', additionalProperties: { type: ['string', 'null'] } } },
      [],
    ),
    Triggers: object({ id: text, triggers: { type: 'array', items: trigger } }),
    SetTriggers: object({ triggers: { type: 'array', maxItems: maxTriggers, items: trigger } }),
    Logs: object({ id: text, logs: { type: 'array', items: object(line) } }),
  }
}
