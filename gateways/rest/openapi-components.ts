import { ChangeEvent } from '../../schemas/data/change.ts'
import { dataErrors } from '../../schemas/data/errors.ts'
import type { ErrorCode } from '../../schemas/errors.ts'
import { httpErrors } from '../../schemas/http/errors.ts'
import { definitionExample, definitionSchema, tableListSchema, typeDefinitionSchema } from './openapi-describe.ts'
import { type Json, optional } from './openapi-types.ts'

export interface Limits {
  readonly maxPageSize: number
  readonly defaultPageSize: number
}

const codes = { ...httpErrors, ...dataErrors }

/** Schemas that every document has. */
export const fixedSchemas = {
  Error: {
    type: 'object',
    description: 'Every error has this shape.',
    required: ['error', 'code', 'details', 'hint', 'requestId'],
    properties: {
      error: { type: 'string', description: 'What was wrong, for a person.' },
      code: {
        type: 'string',
        enum: Object.keys(codes),
        description: Object.entries(codes)
          .map(([code, { status, meaning }]) => `- \`${code}\` (${status}): ${meaning}`)
          .join('\n'),
      },
      details: { description: "What exactly, for a program: field, column, the database's own message and SQLSTATE." },
      hint: { type: ['string', 'null'], description: 'What can be done about it.' },
      requestId: { type: 'string', description: 'Finds the request in the log.' },
    },
    examples: [errorExample('data/unknown-column')],
  },
  Pagination: {
    type: 'object',
    required: ['offset', 'limit', 'hasMore'],
    properties: {
      total: { type: 'integer', format: 'int64', description: 'All rows that match. Only with `Prefer: count=exact`.' },
      offset: { type: 'integer', description: 'The offset used; 0 when paging with cursors.' },
      limit: { type: 'integer', description: 'The limit used: a larger one is lowered to the maximum.' },
      hasMore: { type: 'boolean', description: 'Whether more rows follow.' },
      hasPrevious: { type: 'boolean', description: 'Whether rows come before these. Only when paging with cursors.' },
      startCursor: { type: ['string', 'null'], description: 'For `before`. Only when paging with cursors.' },
      endCursor: { type: ['string', 'null'], description: 'For `after`. Only when paging with cursors.' },
    },
    examples: [{ offset: 0, limit: 100, hasMore: false }],
  },
  Selection: {
    type: 'object',
    description: 'With `select`, `expand` or aggregates: the properties that were asked for.',
    examples: [{ count: 3 }],
  },
  ChangeEvent: {
    ...(JSON.parse(JSON.stringify(ChangeEvent)) as Json),
    description: 'A change of a row, the same over SSE and WebSocket.',
    examples: [
      {
        type: 'UPDATE',
        schema: 'public',
        table: 'film',
        data: { old: { id: 1 }, new: { id: 1 } },
        timestamp: 1_700_000_000_000,
      },
    ],
  },
  ChangeStream: {
    type: 'string',
    description: 'Server-sent events; the data of each is a ChangeEvent.',
    contentMediaType: 'application/json',
    contentSchema: { $ref: '#/components/schemas/ChangeEvent' },
  },
  TableList: tableListSchema,
  TableDefinition: definitionSchema,
  TypeDefinition: typeDefinitionSchema,
} as const satisfies Readonly<Record<string, Json>>

function errorExample(code: ErrorCode): Json {
  const { meaning } = (codes as Readonly<Record<string, { readonly meaning: string }>>)[code]!
  return { error: meaning, code, details: null, hint: null, requestId: '5f0c1a8e-6f0f-4a3c-9a55-0b8f6f1f2f11' }
}

