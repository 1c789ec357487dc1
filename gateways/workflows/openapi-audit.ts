import {
  failures,
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

const status = { type: 'string', enum: ['SUCCESS', 'FAILED', 'DENIED'] }
const filters = [
  query('username', 'Who'),
  query('action', '`flow.create`, or `flow.*` for all of a kind'),
  query('resourceType', 'What kind of thing: `flow`, `execution`, `user` …'),
  query('resourceId', 'Which one'),
  query('status', 'What became of it', status),
  query('ip', 'From where'),
  query('from', 'Not before this time', time),
  query('to', 'Before this time', time),
]

export const auditOperations: Operations = {
  'GET /api/v1/audit': {
    summary: 'Who has commanded what, newest first',
    parameters: [...filters, ...page],
    responses: { 200: list('Entries', ref('AuditEntry')) },
  },
  'GET /api/v1/audit/export': {
    summary: 'All entries that a filter finds, newest first, to download',
    parameters: [...filters, query('format', 'Default `ndjson`', { type: 'string', enum: ['ndjson', 'csv'] })],
    responses: {
      200: {
        description: 'One entry a line',
        content: { 'application/x-ndjson': { schema: text }, 'text/csv': { schema: text } },
      },
      ...failures({ 429: 'As many exports as may be are under way' }),
    },
  },
}

export const auditSchemas = {
  AuditEntry: object(
    {
      id: text,
      number: { ...whole, description: 'Its place in the chain' },
      timestamp: time,
      username: text,
      role: nullable(text),
      action: text,
      resourceType: text,
      resourceId: nullable(text),
      status,
      statusCode: nullable(whole),
      error: nullable(text),
      ip: nullable(text),
      requestId: nullable(text),
      hash: { type: 'string', description: 'SHA-256 over the entry and the hash of the one before, hex' },
    },
    ['id', 'number', 'timestamp', 'username', 'action', 'resourceType', 'resourceId', 'status', 'ip', 'hash'],
  ),
}
