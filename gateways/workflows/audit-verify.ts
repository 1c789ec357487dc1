import type { Bus } from '../../bus/connect.ts'
import { readMessage } from '../../bus/load.ts'
import type { Message } from '../../bus/message.ts'
import { readPage } from '../../bus/page.ts'
import { asking } from '../../bus/publish.ts'
import { type AuditEntry, type AuditHead, auditEvents, chainMistake, noHash } from '../../schemas/workflows/audit.ts'
import { auditPlace } from './audit-trail.ts'

export interface ChainReport {
  /** Number of the first entry that is there: 1, unless the stream was told to forget older ones. */
  readonly first: number
  readonly entries: number
  readonly messages: number
  /** The last entry that is whole. */
  readonly head: AuditHead
  /** The first place that is not what it was, and the entry that was to be there; null when all is. */
  readonly broken: { readonly sequence: number; readonly number: number; readonly reason: string } | null
  /** Where to go on, when there is more than was asked for; null at the end. */
  readonly next: ChainPlace | null
}

/** A message of the stream that was found whole, with the last entry in it. */
export interface ChainPlace {
  readonly sequence: number
  readonly head: AuditHead
}

export interface ChainWalk {
  /** An entry that was noted elsewhere: whoever can write a whole new chain, or cut off its end, cannot hide that. Default none. */
  readonly expected?: AuditHead | null
  /** Default the beginning. */
  readonly after?: ChainPlace | null
  /** Default all that are there. */
  readonly maxMessages?: number
}

const pageSize = 256

/**
 * Walks the chain of the audit log from its first message, or from where an earlier walk has come to, to its last.
 *
 * @throws {BusUnavailable}
 */
export async function verifyAudit(
  bus: Bus,
  { expected = null, after = null, maxMessages = Number.POSITIVE_INFINITY }: ChainWalk = {},
): Promise<ChainReport> {
  const { state } = await asking(bus, () => bus.manager.streams.info(auditPlace.stream))
  const walk = new Walk(expected, after)
  let sequence = after === null ? Math.max(1, state.first_seq) : after.sequence + 1
  // It may have been told to forget what was walked over.
  if (after !== null && state.first_seq > sequence) walk.break(sequence, 'the message is gone')
  const last = Math.min(state.last_seq, sequence + maxMessages - 1)
  while (sequence <= last && walk.broken === null) {
    const batch = Math.min(pageSize, last - sequence + 1)
    const page = await asking(bus, () => readPage(bus, auditPlace.stream, { seq: sequence, batch }))
    for (const stored of page) {
      if (walk.broken !== null) break
      if (stored.seq !== sequence) walk.break(sequence, 'the message is gone')
      else if (stored.subject !== auditPlace.subject) walk.break(sequence, `the message is one of ${stored.subject}`)
      else {
        const message = await readMessage(bus, auditEvents, stored).catch((error: Error) => error)
        walk.take(stored.seq, message)
      }
      sequence = stored.seq + 1
    }
    if (page.length === 0) break
  }
  const more = last < state.last_seq
  if (!more) walk.end(state.last_seq)
  return walk.report(more ? last : null)
}

/** `<number>:<hash>` of an entry; null for what is none. */
export function headOf(noted: string): AuditHead | null {
  const [, number, hash] = /^(\d{1,15}):([0-9a-f]{64})$/.exec(noted) ?? []
  return number === undefined || hash === undefined ? null : { number: Number(number), hash }
}

type Read = Message<ReturnType<typeof auditEvents.restore>>

class Walk {
  broken: ChainReport['broken'] = null
  readonly #expected: AuditHead | null
  #met: boolean
  #head: AuditHead | null = null
  #first = 0
  #entries = 0
  #messages = 0

  constructor(expected: AuditHead | null, after: ChainPlace | null) {
    this.#expected = expected
    this.#head = after?.head ?? null
    // Else an earlier walk has come over it.
    this.#met = expected === null || expected.number <= (after?.head.number ?? 0)
  }

  break(sequence: number, reason: string, number = (this.#head?.number ?? 0) + 1): void {
    this.broken ??= { sequence, number, reason }
  }

  take(sequence: number, message: Read | Error): void {
    if (message instanceof Error) this.break(sequence, `the message cannot be read: ${message.message}`)
    else for (const { data } of message.facts) if (this.broken === null) this.#entry(sequence, data)
    this.#messages++
  }

  #entry(sequence: number, entry: AuditEntry): void {
    const { number, hash } = entry
    const before = this.#head ?? beforeOf(entry)
    const mistake = chainMistake(before, entry)
    if (mistake !== null) {
      this.break(sequence, `entry ${before.number + 1} ${mistake}`, before.number + 1)
      return
    }
    this.#head = { number, hash }
    this.#first ||= number
    this.#entries++
    if (number !== this.#expected?.number) return
    this.#met = true
    if (hash !== this.#expected.hash) this.break(sequence, `entry ${number} is not the one that was noted`, number)
  }

  end(sequence: number): void {
    if (this.#met) return
    const { number } = this.#expected!
    this.break(sequence, `entry ${number}, which was noted, is not there`, number)
  }

  /** @param last the message at which it stopped before the end */
  report(last: number | null): ChainReport {
    const head = this.#head ?? { number: 0, hash: noHash }
    const next = last === null || this.broken !== null ? null : { sequence: last, head }
    return { first: this.#first, entries: this.#entries, messages: this.#messages, head, broken: this.broken, next }
  }
}

/** What the first entry that is there has to follow: nothing, or one that was forgotten. */
function beforeOf({ number, previousHash }: { readonly number: number; readonly previousHash: string }): AuditHead {
  return number === 1 ? { number: 0, hash: noHash } : { number: number - 1, hash: previousHash }
}
