import { AckPolicy, type Consumer, type ConsumerMessages, JetStreamApiError, type JsMsg } from '@nats-io/jetstream'
import type { Bus } from '../../bus/connect.ts'
import { backOffMs, pause } from '../../bus/handle.ts'
import { asking, natsHeaders } from '../../bus/publish.ts'
import { type Call, type CallNote, callHeader, noteMs, replyHeader } from '../../schemas/functions/call.ts'
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
const ackWaitMs = 2_000
const prefetch = 512
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
  clearInterval(notes)
}

interface Held {
  readonly call: Call
  readonly since: number
}

class Serving {
  readonly #bus: Bus
  readonly #options: CallsOptions
  readonly #held = new Set<Held>()
  #free = Promise.withResolvers<void>()

  constructor(bus: Bus, options: CallsOptions) {
    this.#bus = bus
    this.#options = options
  }

  /** Throws when fetching fails. */
  async fetchUntil(signal: AbortSignal, onReady: () => void): Promise<void> {
    const consumer = await openConsumer(this.#bus)
    const messages = await asking(this.#bus, () => consumer.consume({ max_messages: prefetch }))
    const stop = () => void messages.close()
    signal.addEventListener('abort', stop)
    const status = this.#bus.connection.status()
    void closeOnReconnect(status, messages)
    onReady()
    this.#options.onObservation({ type: 'calls-ready' })
    try {
      for await (const message of messages) {
        if (signal.aborted) message.nak()
        else this.#take(message)
        while (this.#held.size >= this.#options.maxCalls && !signal.aborted) await this.#free.promise
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
    const byInbox = new Map<string, string[]>()
    for (const { call, since } of this.#held) {
      if (since > before || call.reply === undefined) continue
      const inbox = inboxOf(call.reply)
      const ids = byInbox.get(inbox) ?? []
      ids.push(call.id)
      byInbox.set(inbox, ids)
    }
    for (const [inbox, ids] of byInbox) this.#send(inbox, ids)
  }

  async drained(withinMs: number): Promise<void> {
    const end = performance.now() + withinMs
    while (this.#held.size > 0 && performance.now() < end) {
      await Promise.race([this.#free.promise, pause(end - performance.now(), new AbortController().signal)])
    }
  }

  #take(message: JsMsg): void {
    const call = JSON.parse(message.headers?.get(callHeader) ?? 'null') as Call | null
    if (call === null || call.deadlineAt < Date.now()) {
      message.term('nobody waits for its answer')
      return
    }
    // Before the acknowledgement: a gateway that finds the call in the stream no more has heard of it.
    if (message.info.deliveryCount > 1 && call.reply !== undefined) this.#send(inboxOf(call.reply), [call.id])
    message.ack()
    const held = { call, since: performance.now() }
    this.#held.add(held)
    void this.#answer(call, message.data).finally(() => {
      this.#held.delete(held)
      this.#free.resolve()
      this.#free = Promise.withResolvers()
    })
  }

  async #answer(call: Call, request: Uint8Array): Promise<void> {
    const { reply, body } = await this.#options.run(call, request)
    if (call.reply === undefined) return
    const { connection } = this.#bus
    const headers = natsHeaders({ [replyHeader]: JSON.stringify(reply) })
    const fits = body.length + headerRoomBytes < (connection.info?.max_payload ?? 1_048_576)
    try {
      if (fits) return connection.publish(call.reply, body, { headers })
      const { durationMs, worker } = reply
      const fault = { code: 'output-too-large', message: 'The result is larger than the bus takes' } as const
      const told = natsHeaders({ [replyHeader]: JSON.stringify({ status: 500, fault, durationMs, worker }) })
      connection.publish(call.reply, '', { headers: told })
    } catch {
      // The connection is closed: the gateway finds the call lost.
    }
  }

  #send(inbox: string, ids: CallNote): void {
    if (!this.#bus.connection.isClosed()) this.#bus.connection.publish(`${inbox}.note`, JSON.stringify(ids))
  }
}

/** Room for the headers of an answer. */
const headerRoomBytes = 64 * 1024

function inboxOf(reply: string): string {
  return reply.slice(0, reply.lastIndexOf('.'))
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
