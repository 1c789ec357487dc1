import { type IdempotentRequest, refuseBadKey, requestFingerprint, withIdempotency } from '../data/idempotency.ts'
import type { Run, TransactionalDatabase } from '../data/statement.ts'

/**
 * The mutations of one request with an `Idempotency-Key`. Each field of the operation is a transaction of its own, which holds the
 * key's mark and the field's answer besides the write: what a crash between two fields leaves undone, the repeated request does, and
 * what was done it answers from the store. A field that failed has left nothing and is tried again.
 */
export class KeyedWrites {
  readonly #database: TransactionalDatabase
  readonly #key: string
  readonly #actor: string
  #fingerprint = ''
  #fields = 0
  #stored = 0

  /** @throws {Rejected} `http/bad-request` for an unusable key */
  constructor(database: TransactionalDatabase, key: string, actor: string) {
    refuseBadKey(key)
    this.#database = database
    this.#key = key
    this.#actor = actor
  }

  /** @param content what makes two requests the same: the document, the operation's name and the variables */
  begin(content: readonly unknown[], fields: number): void {
    this.#fingerprint = requestFingerprint('POST', '/graphql', JSON.stringify(content))
    this.#fields = fields
  }

  /** Whether nothing was written, because every field had its answer already. */
  get replayed(): boolean {
    return this.#fields > 0 && this.#stored === this.#fields
  }

  /**
   * @param place of the field in the operation
   * @throws {Rejected} `data/idempotency-mismatch` when the key came with another operation, and what the work throws
   */
  async write(place: number, work: (run: Run) => Promise<Buffer>): Promise<Buffer> {
    const request: IdempotentRequest = {
      key: this.#key,
      actor: this.#actor,
      fingerprint: this.#fingerprint,
      ...(this.#fields > 1 ? { part: place } : {}),
    }
    const { body, headers } = await withIdempotency(this.#database, request, async (run) => ({
      status: 200,
      headers: {},
      body: await work(run),
    }))
    if (headers['Idempotency-Replayed'] === 'true') this.#stored += 1
    return body
  }
}
