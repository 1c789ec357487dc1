import { parseDuration } from '../../../schemas/workflows/duration.ts'
import { TaskFailure } from '../plugin.ts'

/** `500ms`, `30s`, `5m`, `2h`, `1d`, `PT1H30M`, or a number of milliseconds. @throws {TaskFailure} for anything else. */
export function durationMs(written: string | number, place: string): number {
  const ms = parseDuration(written)
  if (ms !== null) return ms
  throw new TaskFailure('refused', `${place} is no duration: write 30s, 5m or PT1H`)
}
