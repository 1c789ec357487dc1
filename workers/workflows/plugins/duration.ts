import { TaskFailure } from '../plugin.ts'

const unitsMs: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const iso = /^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$/

/** `500ms`, `30s`, `5m`, `2h`, `1d`, `PT1H30M`, or a number of milliseconds. @throws {TaskFailure} for anything else. */
export function durationMs(written: string | number, place: string): number {
  if (typeof written === 'number' && written >= 0) return written
  const text = String(written).trim()
  const [, amount, unit] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(text) ?? []
  if (amount !== undefined) return Number(amount) * unitsMs[unit ?? 'ms']!
  const parts = iso.exec(text)
  if (parts === null || text === 'P' || text.endsWith('T')) {
    throw new TaskFailure('refused', `${place} is no duration: write 30s, 5m or PT1H`)
  }
  const [days, hours, minutes, seconds] = parts.slice(1).map((part) => Number(part ?? 0))
  return ((days! * 24 + hours!) * 60 + minutes!) * 60_000 + seconds! * 1_000
}
