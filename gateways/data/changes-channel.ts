import { Rejected } from '../../schemas/failure.ts'
import type { ChangeView } from './changes-access.ts'
import type { Change } from './changes-event.ts'
import { type Arrival, sizeOf } from './changes-ring.ts'
import type { StreamEnd } from './changes-subscription.ts'

/** Who follows a table's changes as they come. */
export interface LiveMember {
  /** @param change what the member may see of the arrival's change; undefined: nothing */
  offer(arrival: Arrival, change: Change | undefined): void
  end(reason: StreamEnd, text: string): void
}

/** Memory for changes that wait until the database has said who may see them, per view. */
const maxQueueBytes = 64 * 1024 * 1024

/** The live subscribers of one table, by what they may see. */
export class TableChannel {
  readonly #views = new Map<string, ViewChannel>()
  readonly #onEmpty: () => void

  constructor(onEmpty: () => void) {
    this.#onEmpty = onEmpty
  }

  offer(arrival: Arrival): void {
    for (const view of this.#views.values()) view.offer(arrival)
  }

  /** Callers with equal rights share one view, so that the database is asked once for all of them. */
  join(member: LiveMember, view: ChangeView): void {
    let channel = this.#views.get(view.key)
    if (!channel) {
      channel = new ViewChannel(view)
      this.#views.set(view.key, channel)
    }
    channel.view.noteShownBy(view)
    channel.members.add(member)
  }

  leave(member: LiveMember, view: ChangeView): void {
    const channel = this.#views.get(view.key)
    if (!channel?.members.delete(member)) return
    view.noteShownBy(channel.view)
    if (channel.members.size === 0) this.#views.delete(view.key)
    if (this.#views.size === 0) this.#onEmpty()
  }
}

/** Subscribers that see the same. */
class ViewChannel {
  readonly members = new Set<LiveMember>()
  readonly view: ChangeView
  #queue: Arrival[] = []
  #queueBytes = 0
  #asking = false

  constructor(view: ChangeView) {
    this.view = view
  }

  offer(arrival: Arrival): void {
    if (!this.#asking) {
      const seen = arrival.change ? this.view.see([arrival.change]) : []
      if (seen instanceof Promise) void this.#ask(arrival, seen)
      else this.#deliver(arrival, seen[0])
      return
    }
    this.#queue.push(arrival)
    this.#queueBytes += sizeOf(arrival)
    if (this.#queueBytes > maxQueueBytes) this.#fail(new Error('too many changes wait for the database'))
  }

  /** Order is kept: what comes while the database is asked waits, and is then asked for together. */
  async #ask(first: Arrival, answer: Promise<readonly Change[]>): Promise<void> {
    this.#asking = true
    try {
      this.#deliver(first, (await answer)[0])
      while (this.#queue.length > 0) {
        const arrivals = this.#queue
        this.#queue = []
        this.#queueBytes = 0
        const seen = await this.view.see(arrivals.flatMap(({ change }) => change ?? []))
        const bySequence = new Map(seen.map((change) => [change.sequence, change]))
        for (const arrival of arrivals) this.#deliver(arrival, bySequence.get(arrival.sequence))
      }
    } catch (error) {
      this.#fail(error)
    }
    this.#asking = false
  }

  #deliver(arrival: Arrival, change: Change | undefined): void {
    for (const member of this.members) member.offer(arrival, change)
  }

  /** Without the database nobody can tell who may see what: better no stream than a wrong one. */
  #fail(error: unknown): void {
    this.#queue = []
    this.#queueBytes = 0
    const [reason, text]: [StreamEnd, string] =
      error instanceof Rejected
        ? ['forbidden', error.message]
        : ['unavailable', 'The database cannot be asked what may be shown']
    for (const member of [...this.members]) member.end(reason, text)
  }
}
