import { hash } from 'node:crypto'
import { GraphQLError } from 'graphql'
import { LRUCache } from 'lru-cache'
import type { Documents, ReadDocument } from './document.ts'
import { type GraphqlParameters, refuseMember } from './request.ts'

export interface PersistedOptions {
  /** Documents by id, as `readPersistedDocuments` gives them. */
  readonly documents: ReadonlyMap<string, string>
  /** Whether all other documents are refused. */
  readonly only: boolean
  /** Whether clients may have documents remembered under their hash. */
  readonly automatic: boolean
}

export const defaultPersisted: PersistedOptions = { documents: new Map(), only: false, automatic: true }

type Asked = Pick<GraphqlParameters, 'query' | 'documentId' | 'extensions'>

const maxIdLength = 255

/**
 * Finds the document of a request: its text, a hash of it (automatic persisted queries), or the id of a document that the operator has
 * given. What clients register is kept by this copy of the gateway alone, and not for ever: a client that hears
 * `PERSISTED_QUERY_NOT_FOUND` sends the text again, to whichever copy it reaches.
 *
 * Source: Apollo, "Automatic Persisted Queries"; GraphQL over HTTP, appendix "Persisted Documents".
 */
export class PersistedQueries {
  readonly #options: PersistedOptions
  /** Hashes of clients, with texts that have been valid once. */
  readonly #registered = new LRUCache<string, string>({
    max: 5000,
    maxSize: 16 * 1024 * 1024,
    sizeCalculation: (text) => 256 + text.length * 2,
  })

  constructor(options: PersistedOptions) {
    this.#options = options
  }

  /**
   * @returns the document to execute, or why there is none
   * @throws {Rejected} `http/bad-request`, naming the member of the request that cannot be used
   */
  read(asked: Asked, documents: Documents): ReadDocument {
    const { query, documentId, extensions } = asked
    const { persistedQuery } = extensions
    if (documentId === null && (persistedQuery === undefined || persistedQuery === null))
      return query === null ? refuseMember('query', 'is missing') : this.#plain(query, documents)
    if (documentId !== null) return this.#byId(documentId, query, documents)
    return this.#byHash(digestOf(persistedQuery), query, documents)
  }

  #plain(query: string, documents: Documents): ReadDocument {
    return this.#options.only ? onlyPersisted() : documents.read(query)
  }

  #byId(documentId: string, query: string | null, documents: Documents): ReadDocument {
    if (query !== null) refuseMember('documentId', 'cannot be combined with query')
    if (documentId.length > maxIdLength) refuseMember('documentId', `has more than ${maxIdLength} characters`)
    const text = this.#options.documents.get(documentId) ?? this.#known(documentId.replace(/^sha256:/, ''))
    if (text !== undefined) return documents.read(text)
    return refused(`There is no persisted document ${JSON.stringify(documentId)}`, 'PERSISTED_QUERY_NOT_FOUND')
  }

  /** The messages are those that clients of the protocol look for. */
  #byHash(digest: string, query: string | null, documents: Documents): ReadDocument {
    const { automatic, only, documents: given } = this.#options
    if (!automatic && given.size === 0) return refused('PersistedQueryNotSupported', 'PERSISTED_QUERY_NOT_SUPPORTED')
    if (query === null) {
      const text = this.#known(digest)
      return text === undefined ? refused('PersistedQueryNotFound', 'PERSISTED_QUERY_NOT_FOUND') : documents.read(text)
    }
    if (only) return onlyPersisted()
    if (automatic && this.#registered.get(digest) === query) return documents.read(query)
    if (hash('sha256', query, 'hex') !== digest)
      refuseMember('extensions.persistedQuery.sha256Hash', 'is not the hash of query')
    const read = documents.read(query)
    if (automatic && read.errors === null) this.#registered.set(digest, query)
    return read
  }

  #known(digest: string): string | undefined {
    return this.#options.documents.get(digest) ?? (this.#options.automatic ? this.#registered.get(digest) : undefined)
  }
}

function digestOf(persistedQuery: unknown): string {
  const { version, sha256Hash } = (typeof persistedQuery === 'object' ? persistedQuery : {}) as {
    readonly version?: unknown
    readonly sha256Hash?: unknown
  }
  if (version !== 1) refuseMember('extensions.persistedQuery.version', 'must be 1')
  if (typeof sha256Hash === 'string' && /^[0-9a-f]{64}$/i.test(sha256Hash)) return sha256Hash.toLowerCase()
  return refuseMember('extensions.persistedQuery.sha256Hash', 'must be 64 hexadecimal digits')
}

function onlyPersisted(): ReadDocument {
  return refused('Only persisted documents are executed here: send documentId instead of query', 'PERSISTED_QUERY_ONLY')
}

function refused(text: string, code: string): ReadDocument {
  return { document: null, errors: [new GraphQLError(text, { extensions: { code } })] }
}
