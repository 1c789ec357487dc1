import type { GraphQLFormattedError } from 'graphql'
import { GraphQLError } from 'graphql'
import { failureOf } from '../http/failure-reply.ts'

/** The error of a field, with the code of the registry; nothing of ours leaks. */
export function fieldError(
  error: unknown,
  path: readonly (string | number)[],
  requestId: string,
): { readonly formatted: GraphQLFormattedError; readonly fault: boolean } {
  if (error instanceof GraphQLError) return { formatted: { ...error.toJSON(), path }, fault: false }
  const { code, text, details, hint, fault, status } = failureOf(error)
  const sqlstate =
    typeof details === 'object' && details !== null && 'sqlstate' in details ? { sqlstate: details.sqlstate } : {}
  const extensions = {
    code,
    status,
    ...sqlstate,
    ...(details === undefined ? {} : { details }),
    ...(hint === undefined ? {} : { hint }),
    requestId,
  }
  return { formatted: { message: text, path, extensions }, fault }
}
