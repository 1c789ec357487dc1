import { AckPolicy, type Consumer, type ConsumerMessages, JetStreamApiError, type JsMsg } from '@nats-io/jetstream'
import { LRUCache } from 'lru-cache'
import type { Bus } from '../../bus/connect.ts'
import { backOffMs } from '../../bus/handle.ts'
import { pause } from '../../bus/pause.ts'
import { asking } from '../../bus/publish.ts'
import { callingGateway } from '../../bus/subject.ts'
import { invocationId, noteMs } from '../../schemas/functions/call.ts'
import { type CallFrame, readCalls } from '../../schemas/functions/call-frames.ts'
import type { CallTarget } from '../../schemas/functions/target.ts'
import { CallAnswers } from './call-answers.ts'
import { CallDeliveries } from './call-deliveries.ts'
import type { Runner } from './runner.ts'

export interface CallsOptions {
  readonly run: Runner
  /** Calls in hand at a time; the hosts bound what one function may have of them. */
  readonly maxCalls: number
  readonly drainMs: number
  readonly onObservation: (observation: CallsObservation) => void
}

export type CallsObservation =
  | { readonly type: 'calls-ready' }
  /** No calls can be fetched; it is tried again after the delay. */
  | { readonly type: 'calls-trouble'; readonly delayMs: number; readonly error: unknown }

const stream = 'CALLS'
const consumerName = 'workers-functions-calls'
/** A call that a dead worker was given and had not begun goes to another one after this. */
const ackWaitMs = 5_000
/** After this a call that came when there were too many is offered again. */
const busyMs = 200
/** Messages, each of some calls. */
const prefetch = 128
const maxTargets = 2_000
const consumerExists = 10148
const nanosPerMs = 1_000_000

/**
 * Runs synchronous calls until the signal is aborted, then lets those in hand finish. Apart from `consume` because it acknowledges before
 * the user's code runs, so that nothing runs twice, and does per call no more than it must.
 */
export async function serveCalls(bus: Bus, options: CallsOptions, signal: AbortSignal): Promise<void> {
  const serving = new Serving(bus, options)
  const notes = setInterval(() => serving.note(), noteMs)
  for (let troubles = 0; !signal.aborted; ) {
    try {
      await serving.fetchUntil(signal, () => {
        troubles = 0
      })
    } catch (error) {
      const delayMs = Math.min(5_000, backOffMs(++troubles) / 4)
      options.onObservation({ type: 'calls-trouble', delayMs, error })
      await pause(delayMs, signal)
    }
  }
  await serving.drained(options.drainMs)
  serving.close()
  clearInterval(notes)
}

interface Held {
  readonly gateway: string
  readonly id: number
  readonly since: number
}

class Serving {
  readonly #bus: Bus
  readonly #options: CallsOptions
  readonly #held = new Set<Held>()
  readonly #answers: CallAnswers
  readonly #deliveries: CallDeliveries
  readonly #targets = new LRUCache<string, CallTarget>({ max: maxTargets })
  #wake: (() => void) | null = null

  constructor(bus: Bus, options: CallsOptions) {
    this.#bus = bus
    this.#options = options
    this.#answers = new CallAnswers(bus)
    this.#deliveries = new CallDeliveries(bus, ackWaitMs / 2)
  }

