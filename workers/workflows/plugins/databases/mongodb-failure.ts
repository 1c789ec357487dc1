import { TaskFailure } from '../../plugin.ts'

/** What can pass: no primary, a server that stops or starts, conflicts. Source: mongo/src/mongo/base/error_codes.yml */
const passing = new Set([
  6, 7, 64, 89, 91, 112, 134, 189, 251, 262, 317, 358, 9001, 10_107, 11_600, 11_602, 13_435, 13_436,
])
/** MaxTimeMSExpired. */
const late = new Set([50, 202])

/** What went wrong, as a failure of a task. */
export function mongoFailure(error: unknown): TaskFailure {
  if (error instanceof TaskFailure) return error
  const { name = '', code, message = '', codeName } = error as Told
  if (typeof code === 'number') {
    const kind = late.has(code) ? 'timeout' : passing.has(code) ? 'unavailable' : 'refused'
    return new TaskFailure(
      kind,
      `MongoDB refused it (${code}${codeName === undefined ? '' : `, ${codeName}`}): ${message}`,
      error,
    )
  }
  if (/CERT|SSL|TLS|self.signed|certificate/i.test(message))
    return new TaskFailure('refused', `TLS is not possible: ${message}`, error)
  if (/Timeout/.test(name) || /timed out/.test(message))
    return new TaskFailure('timeout', `The server does not answer: ${message}`, error)
  if (/Network|ServerSelection|Topology|Pool|NotConnected/.test(name))
    return new TaskFailure('unavailable', `The connection broke: ${message}`, error)
  return new TaskFailure('refused', `MongoDB refused it: ${message}`, error)
}

interface Told {
  readonly name?: string
  readonly code?: number | string
  readonly codeName?: string
  readonly message?: string
}
