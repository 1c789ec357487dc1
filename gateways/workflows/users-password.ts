import { argon2id, hash, needsRehash, verify } from 'argon2'
import { Rejected, Unavailable } from '../../schemas/failure.ts'

/** What a digest of argon2id costs. */
export interface HashCost {
  /** KiB */
  readonly memoryCost: number
  readonly timeCost: number
  readonly parallelism: number
}

/** Source: RFC 9106, 4, the second recommended option. */
const recommended = { memoryCost: 64 * 1024, timeCost: 3, parallelism: 4 }
/** Each takes 64 MiB and a core for a tenth of a second. */
const maxAtOnce = 2
const maxWaiting = 100
const minLength = 8
const maxLength = 1_024

/** The text of a password that a user may have. @throws {Rejected} `http/bad-request` */
export function requirePassword(field: string, password: unknown): string {
  const reason =
    typeof password !== 'string'
      ? 'must be a text'
      : [...password].length < minLength || password.length > maxLength
        ? `must have ${minLength} to ${maxLength} characters`
        : null
  if (reason === null) return password as string
  throw new Rejected('http/bad-request', `${field} ${reason}`, { details: { field, reason } })
}

/** Digests of passwords, argon2id, a few at a time. */
export class Passwords {
  readonly #cost: HashCost
  #running = 0
  readonly #waiting: (() => void)[] = []
  /** Of no password anybody knows, so that a missing user takes as long as a wrong password. */
  #nobody: Promise<string> | null = null

  /** @param cost default: what RFC 9106 recommends */
  constructor(cost: HashCost = recommended) {
    this.#cost = cost
  }

  /** @throws {Unavailable} when too many wait. */
  async digest(password: string): Promise<string> {
    return await this.#inTurn(() => hash(plain(password), { ...this.#cost, type: argon2id }))
  }

  /** Takes the same time without a digest, and says no. @throws {Unavailable} when too many wait. */
  async check(password: string, digest: string | null): Promise<boolean> {
    this.#nobody ??= this.digest(crypto.randomUUID()).catch((error) => {
      this.#nobody = null
      throw error
    })
    const against = digest ?? (await this.#nobody)
    const right = await this.#inTurn(() => verify(against, plain(password.slice(0, maxLength))))
    return right && digest !== null
  }

  /** Whether a digest was made with parameters that are not today's. */
  isDated(digest: string): boolean {
    return needsRehash(digest, this.#cost)
  }

  async #inTurn<T>(work: () => Promise<T>): Promise<T> {
    if (this.#running >= maxAtOnce) {
      if (this.#waiting.length >= maxWaiting) {
        throw new Unavailable('http/unavailable', 'Too many passwords are being checked', { retryAfterSeconds: 5 })
      }
      await new Promise<void>((resolve) => this.#waiting.push(resolve))
    } else this.#running++
    try {
      return await work()
    } finally {
      const next = this.#waiting.shift()
      if (next === undefined) this.#running--
      else next()
    }
  }
}

/** However a keyboard composes its characters. */
function plain(password: string): string {
  return password.normalize('NFKC')
}
