import {
  anyObject,
  failures,
  json,
  list,
  type Operation,
  type Operations,
  object,
  query,
  ref,
  text,
  whole,
} from './openapi-parts.ts'

const state = { type: 'string', enum: ['ok', 'away'] }
const projection = { type: 'string', enum: ['ok', 'away', 'behind'] }
const readiness = object({ status: text, database: state, bus: state, projection })
const health: Operation = {
  summary: 'The process answers',
  responses: { 200: json('It does', object({ status: text })) },
}
const ready: Operation = {
  summary: 'It reaches the database and the bus, and the read models follow',
  responses: { 200: json('All of it', readiness), 503: json('Not all of it', readiness) },
}
const metrics: Operation = {
  summary: 'Metrics for Prometheus',
  responses: { 200: { description: 'Text format 0.0.4', content: { 'text/plain': { schema: text } } } },
}

export const serviceOperations: Operations = {
  'GET /healthz': health,
  'GET /api/v1/healthz': health,
  'GET /readyz': ready,
  'GET /api/v1/readyz': ready,
  'GET /metrics': metrics,
  'GET /api/v1/metrics': metrics,
  'GET /api/v1/openapi.json': { summary: 'This document', responses: { 200: json('OpenAPI 3.1', anyObject) } },
  'GET /api/v1/openapi.yaml': {
    summary: 'This document',
    responses: { 200: { description: 'OpenAPI 3.1', content: { 'application/yaml': { schema: text } } } },
  },
  'GET /api/v1/plugins': {
    summary: 'What flows can be made of',
    parameters: [
      query('q', 'Words, anywhere in what it says of itself'),
      query('category', 'Of this category'),
      query('limit', 'How many at most; default all', { type: 'integer', minimum: 1, maximum: 1_000 }),
      query('cursor', 'Where the page before ended: from its `Link` header'),
    ],
    responses: { 200: list('Manifests, by id', ref('Plugin')) },
  },
  'GET /api/v1/plugins/categories': {
    summary: 'Categories, and how many plugins each has',
    responses: { 200: json('Categories', { type: 'array', items: object({ name: text, count: whole }) }) },
  },
  'GET /api/v1/plugins/{id}': {
    summary: 'A plugin, by its id or another spelling of it',
    responses: { 200: json('Its manifest', ref('Plugin')), ...failures({ 404: 'No worker offers it' }) },
  },
}

export const serviceSchemas = {
  Plugin: object(
    {
      id: text,
      name: text,
      category: text,
      description: text,
      inputSchema: anyObject,
      outputSchema: anyObject,
      example: text,
      needs: { type: ['string', 'null'] },
      effect: { type: 'string', enum: ['pure', 'idempotent', 'once'] },
      control: { type: 'boolean' },
      blocks: { type: 'array', items: text },
    },
    ['id', 'name', 'category', 'description', 'inputSchema', 'outputSchema', 'example', 'needs', 'effect', 'control'],
  ),
  Error: object({ error: text, code: text, details: {}, hint: {}, requestId: text }, ['error', 'code', 'requestId']),
}
