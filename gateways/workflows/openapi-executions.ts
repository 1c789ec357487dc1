import {
  anyObject,
  body,
  failures,
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
  whole,
} from './openapi-parts.ts'

const none = failures({ 404: 'There is no such execution' })
const status = {
  type: 'string',
  enum: ['QUEUED', 'RUNNING', 'PAUSED', 'SUCCESS', 'FAILED', 'CANCELLED', 'TIMED_OUT'],
}
const change = (summary: string): Operation => ({
  summary,
  responses: {
    200: json('Its status from now on', object({ executionId: text, status })),
    ...none,
    ...failures({ 409: 'It has ended, or is not in a state for that' }),
  },
})
const again = (summary: string, members: Readonly<Record<string, object>> = {}): Operation => ({
  summary,
  parameters: [{ name: 'Idempotency-Key', in: 'header', schema: text }],
  requestBody: body(object(members), { required: false }),
  responses: { 202: json('Another execution', ref('Accepted')), ...none, ...failures({ 409: 'It has not ended' }) },
})
const decision = (summary: string): Operation => ({
  summary,
  requestBody: body(object({ comment: text }), { required: false }),
  responses: {
    200: json('The gate', ref('Approval')),
    ...failures({ 403: 'The gate is for another role', 404: 'There is no such approval', 409: 'It is decided' }),
  },
})
const fromTask = { ...text, description: 'Its name, or the `run` of a task in an iteration: `orders[2].pay`' }
const revision = { description: '`original`, or `latest`', type: 'string' }

export const executionOperations: Operations = {
  'GET /api/v1/executions': {
    summary: 'Executions, newest first',
    parameters: [
      query('namespace', 'Of this namespace'),
      query('flowId', 'Of this flow'),
      query('status', 'Several with commas'),
      query('from', 'Created at or after', time),
      query('to', 'Created before', time),
      query('label', '`name:value`, several with commas'),
      query('q', "In the id, the flow's name or the failure"),
      query('relatedTo', 'Sub-flows and repetitions of this execution'),
      ...page,
    ],
    responses: { 200: list('Executions', ref('Execution')) },
  },
  'GET /api/v1/executions/{id}': {
    summary: 'An execution with its task results',
    parameters: [query('limit', 'Of the tasks', whole), query('offset', 'Of the tasks', whole)],
    responses: {
      200: json('It', object({ execution: ref('Execution'), tasks: { type: 'array', items: ref('TaskResult') } })),
      ...none,
    },
  },
  'GET /api/v1/executions/{id}/tasks/{run}/outputs': {
    summary: 'The outputs of a task run, however large',
    responses: { 200: json('JSON', {}), ...none },
  },
  'GET /api/v1/executions/{id}/events': {
    summary: 'What happened, or with `at` the state behind a message',
    parameters: [
      query('at', 'A sequence', whole),
      query('after', 'A sequence', whole),
      query('limit', 'At most', whole),
    ],
    responses: { 200: json('Messages with their facts', {}), ...none },
  },
  'GET /api/v1/executions/{id}/logs': {
    summary: 'The log: over a WebSocket and as server-sent events to the end, else what there is',
    parameters: [
      query('level', 'The least: `debug`, `info`, `warn` or `error`'),
      query('task', 'Of this task'),
      query('format', '`json`, or `text` to download'),
    ],
    responses: {
      200: {
        description: 'Lines',
        content: {
          'application/json': { schema: { type: 'array', items: anyObject } },
          'text/event-stream': { schema: text },
          'text/plain': { schema: text },
        },
      },
      ...none,
    },
  },
  'POST /api/v1/executions/{id}/cancel': change('Cancels it; `finally` still runs'),
  'POST /api/v1/executions/{id}/kill': change('Ends it at once'),
  'POST /api/v1/executions/{id}/pause': change('Starts no more tasks'),
  'POST /api/v1/executions/{id}/resume': change('Goes on'),
  'POST /api/v1/executions/{id}/retry': again('Runs what has not succeeded, as another execution'),
  'POST /api/v1/executions/{id}/restart': again('Runs it from a task on', { fromTask, revision }),
  'POST /api/v1/executions/{id}/replay': again('Runs all of it, with other inputs', { inputs: anyObject, revision }),
  'GET /api/v1/approvals': {
    summary: 'Gates at which executions ask somebody, newest first',
    parameters: [
      query('status', 'PENDING and so on'),
      query('executionId', 'Of this execution'),
      query('namespace', 'Of executions in this namespace'),
      query('flowId', 'Of executions of this flow'),
      query('from', 'Asked at or after', time),
      query('to', 'Asked before', time),
      query('q', 'In the name of the task or what it asks'),
      ...page,
    ],
    responses: { 200: list('Approvals', ref('Approval')) },
  },
  'GET /api/v1/approvals/{id}': {
    summary: 'A gate',
    responses: { 200: json('It', ref('Approval')), ...failures({ 404: 'There is no such approval' }) },
  },
  'POST /api/v1/approvals/{id}/approve': decision('Lets the execution go on'),
  'POST /api/v1/approvals/{id}/reject': decision('Fails the task'),
}

const largeOnes = 'In lists those over 4 KB are `{truncated: true, sizeBytes}`'

export const executionSchemas = {
  Execution: object(
    {
      id: text,
      flowId: text,
      flowName: text,
      namespace: text,
      revision: whole,
      status,
      tasksTotal: whole,
      tasksExecuted: whole,
      inputs: { ...anyObject, description: largeOnes },
      outputs: nullable({ ...text, description: `JSON text. ${largeOnes}` }),
      trigger: { ...anyObject, description: largeOnes },
      error: nullable(text),
      labels: anyObject,
      createdAt: time,
      startedAt: nullable(time),
      finishedAt: nullable(time),
      durationMs: nullable(whole),
    },
    ['id', 'flowId', 'status', 'tasksTotal', 'tasksExecuted'],
  ),
  TaskResult: object({
    taskName: text,
    taskType: text,
    status: text,
    attempt: whole,
    outputs: nullable({ ...text, description: 'JSON text' }),
    error: nullable(text),
    startedAt: nullable(time),
    finishedAt: nullable(time),
  }),
  Approval: object({
    id: text,
    executionId: text,
    taskName: text,
    status: { type: 'string', enum: ['PENDING', 'APPROVED', 'REJECTED', 'EXPIRED'] },
    message: text,
    role: text,
    requestedAt: time,
    expiresAt: nullable(time),
    decidedBy: nullable(text),
    decidedAt: nullable(time),
    comment: nullable(text),
  }),
}
