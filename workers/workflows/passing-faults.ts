/** Errors of the network that can pass. */
const passing: ReadonlySet<string> = new Set([
  'ECONNREFUSED',
  'ECONNRESET',
  'ECONNABORTED',
  'EPIPE',
  'ETIMEDOUT',
  'EHOSTUNREACH',
  'ENETUNREACH',
  'ENOTFOUND',
  'EAI_AGAIN',
])

/** The code of an error of the system, or of what caused it; null when it has none. */
export function systemCode(error: unknown): string | null {
  const { code, cause } = (error ?? {}) as { readonly code?: unknown; readonly cause?: { readonly code?: unknown } }
  const found = [code, cause?.code].find((each) => typeof each === 'string')
  return found === undefined ? null : String(found)
}

/** Whether it may go when it is tried again: the other side is down, cannot be found, or has closed the connection. */
export function isPassing(error: unknown): boolean {
  return passing.has(systemCode(error) ?? '')
}
