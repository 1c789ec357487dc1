import type { ChangeEvent } from '../../schemas/data/change.ts'
import { rawMembers, writeMembers } from './changes-json.ts'

export type ChangeType = ChangeEvent['type']

/** A row as texts of JSON values by column; a column the database did not send is absent. */
export type RawMembers = ReadonlyMap<string, string>

export interface ChangeOrigin {
  /** Place on the stream. */
  readonly sequence: number
  readonly type: ChangeType
  /** Id of the transaction, modulo 2^32. */
  readonly transaction: number
  readonly receivedAt: number
}

/** One change on its way to many clients: whatever several of them need of it is made once. */
export class Change implements ChangeOrigin {
  readonly sequence: number
  readonly type: ChangeType
  readonly transaction: number
  readonly receivedAt: number
  /** The public event's JSON, as it lies on the bus. */
  readonly body: Buffer
  #frame: Buffer | null = null
  #data: RawMembers | null = null
  #row: RawMembers | null = null
  readonly #projections = new Map<string, Change>()

  constructor(origin: ChangeOrigin, body: Buffer) {
    this.sequence = origin.sequence
    this.type = origin.type
    this.transaction = origin.transaction
    this.receivedAt = origin.receivedAt
    this.body = body
  }

  /** As a server-sent event. */
  get frame(): Buffer {
    this.#frame ??= Buffer.concat([
      Buffer.from(`id: ${this.sequence}\nevent: ${this.type}\ndata: `),
      this.body,
      lineEnds,
    ])
    return this.#frame
  }

  /** `data` of the event; of an UPDATE its `old` and `new`. */
  get data(): RawMembers {
    this.#data ??= rawMembers(rawMembers(this.body.toString('utf8')).get('data') ?? '{}')
    return this.#data
  }

  /** The row as it is after the change; of a DELETE, what is known of the row that was. */
  get row(): RawMembers {
    this.#row ??= this.type === 'UPDATE' ? rawMembers(this.data.get('new') ?? '{}') : this.data
    return this.#row
  }

  /** Before an UPDATE, what is known of it: with full replica identity the row, else its key. */
  get old(): RawMembers {
    return this.type === 'UPDATE' ? rawMembers(this.data.get('old') ?? '{}') : emptyRow
  }

  /**
   * The change with some columns only.
   * @param key names the combination of columns: equal keys share one result
   */
  project(key: string, columns: ReadonlySet<string>, oldColumns: ReadonlySet<string>): Change {
    const known = this.#projections.get(key)
    if (known) return known
    const event = rawMembers(this.body.toString('utf8'))
    event.set('data', this.#projectData(columns, oldColumns))
    const body = Buffer.from(writeMembers(event, () => true))
    const projected = new Change(this, body)
    this.#projections.set(key, projected)
    return projected
  }

  #projectData(columns: ReadonlySet<string>, oldColumns: ReadonlySet<string>): string {
    if (this.type === 'TRUNCATE') return '{}'
    if (this.type === 'DELETE') return writeMembers(this.row, (name) => oldColumns.has(name))
    const row = writeMembers(this.row, (name) => columns.has(name))
    if (this.type === 'INSERT') return row
    return `{"old":${writeMembers(this.old, (name) => oldColumns.has(name))},"new":${row}}`
  }
}

const emptyRow: RawMembers = new Map()
const lineEnds = Buffer.from('\n\n')
