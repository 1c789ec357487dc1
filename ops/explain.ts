import { ConfigError } from '../schemas/config/config-error.ts'
import { maskUrl } from '../schemas/config/mask.ts'
import { OperatorError } from './local/operator-error.ts'

interface SystemFault {
  readonly code?: string
  readonly syscall?: string
  readonly path?: string
  readonly port?: number
  readonly address?: string
  readonly message: string
}

/** One line for the person at the terminal when the fault is theirs to mend; undefined when it is a bug of ours. */
function explain(error: unknown): string | undefined {
  if (error instanceof OperatorError || error instanceof ConfigError) return maskUrl(error.message)
  if (!(error instanceof Error)) return undefined
  const { code, syscall, path, port, address } = error as SystemFault
  if (syscall === 'listen' && code === 'EADDRINUSE')
    return `Port ${port} is in use: stop what uses it or choose another one.`
  if (syscall === 'listen') return `Cannot listen on ${address}:${port} (${code}): choose another server.host or port.`
  if (code === 'ENOSPC') return `The disk is full${path === undefined ? '' : ` (${path})`}: make room and start again.`
  if (code === 'EACCES' || code === 'EPERM' || code === 'EROFS') return `No right to ${syscall} ${path}: ${code}.`
  return undefined
}

/** The line for faults of the operator's, the stack for bugs. */
export function describe(error: unknown): string {
  return explain(error) ?? maskUrl(error instanceof Error ? (error.stack ?? error.message) : String(error))
}