const failures = {
  BadRequest: [400, 'data/invalid-filter', 'A parameter, header or the body cannot be used.'],
  Unauthorized: [401, 'http/unauthorized', 'A token is missing, invalid or expired.'],
  Forbidden: [403, 'data/forbidden', 'The database role may not do this.'],
  NotFound: [404, 'data/row-not-found', 'There is no such row, or no such table.'],
  NotAcceptable: [406, 'http/not-acceptable', 'None of the accepted media types can be produced.'],
  Conflict: [409, 'data/conflict', 'A unique, foreign key or exclusion constraint refuses the write.'],
  PreconditionFailed: [412, 'data/precondition-failed', 'If-Match does not match the row as it is now.'],
  PayloadTooLarge: [413, 'http/payload-too-large', 'The body is larger than the limit.'],
  UnsupportedMediaType: [415, 'http/unsupported-media-type', 'The body is not JSON.'],
  IdempotencyMismatch: [422, 'data/idempotency-mismatch', 'The Idempotency-Key was used before with another request.'],
  TooManyRequests: [429, 'http/too-many-requests', 'A limit on requests or connections is reached.'],
  Unavailable: [503, 'data/database-unavailable', 'A part the request needs is away; try again after Retry-After.'],
} as const satisfies Readonly<Record<string, readonly [number, ErrorCode, string]>>

export type FailureName = keyof typeof failures

/** Responses of an operation for what can go wrong, by status. */
export function failureResponses(names: readonly FailureName[]): Json {
  return Object.fromEntries(
    names
      .toSorted((a, b) => failures[a][0] - failures[b][0])
      .map((name) => [String(failures[name][0]), { $ref: `#/components/responses/${name}` }]),
  )
}

export function fixedResponses(): Readonly<Record<string, Json>> {
  return Object.fromEntries([
    ['TableDefinition', definitionResponse],
    ['NotModified', notModified],
    ['Done', done],
    ...Object.entries(failures).map(([name, [status, code, description]]) => [
      name,
      {
        description,
        ...(status === 503 ? { headers: { 'Retry-After': { $ref: '#/components/headers/RetryAfter' } } } : {}),
        content: {
          'application/json': { schema: { $ref: '#/components/schemas/Error' }, example: errorExample(code) },
        },
      },
    ]),
  ])
}

const notModified: Json = {
  description: 'The answer is the one the client has.',
  headers: { ETag: { $ref: '#/components/headers/ETag' } },
}

const done: Json = {
  description: 'Done, without the rows; as `Prefer: return=` asks, and by default after a deletion.',
  headers: {
    'Preference-Applied': { $ref: '#/components/headers/PreferenceApplied' },
    'Idempotency-Replayed': { $ref: '#/components/headers/IdempotencyReplayed' },
  },
}

const definitionResponse: Json = {
  description: 'The definition.',
  headers: { ETag: { $ref: '#/components/headers/ETag' } },
  content: {
    'application/json': { schema: { $ref: '#/components/schemas/TableDefinition' }, example: definitionExample },
  },
}

const header = (description: string, example: unknown, type = 'string'): Json => ({
  description,
  schema: { type },
  example,
})

export const fixedHeaders = {
  ETag: header('Digest of the answer, for If-None-Match and If-Match.', '"9e107d9d372bb6826bd81d3542a419d6"'),
  Location: header('Where the new row is.', '/api/v1/film/1'),
  ContentRange: header('Positions of the rows and, with count=exact, how many there are.', '0-24/573'),
  PreferenceApplied: header('The preferences that were followed.', 'count=exact'),
  IdempotencyReplayed: header('`true` when this is the stored answer to an earlier request.', 'true'),
  RetryAfter: header('Seconds to wait.', 1, 'integer'),
} as const satisfies Readonly<Record<string, Json>>

export type HeaderName = keyof typeof fixedHeaders

const httpNames: Readonly<Record<HeaderName, string>> = {
  ETag: 'ETag',
  Location: 'Location',
  ContentRange: 'Content-Range',
  PreferenceApplied: 'Preference-Applied',
  IdempotencyReplayed: 'Idempotency-Replayed',
  RetryAfter: 'Retry-After',
}

