import { createHash } from 'node:crypto'
import { Rejected, Unavailable } from '../../schemas/failure.ts'
import { postgresKeys } from './postgres-keys.ts'
import type { CallContext, KeyStore, Run, TransactionalDatabase } from './statement.ts'

export interface IdempotentRequest {
  /** The Idempotency-Key header as sent. */
  readonly key: string
  /** Keys of different actors never meet. */
  readonly actor: string
  /** See `requestFingerprint`. */
  readonly fingerprint: string
  /** Number of the transaction, in a request of several: each is done at most once, all under the one key. */
  readonly part?: number
}

export interface StoredReply {
  readonly status: number
  readonly headers: Readonly<Record<string, string>>
  readonly body: Buffer
}

const maxKeyLength = 255
const maxBodyBytes = 8 * 1024 * 1024
const cleanEveryMs = 60_000

const writing: CallContext = { readOnly: false }

/** What one gateway remembers of one database. */
interface Memory {
  /** The last request under way with a key: the next one waits for it here, not on a database connection. */
  readonly underWay: Map<string, Promise<unknown>>
  cleanedAt: number
}
const memories = new WeakMap<TransactionalDatabase, Memory>()

/** A digest of what makes two requests the same: method, path with query, and body. */
export function requestFingerprint(method: string, path: string, body: Uint8Array | string): string {
  return createHash('sha256').update(`${method} ${path}\n`).update(body).digest('hex')
}

/**
 * Runs a write at most once per key within 24 hours. The key, the write and the answer are stored in one transaction of the
 * user's database; a repetition gets the first answer with `Idempotency-Replayed: true`. A write that fails leaves nothing.
 *
 * @throws {Rejected} `http/bad-request` for an unusable key, `data/idempotency-mismatch` when the key came with another request.
 * @throws {Unavailable} `http/unavailable` when the table is missing and the login role may not create it.
 */
export async function withIdempotency(
  database: TransactionalDatabase,
  request: IdempotentRequest,
  work: (run: Run) => Promise<StoredReply>,
): Promise<StoredReply> {
  refuseBadKey(request.key)
  const memory = memoryOf(database)
  const name = `${request.actor}\n${request.key}`
  const before = memory.underWay.get(name)
  const mine = (before ?? Promise.resolve()).then(
    () => once(database, memory, request, work),
    () => once(database, memory, request, work),
  )
  memory.underWay.set(name, mine)
  try {
    return await mine
  } finally {
    if (memory.underWay.get(name) === mine) memory.underWay.delete(name)
  }
}

async function once(
  database: TransactionalDatabase,
  memory: Memory,
  request: IdempotentRequest,
  work: (run: Run) => Promise<StoredReply>,
): Promise<StoredReply> {
  try {
    return await attempt(database, memory, request, work)
  } catch (error) {
    if (!(error instanceof TableMissing)) throw error
  }
  await createTable(database)
  return await attempt(database, memory, request, work)
}

function attempt(
  database: TransactionalDatabase,
  memory: Memory,
  { key: requestKey, actor, fingerprint, part }: IdempotentRequest,
  work: (run: Run) => Promise<StoredReply>,
): Promise<StoredReply> {
  const store = storeOf(database)
  const explain = (error: unknown) => explainTable(store, error)
  return database.transaction(async (run) => {
    if (part !== undefined) {
      const held = await run(store.claimRequest, [actor, requestKey, fingerprint], writing).catch(explain)
      if (held.rowCount === 0) throw mismatch()
    }
    // No header can hold a space, so a part's key is no other request's.
    const key = part === undefined ? requestKey : `${requestKey} ${part}`
    // Waits here while another gateway's transaction holds the key.
    const claimed = await run(store.claimKey, [actor, key, fingerprint], writing).catch(explain)
    if (claimed.rowCount === 0) return await replay(store, run, [actor, key], fingerprint)
    const reply = await work(run)
    if (reply.body.length > maxBodyBytes) throw replyTooLarge()
    const stored = [actor, key, String(reply.status), JSON.stringify(reply.headers), store.bodyToText(reply.body)]
    // Not awaited one by one: they leave in one write, and a failure of the first fails the others.
    const steps = [...store.beforeStoring, store.storeReply].map((each) =>
      run(each, each === store.storeReply ? stored : [], writing),
    )
    if (Date.now() - memory.cleanedAt > cleanEveryMs) {
      memory.cleanedAt = Date.now()
      steps.push(run(store.cleanUp, [], writing))
    }
    await Promise.all(steps)
    return reply
  })
}

