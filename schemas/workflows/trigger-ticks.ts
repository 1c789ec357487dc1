import { nextTick, ticksBetween } from '../cron.ts'
import { parseDuration } from './duration.ts'
import type { SavedTrigger } from './trigger.ts'
import { maxMissedTicks, type TriggerConfig } from './trigger-plan.ts'

type Times = Pick<SavedTrigger, 'saved' | 'since'>

/** Purpose of the timers of ticks, and what lies in one. */
export const tickPurpose = 'workflow-trigger'
export interface TriggerTick {
  readonly triggerId: string
  readonly version: number
  /** Epoch ms. */
  readonly at: number
}

/** A tick that is not older is no missed one: a timer comes a little late, and later when a scheduler has died. */
const tickGraceMs = 10_000

export function isTimed({ type }: Pick<SavedTrigger['saved'], 'type'>): boolean {
  return type === 'cron' || type === 'interval'
}

/** The first tick after a time, both epoch ms; null when none will come, or the trigger has none. */
export function nextTriggerTick({ saved, since }: Times, after: number): number | null {
  if (saved.type === 'cron') return nextTick(saved.config as TriggerConfig<'cron'>, Math.max(after, since))
  if (saved.type !== 'interval') return null
  const everyMs = parseDuration(saved.config.every)!
  return since + everyMs * (Math.floor(Math.max(0, after - since) / everyMs) + 1)
}

/** The last ticks, at most so many, that are after one time and not after another; the earliest first. */
export function triggerTicks({ saved, since }: Times, after: number, until: number, max: number): readonly number[] {
  if (saved.type === 'cron') return ticksBetween(saved.config as TriggerConfig<'cron'>, after, until, max)
  if (saved.type !== 'interval') return []
  const everyMs = parseDuration(saved.config.every)!
  // Those before the trigger was there count as well, for a backfill.
  const last = Math.floor((until - since) / everyMs)
  const ticks: number[] = []
  for (let number = last; ticks.length < max && since + number * everyMs > after; number--) {
    ticks.unshift(since + number * everyMs)
  }
  return ticks
}

export interface DueTicks {
  /** To be run, the earliest first. */
  readonly run: readonly number[]
  /** The last of all, to be run or missed; null when none is due. */
  readonly last: number | null
}

/** What is to become of the ticks that have come since the last that was dealt with. */
export function dueTicks(state: SavedTrigger, now: number, graceMs = tickGraceMs): DueTicks {
  const after = Math.max(state.since, state.lastTick ?? 0)
  const ticks = triggerTicks(state, after, now, maxMissedTicks)
  const last = ticks.at(-1) ?? null
  const { onMissed = 'skip' } = state.saved.config as { onMissed?: 'skip' | 'last' | 'all' }
  if (onMissed === 'all') return { run: ticks, last }
  const run = ticks.filter((tick) => tick >= now - graceMs || (onMissed === 'last' && tick === last))
  return { run, last }
}
