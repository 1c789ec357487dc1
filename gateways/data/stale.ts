import { Rejected } from '../../schemas/failure.ts'

/** SQLSTATEs of a statement that was compiled for a schema which has changed since: such a statement had no effect. */
const staleStates = new Set(['42P01', '42703', '42704', '42883', '42804', '0A000', '42P10', '42809', '42601'])

/** Whether the error says that the catalog a statement was compiled with may be out of date. */
export function isStale(error: unknown): boolean {
  if (!(error instanceof Rejected)) return false
  const { details } = error
  const state = typeof details === 'object' && details !== null && 'sqlstate' in details ? details.sqlstate : undefined
  return typeof state === 'string' && staleStates.has(state)
}
