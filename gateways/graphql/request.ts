import { Rejected } from '../../schemas/failure.ts'

/** The members of a GraphQL request over HTTP that we read. Source: GraphQL over HTTP, "Request Parameters". */
export interface GraphqlParameters {
  readonly query: string | null
  /** Of a persisted document. */
  readonly documentId: string | null
  readonly operationName: string | null
  readonly variables: Readonly<Record<string, unknown>>
  readonly extensions: Readonly<Record<string, unknown>>
}

/** @throws {Rejected} `http/bad-request`, naming the member */
export function readParameters(content: unknown): GraphqlParameters {
  if (!isObject(content)) refuseMember('body', 'must be a JSON object')
  const { query = null, documentId = null, operationName = null, variables = null, extensions = null } = content
  if (query !== null && typeof query !== 'string') refuseMember('query', 'must be a string')
  if (documentId !== null && typeof documentId !== 'string') refuseMember('documentId', 'must be a string')
  if (operationName !== null && typeof operationName !== 'string') refuseMember('operationName', 'must be a string')
  if (variables !== null && !isObject(variables)) refuseMember('variables', 'must be an object')
  if (extensions !== null && !isObject(extensions)) refuseMember('extensions', 'must be an object')
  return { query, documentId, operationName, variables: variables ?? {}, extensions: extensions ?? {} }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

/** @throws {Rejected} `http/bad-request` */
export function refuseMember(field: string, reason: string): never {
  throw new Rejected('http/bad-request', `${field} ${reason}`, { details: { field, reason } })
}
