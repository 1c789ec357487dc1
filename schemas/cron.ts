import { Cron } from 'croner'

/** Five fields, six with seconds first, names, or `@daily` and the like; an IANA time zone, UTC without one. */
export interface CronTime {
  readonly cron: string
  readonly timezone?: string | undefined
}

/**
 * The first tick after a time, both epoch ms; null when none will come. A time of day that a clock change leaves out comes at the end
 * of the gap; one that comes twice is taken once, unless hours or minutes are wildcards.
 */
export function nextTick(time: CronTime, after: number): number | null {
  return schedule(time).nextRun(new Date(after))?.getTime() ?? null
}

/** The last ticks, at most so many, that are after one time and not after another; the earliest first. */
export function ticksBetween(time: CronTime, after: number, until: number, max: number): readonly number[] {
  // Croner looks before a time: the tick of this very second is one of them.
  return schedule(time)
    .previousRuns(max, new Date(until + 1_000))
    .map((tick) => tick.getTime())
    .filter((tick) => tick > after && tick <= until)
    .reverse()
}

/** What is wrong with it; null when nothing is. */
export function cronMistake(time: CronTime, now: number): string | null {
  try {
    return nextTick(time, now) === null ? 'will never come' : null
  } catch (error) {
    return (error as Error).message
  }
}

function schedule({ cron, timezone = 'UTC' }: CronTime): Cron {
  return new Cron(cron, { timezone, paused: true, mode: '5-or-6-parts' })
}

/** Whether it is a name of IANA's that this runtime knows, such as Europe/Stockholm. */
export function isTimeZone(name: string): boolean {
  try {
    new Intl.DateTimeFormat('en', { timeZone: name })
    return true
  } catch {
    return false
  }
}