export function headerReferences(names: readonly HeaderName[]): Json {
  return Object.fromEntries(names.map((name) => [httpNames[name], { $ref: `#/components/headers/${name}` }]))
}

const text: Json = { type: 'string' }

function query(name: string, description: string, schema: Json, example?: unknown): Json {
  return optional('query', name, description, schema, example)
}

function headerParameter(name: string, description: string, example: string): Json {
  return optional('header', name, description, text, example)
}

/** Parameters that are the same for all tables. */
export function fixedParameters({ maxPageSize, defaultPageSize }: Limits): Readonly<Record<string, Json>> {
  const count: Json = { type: 'integer', minimum: 0, maximum: maxPageSize }
  const direction = '^\\s*(asc|desc)(\\s*,\\s*(asc|desc))*\\s*$'
  return {
    limit: query(
      'limit',
      `Rows to return; more than ${maxPageSize} is lowered to ${maxPageSize}.`,
      { ...count, default: defaultPageSize },
      10,
    ),
    offset: query('offset', 'Rows to skip.', { type: 'integer', minimum: 0 }, 0),
    orderDirection: query(
      'orderDirection',
      'Direction of `orderBy`: one for all columns, or one for each between commas. Ascending unless given.',
      { type: 'string', pattern: direction },
      'asc',
    ),
    first: query('first', 'Cursor paging: this many rows after `after`, or from the start.', count, 10),
    after: query('after', 'Cursor paging: `pagination.endCursor` of the page before.', { type: 'string' }),
    last: query('last', 'Cursor paging: this many rows before `before`, or from the end.', count, 10),
    before: query(
      'before',
      'Cursor paging: `pagination.startCursor` of the page after.',
      { type: 'string' },
      undefined,
    ),
    having: query(
      'having',
      'Conditions on the results of aggregates, written as in `and`; counts with aggregates in `select`.',
      { type: 'string' },
      undefined,
    ),
    types: query(
      'types',
      'Kinds of changes, between commas: INSERT, UPDATE, DELETE, TRUNCATE. All unless given.',
      { type: 'string' },
      'INSERT,UPDATE',
    ),
    from: query(
      'from',
      'Begins in the past: at a position of the stream, or at an ISO 8601 time.',
      { type: 'string' },
      '2024-02-29T12:30:00Z',
    ),
    resume: query(
      'resume',
      '`true`: events have ids, and a client that reconnects goes on where it was.',
      { type: 'boolean' },
      true,
    ),
    snapshot: query(
      'snapshot',
      '`true`: the rows first, and then every change since, without a hole.',
      { type: 'boolean' },
      true,
    ),
    lastEventId: headerParameter('Last-Event-ID', 'Sent by clients that reconnect; counts with `resume`.', '1042'),
    preferRead: headerParameter('Prefer', '`count=exact` adds `pagination.total`.', 'count=exact'),
    preferWrite: headerParameter(
      'Prefer',
      '`return=representation`, `return=minimal` or `return=headers-only`.',
      'return=representation',
    ),
    preferInsert: headerParameter(
      'Prefer',
      '`resolution=merge-duplicates` updates rows that are there already, `resolution=ignore-duplicates` leaves them; `return=representation`, `return=minimal` or `return=headers-only`.',
      'return=representation',
    ),
    ifNoneMatch: headerParameter(
      'If-None-Match',
      'Answers 304 when the ETag is still this.',
      '"9e107d9d372bb6826bd81d3542a419d6"',
    ),
    ifMatch: headerParameter(
      'If-Match',
      'Writes only when the row still has this ETag.',
      '"9e107d9d372bb6826bd81d3542a419d6"',
    ),
    idempotencyKey: headerParameter(
      'Idempotency-Key',
      'A text of yours, 255 characters at most: the same request with the same key is done once, and answered alike.',
      '3f1a7c0e-order-17',
    ),
  }
}

export function parameterReferences(names: readonly string[]): Json[] {
  return names.map((name) => ({ $ref: `#/components/parameters/${name}` }))
}
