/** A finished WAL segment: eight hex digits each of timeline, log and segment. */
const segmentPattern = /^[0-9A-F]{24}$/
/** Left by a base backup in the archive: where and when it began and ended. */
const historyOfBackupPattern = /^[0-9A-F]{24}\.[0-9A-F]{8}\.backup$/
/** Where a timeline left its parent. */
const timelineHistoryPattern = /^[0-9A-F]{8}\.history$/

export function isSegment(name: string): boolean {
  return segmentPattern.test(name)
}

/** Whether the server can have put a file of this name into an archive. */
export function isArchived(name: string): boolean {
  return segmentPattern.test(name.slice(0, 24)) &&
    (name.length === 24 || name.endsWith('.partial') || historyOfBackupPattern.test(name))
    ? true
    : timelineHistoryPattern.test(name)
}

function timelineOf(segment: string): number {
  return Number.parseInt(segment.slice(0, 8), 16)
}

/** The place of a segment in the log whatever its timeline: compares as text. */
export function positionOf(segment: string): string {
  return segment.slice(8, 24)
}

/** The segment that holds a log position. `lsn` as PostgreSQL writes it: `0/16B3748`. */
export function segmentOfLsn(lsn: string, timeline: number, segmentBytes: number): string {
  const [high = '0', low = '0'] = lsn.split('/')
  const perLog = 0x1_0000_0000 / segmentBytes
  const number = Number.parseInt(high, 16) * perLog + Math.floor(Number.parseInt(low, 16) / segmentBytes)
  return segmentName(timeline, number, perLog)
}

/** The segment after this one on the same timeline. */
export function nextSegment(segment: string, segmentBytes: number): string {
  const perLog = 0x1_0000_0000 / segmentBytes
  const number = Number.parseInt(segment.slice(8, 16), 16) * perLog + Number.parseInt(segment.slice(16), 16)
  return segmentName(timelineOf(segment), number + 1, perLog)
}

function segmentName(timeline: number, number: number, perLog: number): string {
  return [timeline, Math.floor(number / perLog), number % perLog].map(hex8).join('')
}

function hex8(value: number): string {
  return value.toString(16).toUpperCase().padStart(8, '0')
}