async function replay(
  store: KeyStore,
  run: Run,
  actorAndKey: readonly string[],
  fingerprint: string,
): Promise<StoredReply> {
  const [row] = (await run(store.readReply, actorAndKey, writing)).rows
  if (!row) {
    // Cleaned up between the two statements: it was expired after all.
    throw new Unavailable('http/unavailable', 'The Idempotency-Key has just expired; send the request again')
  }
  const [storedFingerprint, status, headers] = row.slice(0, 3).map((column) => column?.toString('utf8') ?? '')
  if (storedFingerprint !== fingerprint) throw mismatch()
  return {
    status: Number(status),
    headers: { ...JSON.parse(headers || '{}'), 'Idempotency-Replayed': 'true' },
    body: store.bodyOf(row[3] ?? Buffer.alloc(0)),
  }
}

function mismatch(): Rejected {
  return new Rejected('data/idempotency-mismatch', 'This Idempotency-Key was used before with another request', {
    details: { header: 'Idempotency-Key' },
    hint: 'Use a new key for a new request.',
  })
}

class TableMissing extends Error {}

/** The claim is the first statement to touch the table, so it is the one that finds it missing or closed. */
function explainTable(store: KeyStore, error: unknown): never {
  const sqlstate = sqlstateOf(error)
  if (sqlstate === '42P01' || sqlstate === '3F000') throw new TableMissing('busbar.idempotency', { cause: error })
  if (sqlstate === '42501') throw tableNeeded(store, error)
  throw error
}

async function createTable(database: TransactionalDatabase): Promise<void> {
  const store = storeOf(database)
  try {
    await database.transaction(async (run) => {
      for (const each of store.create) await run(each, [], writing)
    })
  } catch (error) {
    throw sqlstateOf(error) === '42501' ? tableNeeded(store, error) : error
  }
}

function tableNeeded(store: KeyStore, cause: unknown): Unavailable {
  const statements = store.byHand.map((text) => `${text};`)
  return new Unavailable('http/unavailable', 'Idempotency-Key needs a table in the database that is not there', {
    details: { statements },
    hint: `An owner of the database runs once: ${statements.join(' ')}`,
    retryAfterSeconds: 60,
    cause,
  })
}

function replyTooLarge(): Rejected {
  return new Rejected('data/too-complex', `The answer is larger than the ${maxBodyBytes} bytes kept for replays`, {
    hint: 'Nothing was written: ask for less back (in REST with Prefer: return=minimal).',
  })
}

/** @throws {Rejected} `http/bad-request` */
export function refuseBadKey(key: string): void {
  if (key.length > 0 && key.length <= maxKeyLength && /^[\x21-\x7e]+$/.test(key)) return
  throw new Rejected('http/bad-request', `Idempotency-Key must be 1 to ${maxKeyLength} visible ASCII characters`, {
    details: { header: 'Idempotency-Key' },
    hint: 'Use a UUID.',
  })
}

function sqlstateOf(error: unknown): string | undefined {
  if (!(error instanceof Rejected || error instanceof Unavailable)) return undefined
  return (error.details as { readonly sqlstate?: string } | undefined)?.sqlstate
}

function storeOf({ keys = postgresKeys }: TransactionalDatabase): KeyStore {
  return keys
}

function memoryOf(database: TransactionalDatabase): Memory {
  let memory = memories.get(database)
  if (!memory) {
    memory = { underWay: new Map(), cleanedAt: 0 }
    memories.set(database, memory)
  }
  return memory
}
