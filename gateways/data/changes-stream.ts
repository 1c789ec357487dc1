import {
  type ConsumerMessages,
  DeliverPolicy,
  type JetStreamManager,
  type JsMsg,
  jetstream,
  jetstreamManager,
  type OrderedConsumerOptions,
} from '@nats-io/jetstream'
import type { NatsConnection } from '@nats-io/nats-core'
import { gapSubject, sourceSubjects } from '../../bus/subject.ts'
import { changeHeader, type GapMarker } from '../../schemas/data/change.ts'
import { Change, type ChangeType } from './changes-event.ts'
import type { Arrival } from './changes-ring.ts'

const types: Readonly<Record<string, ChangeType>> = {
  insert: 'INSERT',
  update: 'UPDATE',
  delete: 'DELETE',
  truncate: 'TRUNCATE',
}

export interface StreamBounds {
  readonly first: number
  readonly last: number
  /** When the first message was stored, epoch ms. */
  readonly firstAt: number
  /** When the last one was. */
  readonly lastAt: number
}

/** A consumer at work. */
export interface Tailing {
  readonly messages: ConsumerMessages
  /** Ends the messages. */
  stop(): void
  /** Tells the server that the consumer is not needed any more; otherwise it finds out after minutes. */
  forget(): Promise<void>
}

const fetchMs = 5_000

/** The changes of one source on their stream, for reading. */
export class ChangeStream {
  readonly #bus: NatsConnection
  readonly #streamName: string
  readonly #source: string

  constructor(bus: NatsConnection, streamName: string, source: string) {
    this.#bus = bus
    this.#streamName = streamName
    this.#source = source
  }

  async bounds(): Promise<StreamBounds> {
    const manager: JetStreamManager = await jetstreamManager(this.#bus, { checkAPI: false })
    const { state } = await manager.streams.info(this.#streamName)
    return {
      first: state.first_seq,
      last: state.last_seq,
      firstAt: momentOf(state.first_ts),
      lastAt: momentOf(state.last_ts),
    }
  }

  /** Everything from a sequence on as it comes. */
  async tail(from: number): Promise<Tailing> {
    const consumer = await jetstream(this.#bus).consumers.get(this.#streamName, {
      filter_subjects: sourceSubjects(this.#source),
      deliver_policy: DeliverPolicy.StartSequence,
      opt_start_seq: from,
    })
    const messages = await consumer.consume({ max_messages: 2_000 })
    const forget = async () => {
      await consumer.delete().catch(() => false)
    }
    return { messages, stop: () => messages.stop(), forget }
  }

  /** What the stream holds of a table from there on, at most so much of it; `complete` when that reaches its present end. */
  async history(
    table: string,
    from: number | Date,
    limit: number,
  ): Promise<{ readonly arrivals: readonly Arrival[]; readonly complete: boolean }> {
    const start: Partial<OrderedConsumerOptions> =
      from instanceof Date
        ? { deliver_policy: DeliverPolicy.StartTime, opt_start_time: from.toISOString() }
        : { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: from }
    const consumer = await jetstream(this.#bus).consumers.get(this.#streamName, {
      filter_subjects: [`${table}.*`, gapSubject(this.#source)],
      ...start,
    })
    try {
      const { num_pending: pending } = await consumer.info()
      if (pending === 0) return { arrivals: [], complete: true }
      const arrivals: Arrival[] = []
      let left = pending
      const messages = await consumer.fetch({ max_messages: Math.min(limit, pending), expires: fetchMs })
      for await (const message of messages) {
        left = message.info.pending
        const arrival = asArrival(message)
        if (arrival) arrivals.push(arrival)
      }
      return { arrivals, complete: left === 0 }
    } finally {
      // The server lets go of it by itself when this does not reach it.
      await consumer.delete().catch(() => false)
    }
  }
}

/** Null for what is of no concern to subscribers. */
export function asArrival(message: JsMsg): Arrival | null {
  const { seq: sequence, subject, headers } = message
  const receivedAt = Date.now()
  const lastDot = subject.lastIndexOf('.')
  const type = types[subject.slice(lastDot + 1)]
  const table = subject.slice(0, lastDot)
  if (type !== undefined && table.split('.').length === 4) {
    const transaction = Number(headers?.get(changeHeader.transaction) ?? 0)
    // The bytes are kept beyond the handler: they are part of a larger network chunk, which would be kept with them.
    const change = new Change({ sequence, type, transaction, receivedAt }, Buffer.from(message.data))
    return { sequence, receivedAt, table, change, gap: null }
  }
  if (subject.endsWith('.gap') && table.split('.').length === 2) {
    const { reason } = message.json<GapMarker>()
    return { sequence, receivedAt, table: null, change: null, gap: reason }
  }
  return null
}

/** The server gives the year 1 for never. */
function momentOf(text: string): number {
  return Math.max(Date.parse(text) || 0, 0)
}
