import { makeErrorsWith } from './host.ts'
import { toText } from './intrinsics.ts'

const CODES: Readonly<Record<string, number>> = {
  IndexSizeError: 1,
  HierarchyRequestError: 3,
  InvalidCharacterError: 5,
  NotFoundError: 8,
  NotSupportedError: 9,
  InvalidStateError: 11,
  SyntaxError: 12,
  InvalidAccessError: 15,
  NetworkError: 19,
  AbortError: 20,
  QuotaExceededError: 22,
  TimeoutError: 23,
  DataCloneError: 25,
}

/** Web IDL's exception with a name. */
export class DOMException extends Error {
  readonly #name: string
  constructor(message: unknown = '', options: unknown = 'Error') {
    const named =
      typeof options === 'object' && options !== null ? (options as { name?: unknown; cause?: unknown }) : null
    super(toText(message), named !== null && 'cause' in named ? { cause: named.cause } : undefined)
    this.#name = toText(named === null ? options : (named.name ?? 'Error'))
  }
  override get name(): string {
    return this.#name
  }
  get code(): number {
    return CODES[this.#name] ?? 0
  }
}

makeErrorsWith((name, message) => new DOMException(message, name))
