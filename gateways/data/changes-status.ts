import type { NatsConnection, Subscription } from '@nats-io/nats-core'
import { captureSubject } from '../../bus/subject.ts'
import type { CaptureStatus } from '../../schemas/data/capture-status.ts'
import { Unavailable } from '../../schemas/failure.ts'
import type { ChangeType } from './changes-event.ts'

/** Longer than the pause between two announcements by several times. */
const aliveMs = 20_000
/** A capture that restarts is no reason to turn clients away: what changes meanwhile comes when it is back. */
const graceMs = 60_000
const askMs = 1_500

/** What is known of the change captures of a source. */
export class CaptureWatch {
  readonly #bus: NatsConnection
  readonly #source: string
  readonly #heard = new Map<string, CaptureStatus & { readonly heardAt: number }>()
  readonly #subscription: Subscription
  #ranAt = Number.NEGATIVE_INFINITY
  #waiting: PromiseWithResolvers<void> | null = null

  constructor(bus: NatsConnection, source: string) {
    this.#bus = bus
    this.#source = source
    this.#subscription = bus.subscribe(captureSubject(source, 'status'), {
      callback: (_error, message) => this.#note(message.json<CaptureStatus>()),
    })
    this.#ask()
  }

  /**
   * @throws {Unavailable} `data/changes-unavailable` with the reason and the statements that mend it, when changes of the table
   * do not reach the stream.
   * @param types that must all be published, null for every one; absent: INSERT is enough
   */
  async require(schema: string, table: string, types?: ReadonlySet<ChangeType> | null): Promise<void> {
    if (this.#current() === null) await this.#askAndWait()
    const status = this.#current()
    if (status === null) {
      if (performance.now() - this.#ranAt < graceMs) return
      throw unavailable(
        `No change capture runs for the source ${this.#source}`,
        [],
        'start one: busbar run worker:capture',
      )
    }
    if (status.state === 'refused')
      throw unavailable(status.reason ?? 'The database refuses change capture', status.statements)
    if (status.state === 'failing' && performance.now() - this.#ranAt > graceMs) {
      throw unavailable('Change capture cannot reach the database', [])
    }
    const missing = status.unpublished.find((each) => each.schema === schema && each.table === table)
    const beyond = types === null || types?.has('UPDATE') || types?.has('DELETE')
    if (missing && (!missing.inserts || beyond))
      throw unavailable(`Changes of ${table} are not published: ${missing.reason}`, [missing.statement])
  }

  close(): void {
    this.#subscription.unsubscribe()
  }

  #note(status: CaptureStatus): void {
    this.#heard.set(status.captureId, { ...status, heardAt: performance.now() })
    if (status.state === 'running') this.#ranAt = performance.now()
    if (status.state === 'stopped') this.#heard.delete(status.captureId)
    this.#waiting?.resolve()
    this.#waiting = null
  }

  /** The one that says most: a reading capture before those that wait for it, those before one in trouble. */
  #current(): CaptureStatus | null {
    const order: readonly CaptureStatus['state'][] = ['running', 'standby', 'starting', 'refused', 'failing', 'stopped']
    let best: CaptureStatus | null = null
    for (const [id, status] of this.#heard) {
      if (performance.now() - status.heardAt > aliveMs) this.#heard.delete(id)
      else if (best === null || order.indexOf(status.state) < order.indexOf(best.state)) best = status
    }
    return best
  }

  #ask(): void {
    if (!this.#bus.isClosed()) this.#bus.publish(captureSubject(this.#source, 'ask'))
  }

  async #askAndWait(): Promise<void> {
    this.#waiting ??= Promise.withResolvers()
    this.#ask()
    let timer: NodeJS.Timeout | undefined
    const late = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, askMs)
    })
    await Promise.race([this.#waiting.promise, late])
    clearTimeout(timer)
  }
}

export function unavailable(reason: string, statements: readonly string[], hint?: string): Unavailable {
  const mending = statements.length > 0 ? statements.join(' ') : hint
  return new Unavailable('data/changes-unavailable', `Change streams are not available: ${reason}`, {
    retryAfterSeconds: 5,
    details: { reason, statements },
    ...(mending === undefined ? {} : { hint: mending }),
  })
}
