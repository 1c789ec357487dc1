import { randomBytes } from 'node:crypto'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Bus } from '../../bus/connect.ts'
import { asking } from '../../bus/publish.ts'
import { answersSubject } from '../../bus/subject.ts'
import { Unavailable } from '../../schemas/failure.ts'
import {
  type CallFault,
  type CallReply,
  type CallRequest,
  callStart,
  invocationId,
  noteMs,
  readReplyHead,
} from '../../schemas/functions/call.ts'
import { batchOf, readAnswers } from '../../schemas/functions/call-frames.ts'
import type { CallTarget } from '../../schemas/functions/target.ts'
import { type CallBatch, CallBatches, type SentCall } from './call-batches.ts'

export interface CallAnswer {
  readonly reply: CallReply
  readonly body: Uint8Array
}

export interface CallDeskOptions {
  /** Longest run of a handler. */
  readonly timeoutMs: number
  /** Calls of this gateway at a time. */
  readonly maxCalls: number
}

/** Sends synchronous calls and hands out their answers. */
export interface CallDesk {
  /** Whether a call would be sent now. */
  readonly open: boolean
  /** @throws {Unavailable} `functions/unavailable`, when nothing was sent. {BusUnavailable} */
  call(target: CallTarget, request: CallRequest, body: Uint8Array): Promise<CallAnswer>
  /** Sends no more calls, and waits for the answers of those under way; false when there were none. */
  drained(withinMs: number): Promise<boolean>
  close(): void
}

/** A call for which no worker has given a sign for so long is looked for. */
const silenceMs = 5 * noteMs
/** How long a call may wait for a worker on top of its own time. */
const queueMs = 10_000
const maxLookPauseMs = 3_000
const drainStepMs = 20
const nothing = new Uint8Array()

interface PendingCall {
  readonly sent: SentCall
  readonly resolve: (answer: CallAnswer) => void
  readonly idempotent: boolean
  readonly startedAt: number
  batch: CallBatch
  /** When it was sent, or a worker said that it has it. */
  aliveAt: number
  noted: boolean
  /** It is in no stream and no worker has it: so it was once already. */
  missing: boolean
  resent: boolean
}

/**
 * One subject for the answers of all calls. Nothing waits for the stream's acknowledgement. A call whose worker is lost is found out without
 * a message for the calls that are quick: a worker says which calls it has held for a while; a call of which nothing is heard is looked up
 * in the stream, and where it is not there either, its worker has taken it and is gone.
 */
export function openCallDesk(bus: Bus, options: CallDeskOptions): CallDesk {
  return new Desk(bus, options)
}

class Desk implements CallDesk {
  readonly #bus: Bus
  readonly #options: CallDeskOptions
  /** Names this gateway, on the bus and in invocation ids. */
  readonly #name = randomBytes(9).toString('base64url')
  readonly #batches: CallBatches
  #draining = false
  readonly #pending = new Map<number, PendingCall>()
  readonly #looking = new Set<CallBatch>()
  readonly #subscription: { unsubscribe(): void }
  readonly #sweeping: NodeJS.Timeout
  #lastId = 0

