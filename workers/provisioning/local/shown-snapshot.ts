import type { SnapshotRecord } from './snapshots/snapshot-record.ts'

/** Without names of this machine. */
export function shownSnapshot({ fileName, ...snapshot }: SnapshotRecord) {
  const { id, size } = snapshot
  return { ...snapshot, snapshotId: id, sizeBytes: size, filePath: fileName, status: 'COMPLETED' }
}
