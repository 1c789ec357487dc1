import type { Places } from './changes-places.ts'
import type { ChangeRing } from './changes-ring.ts'
import type { ChangeStream } from './changes-stream.ts'

/** Where past changes are: the last ones in memory, the others on the stream. */
export interface History {
  readonly stream: ChangeStream
  readonly ring: ChangeRing
  /** Last sequence that came. */
  readonly position: number
  readonly replays: Places
}

export interface Start {
  /** First sequence to send. */
  readonly next: number
  /** Why changes that were asked for may be missing; null when none are. */
  readonly gap: string | null
}

/** Where to begin, for a client that asks for a sequence or a time. */
export async function startOf(history: History, subject: string, from: number | Date): Promise<Start> {
  return from instanceof Date ? await startOfTime(history, subject, from) : await startOfSequence(history, from)
}

/** The first sequence the stream still holds, when it is later than the given one. */
export async function expiredBefore(stream: ChangeStream, next: number): Promise<number | null> {
  const { first } = await stream.bounds()
  return next < first ? first : null
}

async function startOfSequence({ ring, stream, position }: History, from: number): Promise<Start> {
  if (from >= ring.start && from <= position + 1) return { next: from, gap: null }
  const { first, last } = await stream.bounds()
  if (from > last + 1) return { next: position + 1, gap: 'unknown-position' }
  return from < first ? { next: first, gap: 'expired' } : { next: from, gap: null }
}

async function startOfTime({ stream, position, replays }: History, subject: string, from: Date): Promise<Start> {
  const { arrivals } = await replays.take(() => stream.history(subject, from, 1))
  const { first, firstAt, lastAt } = await stream.bounds()
  // Of a stream that has let go of everything only its last time is known.
  const expired = first > 1 && from.getTime() < (firstAt === 0 ? lastAt : firstAt)
  // The position is of before the reading: what came since would have been found.
  const next = arrivals[0]?.sequence ?? Math.max(position + 1, first)
  return { next, gap: expired ? 'expired' : null }
}
