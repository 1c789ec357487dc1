import { TaskFailure } from '../../plugin.ts'

/** What can pass: locks, too many connections, a server that stops or starts. Source: MariaDB error codes, MySQL server error reference */
const passing = new Set([1020, 1021, 1040, 1041, 1053, 1152, 1158, 1159, 1160, 1161, 1203, 1205, 1213, 1226, 1927])
/** `max_statement_time` and `max_execution_time`. */
const late = new Set([1969, 3024])

/** What went wrong, as a failure of a task. */
export function mysqlFailure(error: unknown): TaskFailure {
  if (error instanceof TaskFailure) return error
  const { errno = 0, code = '', sqlState, message } = error as Told
  if (errno >= 1000 && sqlState !== undefined) {
    const kind = late.has(errno) ? 'timeout' : passing.has(errno) ? 'unavailable' : 'refused'
    return new TaskFailure(kind, `The server refused it (${code}, ${sqlState}): ${message}`, error)
  }
  if (/^HANDSHAKE_|CERT|SSL|TLS/.test(code))
    return new TaskFailure('refused', `TLS is not possible: ${message || code}`, error)
  if (code === 'ETIMEDOUT') return new TaskFailure('timeout', 'The server does not answer', error)
  if (/^(PROTOCOL_|E[A-Z]+$)/.test(code)) return new TaskFailure('unavailable', `The connection broke: ${code}`, error)
  return new TaskFailure('refused', message, error)
}

interface Told {
  readonly errno?: number
  readonly code?: string
  readonly sqlState?: string
  readonly message: string
}
