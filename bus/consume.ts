import {
  AckPolicy,
  type Consumer,
  type ConsumerMessages,
  DeliverPolicy,
  JetStreamApiError,
  type JsMsg,
} from '@nats-io/jetstream'
import { type Bus, BusUnavailable } from './connect.ts'
import { backOffMs, defaultAckWaitMs, type HandleObservation, type HandleOptions, handleMessage } from './handle.ts'
import { pauseUnlessBack } from './pause.ts'
import { asking } from './publish.ts'

export type ConsumeObservation =
  | HandleObservation
  /** Messages are being fetched, at first and after each trouble. */
  | { readonly type: 'consumer-ready'; readonly consumer: string }
  /** Nothing can be fetched; it is tried again after the delay. */
  | { readonly type: 'consumer-trouble'; readonly consumer: string; readonly delayMs: number; readonly error: unknown }
  | { readonly type: 'consumer-drained'; readonly consumer: string }

export interface ConsumeOptions extends Omit<HandleOptions, 'onObservation'> {
  readonly stream: string
  /** Only these. Default: the whole stream. */
  readonly subjects?: readonly string[]
  /** How many messages this copy handles at a time; no more are fetched. Default 16. */
  readonly concurrency?: number
  /** How many messages all copies together may have in hand. Default 1,000. */
  readonly maxAckPending?: number
  /**
   * How long a request for messages is open before it is made anew. One that has frozen, or whose machine has lost its power, is given
   * messages until then. Default 5,000; 1,000 at least.
   */
  readonly fetchMs?: number
  /** Where a new consumer begins; `since`: with what was stored from then on, epoch ms. Default `start`. */
  readonly from?: 'start' | 'now' | { readonly since: number }
  /** How long a drain waits for what is in flight. Default 20,000. */
  readonly drainMs?: number
  readonly onObservation?: (observation: ConsumeObservation) => void
}

/**
 * Handles the messages of a stream until the signal is aborted, then lets what is in flight finish, or hands it back, and
 * resolves. All copies of a worker share one durable consumer. A message is handled at least once; it is acknowledged when its
 * handler is done. Lost connections, restarted servers and deleted consumers are outlived.
 */
export async function consume(bus: Bus, options: ConsumeOptions, signal: AbortSignal): Promise<void> {
  const late = new AbortController()
  const loop = new Loop(bus, options, { now: signal, late: late.signal })
  const { consumer, drainMs = 20_000, onObservation } = options
  for (let troubles = 0; !signal.aborted; ) {
    try {
      await loop.run(() => {
        troubles = 0
      })
    } catch (error) {
      // What was away is back: nothing is gained by waiting.
      troubles = error instanceof ConnectionBack ? 0 : troubles + 1
      const delayMs = troubles === 0 ? 0 : Math.min(5_000, backOffMs(troubles) / 4)
      onObservation?.({ type: 'consumer-trouble', consumer, delayMs, error })
      if (delayMs > 0) await pauseUnlessBack(bus, delayMs, signal)
    }
  }
  const timer = setTimeout(() => late.abort(), drainMs)
  await loop.finished()
  clearTimeout(timer)
  // So that the last acknowledgements are on their way before the caller closes the connection.
  if (bus.connected) await bus.connection.flush().catch(() => undefined)
  onObservation?.({ type: 'consumer-drained', consumer })
}

const defaultFetchMs = 5_000
/** What the server says when a consumer of that name has other settings. */
const consumerExists = 10148
const nanosPerMs = 1_000_000

/** The server has forgotten the requests that were open. */
class ConnectionBack extends Error {
  override readonly name = 'ConnectionBack'
}

class Loop {
  readonly #bus: Bus
  readonly #options: ConsumeOptions
  readonly #stop: Parameters<typeof handleMessage>[3]
  readonly #concurrency: number
  readonly #inFlight = new Set<Promise<void>>()
  readonly #fetches = new Set<Promise<void>>()
  readonly #open = new Set<ConsumerMessages>()
  /** Messages that are asked for and have not come. */
  #asked = 0
  #closing = false
  #failure: { readonly error: unknown } | null = null
  #wake = Promise.withResolvers<void>()

  constructor(bus: Bus, options: ConsumeOptions, stop: Parameters<typeof handleMessage>[3]) {
    this.#bus = bus
    this.#options = options
    this.#stop = stop
    this.#concurrency = options.concurrency ?? 16
  }

