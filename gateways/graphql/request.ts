import { Rejected } from '../../schemas/failure.ts'

/** The members of a GraphQL request over HTTP that we read. Source: GraphQL over HTTP, "Request Parameters". */
export interface GraphqlParameters {
  readonly query: string | null
  readonly operationName: string | null
  readonly variables: Readonly<Record<string, unknown>>
  readonly extensions: Readonly<Record<string, unknown>>
}

/** @throws {Rejected} `http/bad-request`, naming the member */
export function readParameters(content: unknown): GraphqlParameters {
  if (!isObject(content)) refuse('body', 'must be a JSON object')
  const { query = null, operationName = null, variables = null, extensions = null } = content
  if (query !== null && typeof query !== 'string') refuse('query', 'must be a string')
  if (operationName !== null && typeof operationName !== 'string') refuse('operationName', 'must be a string')
  if (variables !== null && !isObject(variables)) refuse('variables', 'must be an object')
  if (extensions !== null && !isObject(extensions)) refuse('extensions', 'must be an object')
  return { query, operationName, variables: variables ?? {}, extensions: extensions ?? {} }
}

function isObject(value: unknown): value is Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

function refuse(field: string, reason: string): never {
  throw new Rejected('http/bad-request', `${field} ${reason}`, { details: { field, reason } })
}
