import {
  anyObject,
  body,
  failures,
  flag,
  json,
  listOf,
  none,
  nullable,
  number,
  type Operation,
  type Operations,
  object,
  once,
  otherBody,
  query,
  ref,
  text,
  texts,
  wait,
  whole,
} from './openapi-parts.ts'

const at = '/api/provision/{projectId}'
const limit = (max: number, standard: number) =>
  query('limit', 'How many at most', { ...whole, minimum: 1, maximum: max, default: standard })
const lines = query('lines', 'How many', { ...whole, minimum: 1, maximum: 5_000, default: 100 })
const readiness = object({ status: text, bus: text, worker: text })
const health: Operation = {
  summary: 'The process answers',
  responses: { 200: json('It does', object({ status: text })) },
}
const ready: Operation = {
  summary: 'It reaches the bus and a worker',
  responses: { 200: json('Both', readiness), 503: json('Not both', readiness) },
}
const enable = (summary: string): Operation => ({
  summary,
  parameters: [wait, once],
  responses: {
    200: json('It is on', object({ status: text, mode: text })),
    202: json('It is under way', ref('Instance')),
    ...none,
    ...failures({ 409: 'Another operation is under way', 422: `This kind of database cannot do it, or: ${otherBody}` }),
  },
})
const noGroup = failures({ 404: 'There is no such parameter group' })
const group = json('The group', ref('ParameterGroup'))
const groupBody = body(object({ name: text, description: text, databaseType: text, parameters: texts }))

/** What is told of instances, and what is not of one instance. */
export const insightOperations: Operations = {
  'GET /healthz': health,
  'GET /api/healthz': health,
  'GET /readyz': ready,
  'GET /api/readyz': ready,
  'GET /api/openapi.json': { summary: 'This document', responses: { 200: json('OpenAPI 3.1', anyObject) } },
  'GET /api/openapi.yaml': {
    summary: 'This document',
    responses: { 200: { description: 'OpenAPI 3.1', content: { 'application/yaml': { schema: text } } } },
  },
  [`GET ${at}/metrics/current`]: {
    summary: 'Numbers of the moment',
    responses: { 200: json('A number nobody knows is null', ref('Metrics')), ...none },
  },
  [`GET ${at}/metrics/history`]: {
    summary: 'Numbers of the last minutes, the newest last',
    parameters: [limit(100, 50)],
    responses: {
      200: json('Points', object({ projectId: text, metrics: listOf(ref('Metrics')), totalPoints: whole })),
      ...none,
    },
  },
  [`GET ${at}/metrics/stream`]: {
    summary: 'Numbers as they come, every 5 seconds: events `metrics` with the same object',
    responses: {
      200: { description: 'Server-sent events', content: { 'text/event-stream': { schema: text } } },
      ...none,
    },
  },
  [`GET ${at}/performance/summary`]: {
    summary: 'Connections, cache and statements',
    responses: {
      200: json(
        'Without query statistics `available` is false',
        object({
          activeConnections: whole,
          totalConnections: whole,
          cacheHitRatio: nullable(number),
          databaseSize: text,
          slowQueryCount: nullable(whole),
          avgQueryTimeMs: nullable(number),
          available: flag,
          unavailableReason: nullable(text),
        }),
      ),
      ...none,
    },
  },
  [`GET ${at}/performance/top-queries`]: {
    summary: 'Statements by their total time',
    parameters: [limit(100, 10)],
    responses: { 200: json('The longest first', listOf(ref('TopQuery'))), ...none },
  },
  [`GET ${at}/performance/wait-events`]: {
    summary: 'What sessions wait for',
    responses: {
      200: json('Events', listOf(object({ waitEventType: text, waitEvent: text, count: whole }))),
      ...none,
    },
  },
  [`POST ${at}/performance/enable`]: enable('Has statements counted'),
  [`POST ${at}/audit/enable`]: enable('Has statements written down'),
  [`GET ${at}/audit/logs`]: {
    summary: 'The end of the audit log',
    parameters: [lines],
    responses: { 200: json('Lines', object({ logs: text, lines: listOf(text) })), ...none },
  },
  [`GET ${at}/audit/config`]: {
    summary: 'What is written down',
    responses: {
      200: json('Settings', object({ enabled: flag, mode: nullable(text), logLevel: nullable(text), settings: texts })),
      ...none,
    },
  },
  'GET /api/alerts': {
    summary: 'Alerts that are on',
    responses: { 200: json('The newest first', listOf(ref('Alert'))) },
  },
  'GET /api/alerts/history': {
    summary: 'Alerts that are on, and that were',
    parameters: [limit(1_000, 100)],
    responses: { 200: json('The newest first', listOf(ref('Alert'))) },
  },
  'GET /api/alerts/project/{projectId}': {
    summary: 'Alerts of an instance',
    responses: { 200: json('The newest first', listOf(ref('Alert'))), ...none },
  },
  'GET /api/setup/status': {
    summary: 'Which kinds of servers there are',
    responses: {
      200: json(
        'By kind',
        object({ postgresql: flag, mysql: flag, mongodb: flag, driver: text, operators: listOf(anyObject) }),
      ),
    },
  },
  'POST /api/setup/install/{databaseType}': {
    summary: 'Brings servers of a kind',
    responses: {
      200: json('They are there', object({ status: text, type: text })),
      ...failures({ 424: 'They cannot be had; the hint says what to do' }),
    },
  },
  'GET /api/parameter-groups': {
    summary: 'Parameter groups',
    responses: { 200: json('The oldest first', listOf(ref('ParameterGroup'))) },
  },
  'POST /api/parameter-groups': {
    summary: 'Makes a parameter group',
    parameters: [once],
    requestBody: groupBody,
    responses: {
      201: group,
      ...failures({ 409: 'A group of that name exists', 422: 'The server knows no such parameter' }),
    },
  },
  'GET /api/parameter-groups/{name}': { summary: 'A parameter group', responses: { 200: group, ...noGroup } },
  'PUT /api/parameter-groups/{name}': {
    summary: 'Replaces what a group says; instances that are idle take it over at once',
    requestBody: groupBody,
    responses: { 200: group, ...noGroup, ...failures({ 422: 'The server knows no such parameter' }) },
  },
  'DELETE /api/parameter-groups/{name}': {
    summary: 'Deletes a group that no instance uses',
    responses: {
      200: json('It is gone', object({ status: text })),
      ...noGroup,
      ...failures({ 409: 'Instances use it' }),
    },
  },
}
