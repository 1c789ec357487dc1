import { isJsonText } from '../data/filter-value.ts'
import { type Operation, readOperation } from './execute.ts'
import type { GraphqlService } from './handler.ts'
import { readParameters, refuseMember } from './request.ts'
import type { SchemaState } from './schema-state.ts'
import { RequestErrors } from './subscription-plan.ts'

/**
 * The operation that a request names.
 * @throws {RequestErrors | Rejected}
 */
export function operationOf(service: GraphqlService, state: SchemaState, content: unknown): Operation {
  const parameters = readParameters(content)
  const read = service.persisted.read(parameters, state.documents)
  const operation = readOperation(state, read, parameters.operationName, parameters.variables)
  if ('errors' in operation) throw new RequestErrors(operation.errors)
  return operation
}

/** The members of a request as parameters of a URL. @throws {Rejected} `http/bad-request` */
export function contentOfUrl(parameters: URLSearchParams): Readonly<Record<string, unknown>> {
  const text = (name: string) => parameters.get(name)
  const json = (name: string): unknown => {
    const value = text(name)
    if (value === null || value === '') return null
    return isJsonText(value) ? JSON.parse(value) : refuseMember(name, 'is not JSON')
  }
  return {
    query: text('query'),
    documentId: text('documentId'),
    operationName: text('operationName') || null,
    variables: json('variables'),
    extensions: json('extensions'),
  }
}
