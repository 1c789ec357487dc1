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

const none = failures({ 404: 'There is no such credential' })
const taken = failures({
  409: 'The namespace has a credential of that name, or there are too many',
  501: 'The platform has no keys',
})
const credential = json('The credential, without its data', ref('Credential'))

export const credentialOperations: Operations = {
  'GET /api/v1/credentials': {
    summary: 'Credentials, newest first, without their data',
    parameters: [
      query('namespace', 'Of this namespace'),
      query('type', 'Of this type'),
      query('q', 'In the name or the description'),
      ...page,
    ],
    responses: { 200: list('Credentials', ref('Credential')) },
  },
  'POST /api/v1/credentials': {
    summary: 'Makes a credential, which tasks use as `${NAME}` or `${NAME.field}`',
    requestBody: body({ allOf: [ref('CredentialDraft'), { required: ['name', 'data'] }] }),
    responses: { 201: credential, ...taken },
  },
  'GET /api/v1/credentials/{id}': {
    summary: 'A credential, without its data',
    responses: { 200: credential, ...none },
  },
  'PUT /api/v1/credentials/{id}': {
    summary: 'Changes it; what is left out stays',
    requestBody: body(ref('CredentialDraft')),
    responses: { 200: credential, ...none, ...taken },
  },
  'DELETE /api/v1/credentials/{id}': {
    summary: 'Deletes it; tasks that ask for it fail',
    responses: { 204: { description: 'It is gone' }, ...none },
  },
}

const told = {
  namespace: text,
  name: { type: 'string', pattern: '^[A-Z][A-Z0-9_]{0,99}$' },
  type: { type: 'string', default: 'generic' },
  description: { type: 'string', maxLength: 1_000 },
}

export const credentialSchemas = {
  CredentialDraft: object({
    ...told,
    data: {
      description: 'A text, or texts by field; nobody can read it again',
      anyOf: [text, { type: 'object', additionalProperties: text, maxProperties: 64 }],
      writeOnly: true,
    },
  }),
  Credential: object(
    {
      id: text,
      ...told,
      fields: nullable({ type: 'array', items: text }),
      version: whole,
      createdAt: time,
      createdBy: text,
      updatedAt: time,
    },
    ['id', 'namespace', 'name', 'type'],
  ),
}