  /** Throws when fetching fails. */
  async fetchUntil(signal: AbortSignal, onReady: () => void): Promise<void> {
    const consumer = await openConsumer(this.#bus)
    await this.#deliveries.begin()
    const messages = await asking(this.#bus, () => consumer.consume({ max_messages: prefetch }))
    const stop = () => void messages.close()
    signal.addEventListener('abort', stop)
    const status = this.#bus.connection.status()
    void closeOnReconnect(status, messages)
    onReady()
    this.#options.onObservation({ type: 'calls-ready' })
    try {
      for await (const message of messages) {
        const now = Date.now()
        // It may be another worker's already, and would run twice; also a word about it would have the server offer it once more.
        if (!this.#deliveries.isFresh(now)) continue
        if (signal.aborted) message.nak()
        // At once: it must not lie here for as long as the server waits.
        else if (this.#held.size >= this.#options.maxCalls) message.nak(busyMs)
        else this.#take(message, now)
      }
    } finally {
      signal.removeEventListener('abort', stop)
      ;(status as { stop?: () => void }).stop?.()
      await messages.close()
    }
    if (!signal.aborted) throw new Error('The consumer of calls ended')
  }

  /** Tells the gateways which calls are being worked on, one message each. */
  note(): void {
    const before = performance.now() - noteMs
    const byGateway = new Map<string, number[]>()
    for (const { gateway, id, since } of this.#held) {
      if (since > before) continue
      const ids = byGateway.get(gateway) ?? []
      ids.push(id)
      byGateway.set(gateway, ids)
    }
    for (const [gateway, ids] of byGateway) this.#answers.note(gateway, ids)
  }

  async drained(withinMs: number): Promise<void> {
    const end = performance.now() + withinMs
    while (this.#held.size > 0 && performance.now() < end) {
      await Promise.race([this.#progress(), pause(end - performance.now(), new AbortController().signal)])
    }
    this.#answers.flush()
  }

  close(): void {
    this.#deliveries.close()
  }

  #take(message: JsMsg, now: number): void {
    const { streamSequence, timestampNanos, deliveryCount } = message.info
    if (!this.#deliveries.take(streamSequence, timestampNanos)) {
      // Its acknowledgement was lost.
      message.ack()
      return
    }
    const gateway = callingGateway(message.subject)
    const calls = callsOf(message)
    const wanted = calls.filter(({ deadlineAt }) => deadlineAt > now)
    if (wanted.length === 0) {
      message.term('nobody waits for an answer')
      return
    }
    // Before the acknowledgement: a gateway that finds the calls in the stream no more has heard of them.
    if (deliveryCount > 1) {
      this.#answers.note(
        gateway,
        wanted.map(({ id }) => id),
      )
    }
    message.ack()
    for (const call of wanted) this.#run(gateway, call)
  }

  #run(gateway: string, { id, target, start, body }: CallFrame): void {
    const held = { gateway, id, since: performance.now() }
    this.#held.add(held)
    const call = { id: invocationId(gateway, id), target: this.#target(target), start, body }
    this.#options.run(call, (result) => {
      this.#answers.add(gateway, id, result)
      this.#held.delete(held)
      this.#wake?.()
    })
  }

  /** Some calls more have been answered. */
  #progress(): Promise<void> {
    return new Promise((resolve) => {
      this.#wake = () => {
        this.#wake = null
        resolve()
      }
    })
  }

  #target(text: string): CallTarget {
    const known = this.#targets.get(text)
    if (known !== undefined) return known
    const target = JSON.parse(text) as CallTarget
    this.#targets.set(text, target)
    return target
  }
}

function callsOf(message: JsMsg): readonly CallFrame[] {
  try {
    return readCalls(message.data)
  } catch {
    return []
  }
}

/** The server has forgotten open requests when a connection comes back. */
async function closeOnReconnect(statuses: AsyncIterable<{ readonly type: string }>, messages: ConsumerMessages) {
  for await (const { type } of statuses) if (type === 'reconnect' || type === 'close') await messages.close()
}

async function openConsumer(bus: Bus): Promise<Consumer> {
  const settings = { ack_wait: ackWaitMs * nanosPerMs, max_deliver: -1, max_ack_pending: 20_000 }
  const { consumers } = bus.manager
  const wanted = { ...settings, durable_name: consumerName, ack_policy: AckPolicy.Explicit }
  const info = await asking(bus, () =>
    consumers.add(stream, wanted).catch((error: unknown) => {
      if (!(error instanceof JetStreamApiError) || error.code !== consumerExists) throw error
      return consumers.update(stream, consumerName, settings)
    }),
  )
  return bus.jetstream.consumers.getConsumerFromInfo(info)
}
