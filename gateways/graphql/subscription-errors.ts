import { GraphQLError } from 'graphql'
import { fieldError } from './errors.ts'
import { RequestErrors } from './subscription-plan.ts'

/** What a client is told of an operation that does not begin or cannot go on. */
export function errorsOf(
  error: unknown,
  requestId: string,
): { readonly errors: readonly object[]; readonly status: number; readonly fault: boolean } {
  if (error instanceof RequestErrors) return { errors: error.errors, status: 400, fault: false }
  if (error instanceof GraphQLError) return { errors: [error], status: 400, fault: false }
  const { formatted, fault } = fieldError(error, [], requestId)
  const { message, extensions } = formatted
  const { status } = extensions as { readonly status: number }
  return { errors: [{ message, extensions }], status, fault }
}
