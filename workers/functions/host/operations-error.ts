/** What an operation refuses; the guest throws it under this name. */
export class OperationError extends Error {
  constructor(name: 'TypeError' | 'RangeError' | (string & {}), message: string) {
    super(message)
    this.name = name
  }
}

/** `'!'` + the error as the guest reads it. Nothing of the host but a message meant for guests passes. */
export function refusal(error: unknown): string {
  if (error instanceof OperationError) return `!${JSON.stringify({ name: error.name, message: error.message })}`
  return `!${JSON.stringify({ name: 'OperationError', message: 'The operation failed' })}`
}
