import type { Bus } from '../../bus/connect.ts'
import { readMessage, readPage } from '../../bus/load.ts'
import type { Message } from '../../bus/message.ts'
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
  /** The first place that is not what it was; null when all is. */
  readonly broken: { readonly sequence: number; readonly reason: string } | null
}

const pageSize = 256

/**
 * Walks the chain of the audit log from its first message to its last.
 *
 * @param expected an entry that was noted elsewhere: whoever can write a whole new chain, or cut off its end, cannot hide that
 * @throws {BusUnavailable}
 */
export async function verifyAudit(bus: Bus, expected: AuditHead | null): Promise<ChainReport> {
  const { state } = await asking(bus, () => bus.manager.streams.info(auditPlace.stream))
  const walk = new Walk(expected)
  for (let sequence = Math.max(1, state.first_seq); sequence <= state.last_seq && walk.broken === null; ) {
    const page = await asking(bus, () => readPage(bus, auditPlace.stream, { seq: sequence, batch: pageSize }))
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
  walk.end(state.last_seq)
  return walk.report()
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

  constructor(expected: AuditHead | null) {
    this.#expected = expected
    this.#met = expected === null
  }

  break(sequence: number, reason: string): void {
    this.broken ??= { sequence, reason }
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
      this.break(sequence, `entry ${before.number + 1} ${mistake}`)
      return
    }
    this.#head = { number, hash }
    this.#first ||= number
    this.#entries++
    if (number !== this.#expected?.number) return
    this.#met = true
    if (hash !== this.#expected.hash) this.break(sequence, `entry ${number} is not the one that was noted`)
  }

  end(sequence: number): void {
    if (!this.#met) this.break(sequence, `entry ${this.#expected!.number}, which was noted, is not there`)
  }

  report(): ChainReport {
    const head = this.#head ?? { number: 0, hash: noHash }
    return { first: this.#first, entries: this.#entries, messages: this.#messages, head, broken: this.broken }
  }
}

/** What the first entry that is there has to follow: nothing, or one that was forgotten. */
function beforeOf({ number, previousHash }: { readonly number: number; readonly previousHash: string }): AuditHead {
  return number === 1 ? { number: 0, hash: noHash } : { number: number - 1, hash: previousHash }
}
