/** The database does not allow change capture; `statements` mend it. */
export class CaptureRefused extends Error {
  override readonly name = 'CaptureRefused'
  readonly statements: readonly string[]
  constructor(reason: string, statements: readonly string[], options?: ErrorOptions) {
    super(reason, options)
    this.statements = statements
  }
}

/** The changes are read by somebody else. */
export class CaptureBusy extends Error {
  override readonly name = 'CaptureBusy'
}
