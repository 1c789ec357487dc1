import { roles } from '../../schemas/workflows/role.ts'
import {
  anyObject,
  body,
  failures,
  flag,
  json,
  list,
  type Operation,
  type Operations,
  object,
  page,
  query,
  ref,
  text,
  time,
} from './openapi-parts.ts'

const role = { type: 'string', enum: [...roles] }
const password = { type: 'string', minLength: 8, maxLength: 1_024, format: 'password' }
const username = { type: 'string', pattern: '^[A-Za-z0-9][A-Za-z0-9._@+-]{0,63}$' }
const newUser = body(object({ username, password, role: { ...role, default: 'viewer' } }, ['username', 'password']))
const made = { 201: json('The user', ref('User')), ...failures({ 409: 'The name is taken' }) }
const tooMany = { 429: 'Tried too often: again after `Retry-After` seconds' }
const nobody = { description: 'Done' }
const keySet: Operation = {
  summary: 'The public keys that tokens are checked with',
  responses: { 200: json('A JWK set', object({ keys: { type: 'array', items: anyObject } })) },
}

export const userOperations: Operations = {
  'POST /auth/register': {
    summary: 'Makes a user; where strangers may register (`app.workflows.open-registration`), they become viewers',
    requestBody: newUser,
    responses: { ...made, ...failures(tooMany) },
  },
  'POST /auth/login': {
    summary: 'Signs in: a token for 15 minutes and one to refresh it with',
    requestBody: body(object({ username: text, password: text }, ['username', 'password'])),
    responses: {
      200: json('A session', ref('Session')),
      ...failures({ 401: 'User name or password is wrong', ...tooMany }),
    },
  },
  'POST /auth/refresh': {
    summary: 'Spends a refresh token for new tokens; one that is sent twice ends the session',
    requestBody: body(object({ refreshToken: text }, ['refreshToken'])),
    responses: { 200: json('The session', ref('Session')), ...failures({ 401: 'Spent, expired or unknown' }) },
  },
  'POST /auth/logout': {
    summary: 'Ends the session of the token, or of the refresh token; with `everywhere` all of the user',
    requestBody: body(object({ refreshToken: text, everywhere: flag }), { required: false }),
    responses: { 204: nobody, ...failures({ 401: 'No session' }) },
  },
  'GET /auth/me': { summary: 'Who asks', responses: { 200: json('A user', anyObject) } },
  'POST /auth/password': {
    summary: 'Another password; all sessions end, and one begins',
    requestBody: body(object({ currentPassword: text, newPassword: password }, ['currentPassword', 'newPassword'])),
    responses: {
      200: json('A session', ref('Session')),
      ...failures({ 401: 'The current password is wrong', ...tooMany }),
    },
  },
  'POST /auth/ticket': {
    summary: 'A ticket for 30 seconds that a GET takes as `?ticket=`, for clients that cannot send headers',
    responses: { 200: json('A ticket', object({ ticket: text, expiresAt: time })) },
  },
  'GET /auth/jwks.json': keySet,
  'GET /.well-known/jwks.json': keySet,
  'GET /api/v1/users': {
    summary: 'Users, newest first',
    parameters: [
      query('role', 'With this role', role),
      query('enabled', 'Or disabled', flag),
      query('q', 'In the name'),
      ...page,
    ],
    responses: { 200: list('Users', ref('User')) },
  },
  'POST /api/v1/users': { summary: 'Makes a user', requestBody: newUser, responses: made },
  'GET /api/v1/users/{username}': {
    summary: 'A user',
    responses: { 200: json('The user', ref('User')), ...failures({ 404: 'No such user' }) },
  },
  'PUT /api/v1/users/{username}': {
    summary: 'Changes what is given; a new password and `enabled: false` end all sessions',
    requestBody: body(object({ role, enabled: flag, password })),
    responses: {
      200: json('The user', ref('User')),
      ...failures({ 404: 'No such user', 409: 'The last admin stays one' }),
    },
  },
  'DELETE /api/v1/users/{username}': {
    summary: 'Deletes a user; the name is free again',
    responses: { 204: nobody, ...failures({ 404: 'No such user', 409: 'The last admin stays' }) },
  },
}

export const userSchemas = {
  User: object({ id: text, username: text, role, enabled: flag, createdAt: time, createdBy: text, updatedAt: time }, [
    'id',
    'username',
    'role',
    'enabled',
    'createdAt',
    'createdBy',
    'updatedAt',
  ]),
  Session: object(
    {
      token: { type: 'string', description: 'A JWT, ES256' },
      tokenType: { type: 'string', const: 'Bearer' },
      expiresIn: { type: 'integer', description: 'seconds' },
      expiresAt: time,
      refreshToken: text,
      username: text,
      role,
    },
    ['token', 'tokenType', 'expiresIn', 'expiresAt', 'refreshToken', 'username', 'role'],
  ),
}
