import { setTimeout as delay } from 'node:timers/promises'
import type { ErrorCode } from '../../schemas/errors.ts'
import { Unavailable } from '../../schemas/failure.ts'
import type { Change } from '../data/changes-event.ts'
import type { ChangeGuard } from '../data/changes-guard.ts'
import type { ChangeHub } from '../data/changes-hub.ts'
import type { ChangeSink, ChangeSubscription, GapNotice, StreamEnd } from '../data/changes-subscription.ts'
import type { Principal } from '../http/auth.ts'
import type { Operation } from './execute.ts'
import { errorsOf } from './subscription-errors.ts'
import type { PreparedSubscription, SubscriptionPlan } from './subscription-plan.ts'

/** Where the results of a subscription go. */
export interface SubscriptionTarget {
  readonly requestId: string
  /** Bytes given and not yet taken by the client's connection. */
  readonly unsentBytes: number
  /** One execution result, JSON on one line. */
  next(payload: string): void
  /** There are no more, and why. */
  fail(errors: readonly object[]): void
  /** Resolves when the client has taken what was given, or is gone. */
  drained(): Promise<void>
}

/** A subscription that may begin. */
export interface Opening extends PreparedSubscription {
  readonly plan: SubscriptionPlan
  readonly operation: Operation
  readonly principal: Principal
  /** A change as the response to this selection; the same for all who select the same and have missed nothing. */
  readonly payload: (change: Change, gap: GapNotice | null) => string
}

/** What a subscription lives on. */
export interface SubscriptionSource {
  readonly hub: ChangeHub | null
  readonly guard: ChangeGuard
  /** The same subscription after the schema has changed. @throws of what does not fit any more */
  reopen(operation: Operation, principal: Principal): Promise<Opening>
}

const codes: Readonly<Record<Exclude<StreamEnd, 'table-changed'>, ErrorCode>> = {
  'slow-reader': 'http/too-many-requests',
  'token-expired': 'http/unauthorized',
  forbidden: 'data/forbidden',
  'table-gone': 'data/unknown-table',
  unavailable: 'data/changes-unavailable',
  stopping: 'data/changes-unavailable',
}

/** Between two attempts to go on. */
const retryMs = 500

/**
 * One subscription of one client. When the columns of its table, or the caller's rights, are others than they were, it goes on from
 * where it was, as the document now reads; when the document does not fit any more, it ends.
 */
export class LiveSubscription {
  readonly #subscriptions: SubscriptionSource
  readonly #target: SubscriptionTarget
  #opening: Opening
  #inner: ChangeSubscription | null = null
  #forget: () => void = () => undefined
  #open = true
  /** Of changes that the client may have missed; told with the next one. */
  #gap: GapNotice | null = null

  constructor(subscriptions: SubscriptionSource, opening: Opening, target: SubscriptionTarget) {
    this.#subscriptions = subscriptions
    this.#target = target
    this.#opening = opening
    this.#serve(null)
  }

  /** The client is gone, or wants no more. */
  close(): void {
    this.#open = false
    this.#forget()
    this.#inner?.close()
  }

  #serve(from: number | null): void {
    const { request, guarded, principal } = this.#opening
    let ended = false
    const sink = this.#sink((reason, text) => {
      ended = true
      this.#ended(reason, text)
    })
    const inner = this.#subscriptions.hub!.subscribe({ ...request, from }, sink)
    this.#inner = inner
    if (ended) return
    this.#forget = this.#subscriptions.guard.watch({
      ...guarded,
      expiresAt: principal.expiresAt ?? null,
      end: (reason, text) => inner.end(reason, text),
    })
  }

  #sink(end: ChangeSink['end']): ChangeSink {
    const target = this.#target
    const { payload } = this.#opening
    return {
      get unsentBytes() {
        return target.unsentBytes
      },
      change: (change) => {
        const gap = this.#gap
        this.#gap = null
        target.next(payload(change, gap))
      },
      gap: (notice) => {
        this.#gap = notice
      },
      snapshotRow: () => undefined,
      ready: () => undefined,
      end,
      drained: () => target.drained(),
    }
  }

  #ended(reason: StreamEnd, text: string): void {
    this.#forget()
    if (!this.#open) return
    if (reason === 'table-changed') void this.#goOn(this.#inner!.position + 1)
    else {
      this.#open = false
      this.#target.fail([{ message: text, extensions: { code: codes[reason], reason } }])
    }
  }

  /** @param from first sequence that the client has not had */
  async #goOn(from: number): Promise<void> {
    const before = this.#opening
    try {
      const opening = await this.#subscriptions.reopen(before.operation, before.principal)
      if (!this.#open) return
      opening.request.view.noteShownBy(before.request.view)
      this.#opening = opening
      this.#serve(from)
    } catch (error) {
      if (!this.#open) return
      if (error instanceof Unavailable) return await this.#goOnLater(from)
      this.#open = false
      this.#target.fail(errorsOf(error, this.#target.requestId).errors)
    }
  }

  /** A database that restarts ends no other subscription either. */
  async #goOnLater(from: number): Promise<void> {
    await delay(retryMs, undefined, { ref: false })
    if (!this.#open) return
    const { expiresAt } = this.#opening.principal
    if ((expiresAt ?? Number.POSITIVE_INFINITY) <= Date.now())
      return this.#ended('token-expired', 'The token has expired')
    await this.#goOn(from)
  }
}
