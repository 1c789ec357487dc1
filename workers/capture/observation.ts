import type { CaptureStatus } from '../../schemas/data/capture-status.ts'

export type CaptureObservation =
  | {
      readonly type: 'capture-state'
      readonly source: string
      readonly state: CaptureStatus['state']
      readonly reason?: string
    }
  /** The connection or the bus failed; tried again after `retryInMs`. */
  | {
      readonly type: 'capture-failed'
      readonly source: string
      readonly reason: string
      readonly retryInMs: number
      readonly error: unknown
    }
  /** The slot was made anew: changes in between are lost, and readers see a gap. */
  | { readonly type: 'capture-gap'; readonly source: string; readonly reason: string }
  /** The slot holds back more WAL than the threshold; again when it has doubled. */
  | {
      readonly type: 'capture-retains-wal'
      readonly source: string
      readonly slot: string
      readonly retainedBytes: number
    }
  | { readonly type: 'capture-unpublished'; readonly source: string; readonly tables: CaptureStatus['unpublished'] }
  /** Columns were left out of a change because it would not fit into a message. */
  | {
      readonly type: 'capture-oversized'
      readonly source: string
      readonly schema: string
      readonly table: string
      readonly omitted: readonly string[]
    }
