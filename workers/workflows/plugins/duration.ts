import { durationMistake, parseDuration } from '../../../schemas/workflows/duration.ts'
import { TaskFailure } from '../plugin.ts'

/** `500ms`, `30s`, `5m`, `2h`, `1d`, `PT1H30M`, or a number of milliseconds, ten years at most. @throws {TaskFailure} for anything else. */
export function durationMs(written: string | number, place: string): number {
  const mistake = durationMistake(written)
  if (mistake !== null) throw new TaskFailure('refused', `${place} ${mistake}`)
  return parseDuration(written)!
}
