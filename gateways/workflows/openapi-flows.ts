import { yamlTypes } from './flow-text.ts'
import {
  anyObject,
  body,
  failures,
  flag,
  json,
  list,
  nullable,
  type Operations,
  object,
  page,
  query,
  ref,
  text,
  time,
  whole,
} from './openapi-parts.ts'

const noFlow = failures({ 404: 'There is no such flow' })
const flow = json('The flow', ref('Flow'))
const draft = body(ref('FlowDraft'), { types: ['application/json', ...yamlTypes] })
const saving = failures({
  400: 'The flow has mistakes; `details.errors` lists them',
  409: 'The namespace has a flow of that name',
})

export const flowOperations: Operations = {
  'GET /api/v1/flows': {
    summary: 'Flows, newest first',
    parameters: [
      query('namespace', 'Of this namespace'),
      query('enabled', 'Whether they are enabled', flag),
      query('label', '`name:value`, several with commas'),
      query('q', 'In the name or the YAML'),
      ...page,
    ],
    responses: { 200: list('Flows', ref('Flow')) },
  },
  'POST /api/v1/flows': { summary: 'Creates a flow', requestBody: draft, responses: { 201: flow, ...saving } },
  'GET /api/v1/flows/schema.json': {
    summary: 'The flow language as JSON Schema, with the plugins there are: for editors',
    responses: {
      200: { description: 'JSON Schema 2020-12', content: { 'application/schema+json': { schema: anyObject } } },
    },
  },
  'POST /api/v1/flows/validate': {
    summary: 'Every mistake of a YAML text',
    requestBody: body(object({ yamlContent: text }, ['yamlContent']), { types: ['application/json', ...yamlTypes] }),
    responses: {
      200: json(
        'What is wrong',
        object(
          {
            valid: flag,
            errors: { type: 'array', items: ref('FlowProblem') },
            warnings: {
              type: 'array',
              items: object({ path: text, message: text }),
              description: 'Credentials that are not there, or are not opened where they are named; absent: none',
            },
          },
          ['valid', 'errors'],
        ),
      ),
    },
  },
  'POST /api/v1/flows/import': {
    summary: 'Creates a flow out of an export',
    parameters: [query('overwrite', 'Revises the flow of that name where there is one', flag)],
    requestBody: body(ref('FlowExport')),
    responses: { 200: json('The flow that was there, revised', ref('Flow')), 201: flow, ...saving },
  },
  'GET /api/v1/flows/{id}': { summary: 'A flow', responses: { 200: flow, ...noFlow } },
  'PUT /api/v1/flows/{id}': {
    summary: 'Changes a flow: a text that differs is its next revision, what is left out stays',
    requestBody: draft,
    responses: { 200: flow, ...saving, ...noFlow },
  },
  'DELETE /api/v1/flows/{id}': {
    summary: 'Deletes a flow; executions that are under way end as they would',
    responses: { 204: { description: 'Deleted' }, ...noFlow },
  },
  'POST /api/v1/flows/{id}/enable': { summary: 'Lets it start executions', responses: { 200: flow, ...noFlow } },
  'POST /api/v1/flows/{id}/disable': { summary: 'Starts no more executions', responses: { 200: flow, ...noFlow } },
  'GET /api/v1/flows/{id}/export': {
    summary: 'A flow as JSON that can be imported',
    responses: { 200: json('The export', ref('FlowExport')), ...noFlow },
  },
  'GET /api/v1/flows/{id}/revisions': {
    summary: 'Its revisions, newest first',
    parameters: page,
    responses: { 200: list('Revisions', ref('FlowRevision')), ...noFlow },
  },
  'GET /api/v1/flows/{id}/revisions/{rev}': {
    summary: 'One revision',
    responses: { 200: json('The revision', ref('FlowRevision')), ...noFlow },
  },
  'GET /api/v1/flows/{id}/revisions/{rev}/diff': {
    summary: 'What a revision changed',
    parameters: [query('from', 'Compared with this one; without it the one before', whole)],
    responses: {
      200: { description: 'Unified diff, empty for equal texts', content: { 'text/x-diff': { schema: text } } },
      ...noFlow,
    },
  },
  'POST /api/v1/flows/{id}/revisions/{rev}/restore': {
    summary: 'Makes the text of a revision the newest one',
    responses: { 200: flow, ...saving, ...noFlow },
  },
  'POST /api/v1/flows/{id}/execute': {
    summary:
      'Starts an execution. With `Idempotency-Key` or an `executionId` it is started once, however often it is asked for',
    parameters: [
      query('wait', 'Answers when it has ended, or after this many seconds', { ...whole, maximum: 300 }),
      { name: 'Idempotency-Key', in: 'header', schema: { ...text, maxLength: 255 } },
    ],
    requestBody: body(object({ inputs: anyObject, labels: anyObject, executionId: text }), { required: false }),
    responses: {
      200: json('Accepted, or with `wait` its end', ref('Accepted')),
      ...failures({
        400: 'An input is missing, unknown or of the wrong type',
        409: 'The flow is disabled, or the id is taken',
      }),
      ...noFlow,
    },
  },
}

const listedText = nullable({ ...text, description: 'Null only in lists, when it has more than 16 KB' })
const cut = { truncated: flag, sizeBytes: whole }

export const flowSchemas = {
  Flow: object(
    {
      id: text,
      name: text,
      namespace: text,
      revision: whole,
      yamlContent: listedText,
      ...cut,
      labels: anyObject,
      enabled: flag,
      createdAt: time,
      createdBy: text,
      updatedAt: time,
    },
    ['id', 'name', 'namespace', 'yamlContent', 'createdAt', 'updatedAt'],
  ),
  FlowDraft: object({ name: text, namespace: text, yamlContent: text }),
  FlowExport: object(
    { version: whole, name: text, namespace: text, yamlContent: text, revision: whole, exportedAt: time },
    ['yamlContent'],
  ),
  FlowRevision: object({
    flowId: text,
    revision: whole,
    name: text,
    namespace: text,
    yamlContent: listedText,
    ...cut,
    createdAt: time,
    createdBy: text,
    restoredFrom: nullable(whole),
  }),
  FlowProblem: object({ path: text, line: whole, column: whole, message: text }, ['path', 'line', 'column', 'message']),
  Accepted: object(
    { executionId: text, status: text, tasksTotal: whole, outputs: nullable(text), error: nullable(text) },
    ['executionId', 'status', 'tasksTotal'],
  ),
}
