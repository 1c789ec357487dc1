import { setImmediate as nextTurn } from 'node:timers/promises'
import { Rejected, Unavailable } from '../../schemas/failure.ts'
import type { LiveMember, TableChannel } from './changes-channel.ts'
import type { Change } from './changes-event.ts'
import { expiredBefore, type History, startOf } from './changes-history.ts'
import type { Arrival } from './changes-ring.ts'
import { snapshotMembers } from './changes-snapshot.ts'
import {
  type ChangeRequest,
  type ChangeSink,
  type ChangeSubscription,
  passes,
  type StreamEnd,
} from './changes-subscription.ts'

/** What a subscriber needs of the hub. */
export interface ChangeSource extends History {
  readonly maxUnsentBytes: number
  readonly stallMs: number
  channel(subject: string): TableChannel
}

const batchSize = 200
/** How far back a snapshot looks for transactions that are on the stream but were not yet visible. */
const snapshotOverlapMs = 60_000
/** After this long no change is still on its way that a snapshot showed; transaction ids come round again some time. */
const snapshotFilterMs = 3_600_000

/** One client: first the rows or the history, at its own pace, then live; and the history again when it falls behind. */
export class Subscriber implements ChangeSubscription, LiveMember {
  readonly #source: ChangeSource
  readonly #subject: string
  readonly #request: ChangeRequest
  readonly #sink: ChangeSink
  readonly #onClosed: (reason: StreamEnd | null) => void
  #open = true
  #live = false
  /** Last sequence that was considered. */
  #last = 0
  /** Whether the rows of the snapshot show what a change did. */
  #shown: ((change: Change) => boolean) | null = null

  constructor(
    source: ChangeSource,
    subject: string,
    request: ChangeRequest,
    sink: ChangeSink,
    onClosed: (reason: StreamEnd | null) => void,
  ) {
    this.#source = source
    this.#subject = subject
    this.#request = request
    this.#sink = sink
    this.#onClosed = onClosed
  }

  start(): void {
    this.#last = this.#source.position
    if (this.#request.from !== null || this.#request.snapshot !== null) this.#inBackground(this.#begin())
    else {
      this.#sink.ready({ rows: null, position: this.#last })
      this.#goLive()
    }
  }

  get position(): number {
    return this.#last
  }

  close(): void {
    this.#finish(null)
  }

  end(reason: StreamEnd, text: string): void {
    if (!this.#open) return
    this.#finish(reason)
    this.#sink.end(reason, text)
  }

  offer(arrival: Arrival, change: Change | undefined): void {
    if (!this.#live || arrival.sequence <= this.#last) return
    if (arrival.gap === null && change && this.#wants(change)) {
      const { unsentBytes } = this.#sink
      // One change that is larger than the limit still gets through to a client that has taken all others.
      if (unsentBytes > 0 && unsentBytes + change.body.length > this.#source.maxUnsentBytes) {
        this.#leave()
        this.#inBackground(this.#catchUp())
        return
      }
    }
    this.#take(arrival, change)
  }

  #take(arrival: Arrival, change: Change | undefined): void {
    if (arrival.gap !== null) this.#sink.gap({ reason: arrival.gap, resumesAt: arrival.sequence + 1 })
    else if (change && this.#wants(change)) this.#sink.change(change)
    this.#last = arrival.sequence
  }

  #wants(change: Change): boolean {
    return !this.#shown?.(change) && passes(this.#request, change)
  }

  #goLive(): void {
    this.#live = true
    this.#source.channel(this.#subject).join(this, this.#request.view)
  }

  #leave(): void {
    if (!this.#live) return
    this.#live = false
    this.#source.channel(this.#subject).leave(this, this.#request.view)
  }

  #finish(reason: StreamEnd | null): void {
    if (!this.#open) return
    this.#open = false
    this.#leave()
    this.#onClosed(reason)
  }

  #inBackground(work: Promise<void>): void {
    work.catch((error: unknown) => {
      const told = error instanceof Rejected || error instanceof Unavailable
      const text = told ? error.message : 'The stream cannot be read now'
      this.end(error instanceof Rejected ? 'forbidden' : 'unavailable', text)
    })
  }

