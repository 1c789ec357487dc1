/** A question of a gateway to the worker that looks after an instance; JSON on core NATS. */
export interface Question {
  /** `engines`, `install`, `check-new-parameters`, `check-operation`, or what a driver answers of an instance. */
  readonly question: string
  readonly projectId?: string
  readonly params: Readonly<Record<string, unknown>>
}

/** Its answer. A failure has what `Rejected` and `Unavailable` are made of; a chunk of bytes comes as base64. */
export type Answer =
  | { readonly answer: unknown }
  | {
      readonly failure: {
        readonly kind: 'rejected' | 'unavailable' | 'fault'
        readonly code: string
        readonly message: string
        readonly details?: unknown
        readonly hint?: string
      }
    }
