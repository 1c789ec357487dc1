import { Rejected, Unavailable } from '../../schemas/failure.ts'
import type { Call } from './postgres-attempt.ts'
import { maxParameters } from './postgres-bundle.ts'
import { translateDatabaseError } from './postgres-errors.ts'
import type { CallContext, Parameter } from './statement.ts'

export function refuse(parameters: readonly Parameter[], context: CallContext): Rejected | null {
  if (parameters.length > maxParameters) {
    return new Rejected('data/too-complex', `The request needs more than ${maxParameters} parameters`)
  }
  // To the database `none` is no role but the way back to the login role.
  if (context.role === 'none' || context.role === '') {
    return new Rejected('data/forbidden', `"${context.role}" is not the name of a database role`)
  }
  return null
}

export function translate(call: Call, error: NonNullable<Call['attempt']['error']>): Error {
  const { anonymous, role } = call.context
  const takingRole = role !== undefined && call.attempt.completed < call.attempt.prefixes
  return translateDatabaseError(error, { anonymous, takingRole })
}

export function unavailable(text: string, cause?: Error): Unavailable {
  return new Unavailable('data/database-unavailable', text, { cause })
}

export function databaseAway(failures: number): Unavailable {
  const retryAfterSeconds = Math.max(1, Math.ceil(backOffMs(failures) / 1000))
  return new Unavailable('data/database-unavailable', 'The database cannot be reached now', { retryAfterSeconds })
}

export function outcomeUnknown(cause: Error): Unavailable {
  return new Unavailable(
    'data/database-unavailable',
    'The database connection was lost while the write was under way: it may or may not have been done',
    { cause, hint: 'Look before you send it again, or send writes with an Idempotency-Key.' },
  )
}

export function tooLarge(call: Call, maxBytes: number): Rejected {
  const limit = `The answer is larger than ${maxBytes} bytes`
  if (call.context.readOnly) {
    return new Rejected('data/too-complex', limit, { hint: 'Ask for fewer rows or columns, page by page.' })
  }
  const became = call.attempt.error ? 'nothing was written' : 'the write itself was done'
  return new Rejected('data/too-complex', `${limit}; ${became}`, { hint: 'Write with Prefer: return=minimal.' })
}

export function tooLargeInTransaction(): Rejected {
  return new Rejected('data/too-complex', 'The answer is larger than the limit; nothing was written', {
    hint: 'Write with Prefer: return=minimal.',
  })
}

export function backOffMs(failures: number): number {
  return Math.min(5_000, 100 * 2 ** Math.min(failures, 10))
}

export function reasonOf(error: unknown): string {
  if (error instanceof AggregateError) return error.errors.map(reasonOf).join('; ')
  return error instanceof Error ? error.message || error.name : String(error)
}
