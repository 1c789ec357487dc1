import {
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
  'GET /api/v1/audit/verify': {
    summary: 'Walks the chain of hashes; with a cursor it goes on where an answer ended',
    parameters: [
      query('head', '`<number>:<hash>` of an entry that must be there, noted elsewhere'),
      query('limit', 'How many messages of the stream at most, each with up to a hundred entries', {
        type: 'integer',
        minimum: 1,
        maximum: 100_000,
        default: 10_000,
      }),
      query('cursor', 'Where the answer before ended'),
    ],
    responses: {
      200: json('What was found', ref('AuditReport')),
      ...failures({ 429: 'As many walks as may be are under way' }),
    },
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
  AuditReport: object(
    {
      valid: { ...flag, description: 'Whether all that was checked is as it was written' },
      checked: { ...whole, description: 'How many entries this answer has checked' },
      first: { ...whole, description: 'Number of the first of them' },
      head: { ...text, description: 'The last one that is whole, `<number>:<hash>`: to be noted elsewhere' },
      firstBroken: nullable(
        object({
          number: { ...whole, description: 'Of the entry that was to be there' },
          sequence: { ...whole, description: 'Of the message in EVT_AUDIT' },
          reason: text,
        }),
      ),
      complete: { ...flag, description: 'Whether the end of the chain was reached' },
      cursor: nullable(text),
    },
    ['valid', 'checked', 'firstBroken', 'complete', 'cursor'],
  ),
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