  async #begin(): Promise<void> {
    const { from, snapshot } = this.#request
    let afresh = from === null
    if (from !== null) {
      const { next, gap } = await startOf(this.#source, this.#subject, from)
      this.#last = next - 1
      if (gap !== null && this.#open) this.#sink.gap({ reason: gap, resumesAt: next })
      // With the history gone only the rows can bring the client up to date.
      afresh = gap !== null && snapshot !== null
    }
    if (afresh) await this.#sendSnapshot()
    else if (this.#open) this.#sink.ready({ rows: null, position: this.#last })
    await this.#catchUp()
  }

  /** From behind the last change considered up to the present, and live from exactly there. */
  async #catchUp(): Promise<void> {
    await this.#room()
    while (this.#open) {
      const { ring } = this.#source
      const next = this.#last + 1
      const arrivals = next < ring.start ? await this.#fromStream(next) : ring.of(this.#subject, next, batchSize)
      // Nothing of the table has come since the ring was read in this very turn.
      if (arrivals.length === 0 && next >= ring.start) return this.#goLive()
      await this.#sendPast(arrivals)
    }
  }

  /** What the ring has let go of. Moves on past what is of no concern. */
  async #fromStream(next: number): Promise<readonly Arrival[]> {
    const { stream, replays } = this.#source
    const ringStart = this.#source.ring.start
    const read = await replays.take(async () => {
      if (!this.#open) return { arrivals: [], complete: true, gap: null }
      const { arrivals, complete } = await stream.history(this.#subject, next, batchSize)
      // Asked after the reading: what was let go of while it was read is told of too.
      return { arrivals, complete, gap: await expiredBefore(stream, next) }
    })
    if (read.gap !== null && this.#open) {
      this.#sink.gap({ reason: 'expired', resumesAt: read.gap })
      this.#last = Math.max(this.#last, read.gap - 1)
    }
    if (read.complete && read.arrivals.length === 0) this.#last = Math.max(this.#last, ringStart - 1)
    return read.arrivals
  }

  async #sendPast(arrivals: readonly Arrival[]): Promise<void> {
    const changes = arrivals.flatMap(({ change }) => (change && !this.#shown?.(change) ? change : []))
    const seen = new Map((await this.#request.view.see(changes)).map((change) => [change.sequence, change]))
    for (const arrival of arrivals) {
      if (!this.#open) return
      this.#take(arrival, seen.get(arrival.sequence))
      await this.#room()
    }
  }

  async #sendSnapshot(): Promise<void> {
    const { snapshot: read, view } = this.#request
    const { ring, position } = this.#source
    this.#last = ring.since(Date.now() - snapshotOverlapMs, position + 1) - 1
    const snapshot = await read!()
    const until = Date.now() + snapshotFilterMs
    this.#shown = (change) => Date.now() < until && snapshot.includes(change)
    view.noteShown(snapshot.rows.map(snapshotMembers))
    for (const [index, row] of snapshot.rows.entries()) {
      if (!this.#open) return
      this.#sink.snapshotRow(row)
      await this.#room()
      if (index % batchSize === 0) await nextTurn()
    }
    if (this.#open) this.#sink.ready({ rows: snapshot.rows.length, position: this.#last })
  }

  /** Waits until the client has taken most of what it was given; one that takes nothing for too long is cut off. */
  async #room(): Promise<void> {
    const { maxUnsentBytes, stallMs } = this.#source
    if (this.#sink.unsentBytes <= maxUnsentBytes / 2) return
    const timer = setTimeout(() => {
      this.end('slow-reader', `This client did not take ${this.#sink.unsentBytes} bytes within ${stallMs} ms`)
    }, stallMs)
    try {
      await this.#sink.drained()
    } finally {
      clearTimeout(timer)
    }
  }
}
