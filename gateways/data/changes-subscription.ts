import type { ChangeView } from './changes-access.ts'
import type { Change, ChangeType } from './changes-event.ts'
import type { ChangeFilter } from './changes-filter.ts'
import type { Snapshot } from './changes-snapshot.ts'

/** Why a stream ends; the codes of WebSocket go with them. */
export type StreamEnd =
  | 'slow-reader'
  | 'token-expired'
  | 'forbidden'
  | 'table-gone'
  | 'table-changed'
  | 'unavailable'
  | 'stopping'

export interface GapNotice {
  readonly reason: string
  /** Sequence of the next change that can come. */
  readonly resumesAt: number
}

export interface ReadyNotice {
  readonly rows: number | null
  /** Sequence behind which the stream goes on. */
  readonly position: number
}

/** Where a subscriber's events go: SSE or WebSocket. */
export interface ChangeSink {
  /** Bytes given and not yet taken by the client's connection. */
  readonly unsentBytes: number
  change(change: Change): void
  gap(notice: GapNotice): void
  snapshotRow(row: Buffer): void
  /** What was asked for from the past follows now, or after the rows; `rows` is null without a snapshot. */
  ready(notice: ReadyNotice): void
  /** Tells the reason and closes. */
  end(reason: StreamEnd, text: string): void
  /** Resolves when the client has taken what was given, or is gone. */
  drained(): Promise<void>
}

export interface ChangeSubscription {
  /** Last sequence that was considered. */
  readonly position: number
  /** Ends the stream and tells the client why. */
  end(reason: StreamEnd, text: string): void
  /** The client is gone. */
  close(): void
}

export interface ChangeRequest {
  readonly schema: string
  readonly table: string
  readonly types: ReadonlySet<ChangeType> | null
  readonly filter: ChangeFilter | null
  readonly view: ChangeView
  /** First sequence, or earliest time, to begin with; null: what comes from now on. */
  readonly from: number | Date | null
  /** Reads the rows that are there; null without `snapshot`. */
  readonly snapshot: (() => Promise<Snapshot>) | null
}

/** Whether the filters of a subscription let a change pass. Filters ask for the row after it; TRUNCATE passes them all. */
export function passes({ types, filter }: Pick<ChangeRequest, 'types' | 'filter'>, change: Change): boolean {
  if (types !== null && !types.has(change.type)) return false
  return filter === null || change.type === 'TRUNCATE' || filter(change.row)
}
