import type { Bus } from '../../bus/connect.ts'
import { readPage } from '../../bus/page.ts'

/** A time in which everything was there that is needed, epoch ms. */
interface Stretch {
  readonly from: number
  readonly to: number
}

/** Who was there when, written down as it happens: several of a kind stand for each other. */
export class Presence {
  readonly #changes: { readonly at: number; readonly kind: string; readonly by: 1 | -1 }[] = []

  came(kind: string): void {
    this.#changes.push({ at: Date.now(), kind, by: 1 })
  }

  left(kind: string): void {
    this.#changes.push({ at: Date.now(), kind, by: -1 })
  }

  /** When one at least of each kind was there. */
  stretches(...kinds: readonly string[]): readonly Stretch[] {
    const there = new Map(kinds.map((kind) => [kind, 0]))
    const found: Stretch[] = []
    let from: number | null = null
    for (const { at, kind, by } of this.#changes) {
      if (there.has(kind)) there.set(kind, there.get(kind)! + by)
      const all = [...there.values()].every((count) => count > 0)
      if (all) from ??= at
      else if (from !== null) {
        found.push({ from, to: at })
        from = null
      }
    }
    return from === null ? found : [...found, { from, to: Number.POSITIVE_INFINITY }]
  }
}

/** Something that is to happen at a time, and when it did: epoch ms. */
export interface Firing {
  readonly what: string
  readonly dueAt: number
  readonly firedAt: number
  /** The time that the timer was set to, if it is another one than `dueAt`. */
  readonly setTo?: number
}

/**
 * How late it was while it could have happened: the longest time without an interruption, between the time it was due and the time it
 * happened, in which all that is needed was there. Less than a second: it came within a second of its time, or of the moment when they were back.
 */
export function lateMs(up: readonly Stretch[], { dueAt, firedAt }: Firing): number {
  return Math.max(0, ...up.map(({ from, to }) => Math.min(to, firedAt) - Math.max(from, dueAt)))
}

/** The same, told with what was there meanwhile. */
export function storyOf(up: readonly Stretch[], firing: Firing, cameOut?: readonly number[]): string {
  const { what, dueAt, firedAt } = firing
  const there = up
    .filter(({ from, to }) => to > dueAt && from < firedAt)
    .map(({ from, to }) => `${Math.max(0, from - dueAt)}..${to === Number.POSITIVE_INFINITY ? '' : to - dueAt}`)
  const out = cameOut === undefined ? '' : `, out of the bus at ${cameOut.map((at) => at - dueAt).join(' and ')}`
  return `${what}: ${lateMs(up, firing)} ms late; fired at ${firedAt - dueAt}${out}; all there ${there.join(', ')}`
}

export function spread(values: readonly number[]): string {
  const sorted = [...values].sort((left, right) => left - right)
  const at = (part: number) => sorted[Math.floor((sorted.length - 1) * part)]
  return `p50 ${at(0.5)}, p90 ${at(0.9)}, p99 ${at(0.99)}, most ${at(1)} of ${sorted.length}`
}

/**
 * How much slower this machine is at the moment than it is with nothing else to do: a promise about a time is one about what we do in it,
 * and not about processes that are not given a turn.
 * @param startMs how long it took processes to be ready
 * @param idleStartMs how long it takes them on two cores on which nothing else runs but the same test
 */
export function slowness(startMs: readonly number[], idleStartMs: number): number {
  const sorted = [...startMs].sort((left, right) => left - right)
  return Math.max(1, sorted[Math.floor(sorted.length / 2)]! / idleStartMs)
}

/** When timers of executions came out of the bus, by `<execution>/<time it was set to>`. */
export async function dueTimes(bus: Bus): Promise<ReadonlyMap<string, readonly number[]>> {
  const found = new Map<string, number[]>()
  for (let sequence = 0; ; ) {
    const page = await readPage(bus, 'TIMERS', { seq: sequence + 1, next_by_subj: 'due.executions.>', batch: 512 })
    if (page.length === 0) return found
    for (const stored of page) {
      sequence = stored.seq
      const { executionId, at } = JSON.parse(Buffer.from(stored.data).toString('utf8'))
      const key = `${executionId}/${at}`
      found.set(key, [...(found.get(key) ?? []), stored.time.getTime()])
    }
  }
}
