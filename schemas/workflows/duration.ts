const unitsMs: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }
const iso = /^P(?:(\d+)D)?(?:T(?:(\d+)H)?(?:(\d+)M)?(?:(\d+(?:\.\d+)?)S)?)?$/

/** What a task may wait for at most: ten years. */
export const maxWaitMs = 3_650 * unitsMs.d!

/** Why a text or a number is no duration that a task may have; null when it is. */
export function durationMistake(written: unknown): string | null {
  const ms = parseDuration(written)
  if (ms === null) return 'is no duration: write 30s, 5m or PT1H'
  return ms > maxWaitMs ? 'is longer than ten years, 3650d' : null
}

/** `500ms`, `30s`, `5m`, `2h`, `1d`, `PT1H30M`, or a number of milliseconds; null for anything else. */
export function parseDuration(written: unknown): number | null {
  if (typeof written === 'number') return written >= 0 && Number.isFinite(written) ? written : null
  if (typeof written !== 'string') return null
  const text = written.trim()
  const [, amount, unit] = /^(\d+(?:\.\d+)?)(ms|s|m|h|d)?$/.exec(text) ?? []
  if (amount !== undefined) return Number(amount) * unitsMs[unit ?? 'ms']!
  const parts = iso.exec(text)
  if (parts === null || text === 'P' || text.endsWith('T')) return null
  const [days, hours, minutes, seconds] = parts.slice(1).map((part) => Number(part ?? 0))
  return ((days! * 24 + hours!) * 60 + minutes!) * 60_000 + seconds! * 1_000
}
