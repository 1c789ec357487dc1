import type { ErrorCode } from '../../schemas/errors.ts'
import { Rejected, Unavailable } from '../../schemas/failure.ts'

interface Explained {
  readonly kind: 'rejected' | 'unavailable' | 'fault'
  readonly code: ErrorCode
  readonly message: string
  readonly details?: unknown
  readonly hint?: string
}

interface Care extends Error {
  readonly kind?: unknown
  readonly status?: number
  readonly field?: string
  readonly details?: object
}

/** What a failure may tell a user: no path, no SQL, no stack. */
export function explain(error: unknown): Explained {
  if (error instanceof Rejected) return { kind: 'rejected', ...told(error) }
  if (error instanceof Unavailable) return { kind: 'unavailable', ...told(error) }
  const { name, message, kind, status, field, details } = error as Care
  // These have words for users; what is not for them lies beside.
  if (name === 'ServerStartFailed') return { kind: 'rejected', code: 'provisioning/operation-failed', message }
  if (name !== 'CareFailure') {
    return {
      kind: 'fault',
      code: 'http/internal',
      message: 'Something went wrong on our side; the log of the worker says what',
    }
  }
  if (kind === 'unavailable') return { kind: 'unavailable', code: 'http/unavailable', message }
  const code = kind === 'refused' ? codeOf(status ?? 400, field ?? '') : 'provisioning/operation-failed'
  const more = { ...details, ...(field !== undefined && { field, reason: message }) }
  return { kind: 'rejected', code, message, ...(Object.keys(more).length > 0 && { details: more }) }
}

function told({ code, message, details, hint }: Rejected | Unavailable) {
  return { code, message, ...(details !== undefined && { details }), ...(hint !== undefined && { hint }) }
}

/** The care functions know statuses and fields, the API codes. */
function codeOf(status: number, field: string): ErrorCode {
  if (status === 404) {
    if (field === 'snapshotId') return 'provisioning/snapshot-not-found'
    return field === 'backupId' ? 'provisioning/backup-not-found' : 'provisioning/not-found'
  }
  if (status === 409) return field === 'version' ? 'provisioning/migration-conflict' : 'provisioning/invalid-state'
  if (status === 413) return 'http/payload-too-large'
  if (status === 422) return field === 'targetTime' ? 'provisioning/outside-window' : 'provisioning/unsupported'
  if (status === 424) return 'provisioning/engine-missing'
  return field.startsWith('parameters.') ? 'provisioning/invalid-parameter' : 'http/bad-request'
}
