import { Rejected, Unavailable } from '../../schemas/failure.ts'

/** What the failure of a step may tell a user: no path, no SQL, no stack. */
export function explain(error: unknown): { readonly code: string; readonly message: string } {
  if (error instanceof Rejected || error instanceof Unavailable) return { code: error.code, message: error.message }
  const { name, message, kind } = error as { name?: string; message?: string; kind?: string }
  if (name === 'CareFailure' && typeof message === 'string') {
    return { code: kind === 'unavailable' ? 'http/unavailable' : 'provisioning/operation-failed', message }
  }
  // It has its own words for users beside the log it carries.
  if (name === 'ServerStartFailed' && typeof message === 'string') {
    return { code: 'provisioning/operation-failed', message }
  }
  return { code: 'http/internal', message: 'Something went wrong on our side; the log of the worker says what' }
}
