import { kvTypes } from '../../schemas/workflows/kv.ts'
import {
  body,
  failures,
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

const none = failures({ 404: 'The namespace has no such key' })
const conflicts = failures({
  409: 'The key is at another version than `version`',
  412: '`If-Match` or `If-None-Match` does not hold',
})
const header = (name: string, description: string) => ({ name, in: 'header', description, schema: text })
const etag = { ETag: { description: 'The version, in quotes', schema: text } }
const version = query('version', 'Written only at this version; 0: only when it is not there', whole)
const type = { type: 'string', enum: [...kvTypes] }
const match = header('If-Match', 'Written only at this version, `"17"`, or (`*`) when it is there')
const item = (description: string) => json(description, ref('KvItem'), etag)

export const kvOperations: Operations = {
  'GET /api/v1/kv/{namespace}': {
    summary: 'The keys of a namespace, by name',
    parameters: [query('prefix', 'What they begin with'), ...page],
    responses: { 200: list('Keys, without their values', ref('KvEntry')) },
  },
  'GET /api/v1/kv/{namespace}/{key}': { summary: 'A value', responses: { 200: item('The value'), ...none } },
  'PUT /api/v1/kv/{namespace}/{key}': {
    summary: 'Sets a value: any JSON, a text, or `{value, ttl, type, version}`',
    parameters: [
      query('ttl', 'When the body is the value: seconds, `PT1H` or `90m`'),
      query('type', 'When the body is the value: what it is', type),
      version,
      match,
      header('If-None-Match', '`*`: written only when it is not there'),
    ],
    requestBody: body({ anyOf: [ref('KvWrite'), {}] }, { types: ['application/json', 'text/plain'] }),
    responses: { 200: item('It is another value now'), 201: item('It was not there'), ...conflicts },
  },
  'DELETE /api/v1/kv/{namespace}/{key}': {
    summary: 'Deletes a key',
    parameters: [version, match],
    responses: { 204: { description: 'It is gone' }, ...none, ...conflicts },
  },
}

const entry = {
  namespace: text,
  key: text,
  type,
  version: { ...whole, description: 'Raised by every write, also after a deletion' },
  createdAt: time,
  updatedAt: time,
  expiresAt: nullable(time),
}

export const kvSchemas = {
  KvEntry: object(entry, ['namespace', 'key', 'type', 'version']),
  KvItem: object({ ...entry, value: {} }, ['namespace', 'key', 'type', 'version', 'value']),
  KvWrite: object(
    {
      value: { description: 'Any JSON, at most 64 KB' },
      ttl: { anyOf: [{ type: 'number', exclusiveMinimum: 0 }, text], description: 'Seconds, `PT1H` or `90m`' },
      type,
      version: { ...whole, description: 'Written only at this version; 0: only when it is not there' },
    },
    ['value'],
  ),
}
