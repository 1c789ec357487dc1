import { Rejected } from '../../schemas/failure.ts'
import { type Catalog, type Table, tableKey } from './catalog.ts'
import { accessTo, type ChangeAccess } from './changes-access.ts'
import type { StreamEnd } from './changes-subscription.ts'
import type { CallContext, Database } from './statement.ts'

/** An open stream and what it was opened on. */
export interface GuardedStream {
  readonly table: Table
  readonly access: ChangeAccess
  readonly context: CallContext
  /** Compiled for the columns as they were: a filter, or what the caller may see. */
  readonly boundToColumns: boolean
  /** Epoch ms. */
  readonly expiresAt: number | null
  end(reason: StreamEnd, text: string): void
}

export interface ChangeGuardOptions {
  readonly catalog: { current(): Catalog }
  readonly database: Database
  /** How often rights are looked at again, besides after every change of the schema. Default 10,000. */
  readonly recheckMs?: number
}

const tickMs = 500

/** Ends streams whose token has expired, whose table is gone or another one, or whose caller has lost rights. */
export class ChangeGuard {
  readonly #options: ChangeGuardOptions
  readonly #streams = new Set<GuardedStream>()
  readonly #timer: NodeJS.Timeout
  #version: string
  #checkedAt = performance.now()
  #checking = false

  constructor(options: ChangeGuardOptions) {
    this.#options = options
    this.#version = options.catalog.current().version
    this.#timer = setInterval(() => this.#tick(), tickMs)
  }

  /** @returns lets go of the stream */
  watch(stream: GuardedStream): () => void {
    this.#streams.add(stream)
    return () => this.#streams.delete(stream)
  }

  close(): void {
    clearInterval(this.#timer)
    this.#streams.clear()
  }

  #tick(): void {
    const now = Date.now()
    for (const stream of this.#streams) {
      if (stream.expiresAt !== null && stream.expiresAt <= now)
        this.#end(stream, 'token-expired', 'The token has expired')
    }
    const catalog = this.#options.catalog.current()
    const due = performance.now() - this.#checkedAt >= (this.#options.recheckMs ?? 10_000)
    if (this.#checking || (catalog.version === this.#version && !due)) return
    this.#checking = true
    void this.#check(catalog).finally(() => {
      this.#version = catalog.version
      this.#checkedAt = performance.now()
      this.#checking = false
    })
  }

  async #check(catalog: Catalog): Promise<void> {
    const byRole = new Map<string, GuardedStream[]>()
    for (const stream of [...this.#streams]) {
      const now = catalog.tables.get(tableKey(stream.table.schema, stream.table.name))
      if (now?.oid !== stream.table.oid) this.#end(stream, 'table-gone', `The table ${stream.table.name} is gone`)
      else if (stream.boundToColumns && shapeOf(now) !== shapeOf(stream.table)) {
        this.#end(stream, 'table-changed', `The columns of ${now.name} have changed; connect again`)
      } else {
        const key = `${now.oid} ${stream.context.role ?? ''}`
        byRole.set(key, [...(byRole.get(key) ?? []), stream])
      }
    }
    for (const streams of byRole.values()) await this.#checkRights(streams)
  }

  /** @param streams of one table and one role, which alone decides over rights */
  async #checkRights(streams: readonly GuardedStream[]): Promise<void> {
    const { table, context } = streams[0]!
    let access: ChangeAccess
    try {
      access = await accessTo(table, this.#options.database, context)
    } catch (error) {
      // While the database is away rights cannot change either, as far as anybody can tell.
      if (error instanceof Rejected) for (const stream of streams) this.#end(stream, 'forbidden', error.message)
      return
    }
    for (const stream of streams) {
      if (sameAccess(access, stream.access)) continue
      this.#end(stream, 'table-changed', `What you may see of ${table.name} has changed; connect again`)
    }
  }

  #end(stream: GuardedStream, reason: StreamEnd, text: string): void {
    this.#streams.delete(stream)
    stream.end(reason, text)
  }
}

function shapeOf({ columns, primaryKey }: Table): string {
  return JSON.stringify([columns.map(({ name, typeSql }) => [name, typeSql]), primaryKey])
}

function sameAccess(one: ChangeAccess, other: ChangeAccess): boolean {
  const columnsOf = ({ columns }: ChangeAccess) => (columns === null ? null : [...columns].sort())
  return one.byRow === other.byRow && JSON.stringify(columnsOf(one)) === JSON.stringify(columnsOf(other))
}