  /** Fetches and handles until it is stopped; throws when fetching fails. */
  async run(onReady: () => void): Promise<void> {
    const { consumer: name, onObservation } = this.#options
    const consumer = await this.#consumer()
    onReady()
    onObservation?.({ type: 'consumer-ready', consumer: name })
    this.#failure = null
    this.#closing = false
    const end = () => this.#wake.resolve()
    this.#stop.now.addEventListener('abort', end)
    const forget = this.#bus.onReconnect(() => {
      this.#failure ??= { error: new ConnectionBack('The connection was lost and is back') }
      this.#wake.resolve()
    })
    const forgetLoss = this.#bus.onDisconnect(() => {
      if (!this.#bus.connection.isClosed()) return
      this.#failure ??= { error: new BusUnavailable('The connection is closed') }
      this.#wake.resolve()
    })
    try {
      while (!this.#stop.now.aborted && this.#failure === null) {
        this.#wake = Promise.withResolvers()
        const free = this.#concurrency - this.#inFlight.size - this.#asked
        // While a request is open its answer brings the next: many small ones cost more than they gain.
        if (free > 0 && (this.#asked === 0 || free >= this.#concurrency / 2)) this.#fetch(consumer, free)
        await this.#wake.promise
      }
    } finally {
      this.#stop.now.removeEventListener('abort', end)
      forget()
      forgetLoss()
      this.#closing = true
      await Promise.all([...this.#open].map((messages) => messages.close()))
      await Promise.all(this.#fetches)
    }
    const failure = this.#failure as { readonly error: unknown } | null
    if (failure !== null) throw failure.error
  }

  async finished(): Promise<void> {
    await Promise.all(this.#inFlight)
  }

  #fetch(consumer: Consumer, count: number): void {
    const fetching = this.#fetchMessages(consumer, count).finally(() => this.#fetches.delete(fetching))
    this.#fetches.add(fetching)
  }

  async #fetchMessages(consumer: Consumer, count: number): Promise<void> {
    let left = count
    this.#asked += count
    let messages: ConsumerMessages | undefined
    try {
      messages = await consumer.fetch({ max_messages: count, expires: this.#options.fetchMs ?? defaultFetchMs })
      this.#open.add(messages)
      // It was opened while the others were being closed. Not awaited: it is closed once the loop below has seen its end.
      if (this.#closing) void messages.close()
      for await (const message of messages) {
        left--
        this.#asked--
        this.#handle(message)
      }
    } catch (error) {
      this.#failure ??= { error }
    } finally {
      if (messages !== undefined) this.#open.delete(messages)
      this.#asked -= left
      this.#wake.resolve()
    }
  }

  #handle(message: JsMsg): void {
    // It came while the request was being closed.
    if (this.#stop.now.aborted) {
      message.nak()
      return
    }
    const work = handleMessage(this.#bus, message, this.#options, this.#stop).finally(() => {
      this.#inFlight.delete(work)
      this.#wake.resolve()
    })
    this.#inFlight.add(work)
  }

  async #consumer(): Promise<Consumer> {
    const { stream, consumer, subjects = [], ackWaitMs = defaultAckWaitMs, maxAckPending = 1_000, from } = this.#options
    const settings = {
      ack_wait: ackWaitMs * nanosPerMs,
      // Counted by the handler: the server would leave the message lying.
      max_deliver: -1,
      max_ack_pending: maxAckPending,
      ...(subjects.length > 0 && { filter_subjects: [...subjects] }),
    }
    const { consumers } = this.#bus.manager
    const created = {
      ...settings,
      durable_name: consumer,
      ack_policy: AckPolicy.Explicit,
      ...beginning(from),
    }
    const info = await asking(this.#bus, () => consumers.add(stream, created)).catch((error) => {
      if (!(error instanceof JetStreamApiError) || error.code !== consumerExists) throw error
      return asking(this.#bus, () => consumers.update(stream, consumer, settings))
    })
    return this.#bus.jetstream.consumers.getConsumerFromInfo(info)
  }
}

function beginning(from: ConsumeOptions['from']) {
  if (typeof from === 'object') {
    return { deliver_policy: DeliverPolicy.StartTime, opt_start_time: new Date(from.since).toISOString() }
  }
  return { deliver_policy: from === 'now' ? DeliverPolicy.New : DeliverPolicy.All }
}