  constructor(bus: Bus, options: CallDeskOptions) {
    this.#bus = bus
    this.#options = options
    this.#batches = new CallBatches(bus, this.#name)
    const onAnswer = (answer: { id: number; head: string; body: Uint8Array }) => this.#answered(answer)
    const onNote = (id: number) => this.#noted(id)
    this.#subscription = bus.connection.subscribe(answersSubject(this.#name), {
      callback: (error, message) => {
        if (error === null) readAnswers(message.data, { onAnswer, onNote })
      },
    })
    this.#sweeping = setInterval(() => this.#sweep(), noteMs)
  }

  get open(): boolean {
    return !this.#draining && this.#bus.connected && this.#pending.size < this.#options.maxCalls
  }

  call(target: CallTarget, request: CallRequest, body: Uint8Array): Promise<CallAnswer> {
    this.#bus.requireConnected()
    if (this.#draining) throw new Unavailable('functions/unavailable', 'The function runtime is being stopped here')
    if (this.#pending.size >= this.#options.maxCalls) {
      throw new Unavailable('functions/unavailable', 'As many calls as may be are waiting for their answer')
    }
    const id = this.#nextId()
    const sent: SentCall = {
      id,
      deadlineAt: Date.now() + this.#options.timeoutMs + queueMs,
      target: targetText(target),
      start: callStart(target, invocationId(this.#name, id), request),
      body,
    }
    const batch = this.#batches.send(sent, this.#pending.size + 1)
    return new Promise((resolve) => {
      const now = performance.now()
      this.#pending.set(id, {
        sent,
        resolve,
        idempotent: target.idempotent === true,
        startedAt: now,
        batch,
        aliveAt: now,
        noted: false,
        missing: false,
        resent: false,
      })
    })
  }

  async drained(withinMs: number): Promise<boolean> {
    this.#draining = true
    if (this.#pending.size === 0) return false
    for (const end = performance.now() + withinMs; this.#pending.size > 0 && performance.now() < end; ) {
      await sleep(drainStepMs)
    }
    return true
  }

  close(): void {
    clearInterval(this.#sweeping)
    this.#subscription.unsubscribe()
    for (const call of [...this.#pending.values()]) this.#fail(call, 'host-died')
  }

  #answered({ id, head, body }: { id: number; head: string; body: Uint8Array }): void {
    const call = this.#pending.get(id)
    if (call !== undefined) this.#end(call, { reply: readReplyHead(head), body })
  }

  #fail(call: PendingCall, code: CallFault['code']): void {
    this.#end(call, { reply: { status: 500, fault: { code, message: '' } }, body: nothing })
  }

  #end(call: PendingCall, answer: CallAnswer): void {
    if (!this.#pending.delete(call.sent.id)) return
    this.#batches.answered(call.sent.id, call.batch)
    call.resolve(answer)
  }

  #noted(id: number): void {
    const call = this.#pending.get(id)
    if (call === undefined) return
    call.aliveAt = performance.now()
    call.noted = true
    call.missing = false
  }

  #sweep(): void {
    const now = performance.now()
    for (const call of this.#pending.values()) {
      if (now - call.startedAt > this.#options.timeoutMs + queueMs) {
        this.#fail(call, call.noted ? 'timeout' : 'host-died')
      } else if (now - call.aliveAt > silenceMs && !this.#looking.has(call.batch)) {
        void this.#look(call.batch)
      }
    }
  }

  /** In the stream: its calls wait for a worker. In none, twice: who took them is gone, for a worker that has a call says so. */
  async #look(batch: CallBatch): Promise<void> {
    this.#looking.add(batch)
    try {
      const query = { last_by_subj: batch.subject }
      const found = await asking(this.#bus, () => this.#bus.manager.direct.getMessage('CALLS', query))
      const waiting = found !== null && batchOf(found.data) === batch.number
      for (const id of batch.open) this.#looked(this.#pending.get(id), waiting)
    } catch {
      // The bus is away: it is looked for again.
    } finally {
      this.#looking.delete(batch)
    }
  }

  #looked(call: PendingCall | undefined, waiting: boolean): void {
    if (call === undefined || performance.now() - call.aliveAt < silenceMs) return
    if (waiting) {
      call.missing = false
      // Where many wait, they are looked up ever less often.
      const now = performance.now()
      call.aliveAt = now + Math.min(maxLookPauseMs, (now - call.startedAt) / 2)
    } else if (!call.missing) call.missing = true
    else if (call.idempotent && !call.resent) this.#sendAgain(call)
    else this.#fail(call, 'host-died')
  }

  #sendAgain(call: PendingCall): void {
    call.resent = true
    call.missing = false
    call.aliveAt = performance.now()
    this.#batches.answered(call.sent.id, call.batch)
    call.batch = this.#batches.send(call.sent, this.#pending.size)
  }

  #nextId(): number {
    do this.#lastId = (this.#lastId + 1) % 2 ** 32
    while (this.#pending.has(this.#lastId))
    return this.#lastId
  }
}

const targetTexts = new WeakMap<CallTarget, string>()

function targetText(target: CallTarget): string {
  const known = targetTexts.get(target)
  if (known !== undefined) return known
  const text = JSON.stringify(target)
  targetTexts.set(target, text)
  return text
}
