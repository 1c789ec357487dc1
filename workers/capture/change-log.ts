import {
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
  jetstream,
  jetstreamManager,
  type MsgRequest,
} from '@nats-io/jetstream'
import { headers, type NatsConnection } from '@nats-io/nats-core'
import { changeHeader } from '../../schemas/data/change.ts'
import { type Position, positionOf } from './change-message.ts'
import { ackTimeoutMs, ChangePublisher } from './change-publisher.ts'

export interface ChangeLogOptions {
  readonly bus: NatsConnection
  readonly streamName: string
  /** What all subjects of the source match. */
  readonly subjects: string
  readonly slotName: string
}

const noMessageFound = 10_037
const windowMessages = 1_024
/** Room for the headers and what the server adds. */
const headroomBytes = 4_096

/** The changes of one source on their stream. */
export class ChangeLog {
  readonly #options: ChangeLogOptions
  readonly #client: JetStreamClient
  #shared = false

  constructor(options: ChangeLogOptions) {
    this.#options = options
    this.#client = jetstream(options.bus)
  }

  /** Where the stream stands; `last` is null when it holds nothing of the source. */
  async state(): Promise<LogState> {
    const { streamName, subjects } = this.#options
    const manager: JetStreamManager = await jetstreamManager(this.#options.bus, { checkAPI: false })
    const { state, config } = await manager.streams.info(streamName)
    // Asked second: a late message of a predecessor that comes in between is ours and the newest.
    const last = await lastMessage(manager, streamName, { last_by_subj: subjects })
    const lastSequence = Math.max(state.last_seq, last?.seq ?? 0)
    const foreign =
      lastSequence === (last?.seq ?? 0) ? null : await lastMessage(manager, streamName, { seq: lastSequence })
    const maxPayload = this.#options.bus.info?.max_payload ?? 1_048_576
    return {
      last: last ? positionOf(last.header) : null,
      origin: last?.header.get(changeHeader.origin) ?? '',
      resume: last?.header.get(changeHeader.resume) ?? '',
      transaction: last?.header.get(changeHeader.transaction) ?? '',
      isGap: last?.subject.endsWith('.gap') === true && last.subject.split('.').length === 3,
      lastSequence,
      lastOwnSequence: last?.seq ?? 0,
      isShared: foreign !== null,
      maxBodyBytes: (config.max_msg_size > 0 ? Math.min(maxPayload, config.max_msg_size) : maxPayload) - headroomBytes,
    }
  }

  /**
   * Adds to the stream from where it stands. Messages lie on it in the order of the calls and without holes, whatever fails: each
   * states which one of ours it follows, and that nothing came in between. Without the first, a stranger's message in the place of
   * one of ours would let the next one pass; without the second, one of ours that comes late would.
   */
  publisher(state: LogState, origin: string, onStored: (count: number) => void): ChangePublisher {
    return new ChangePublisher(this.#client, {
      ...this.#options,
      origin,
      onStored,
      // Beside the writers of other sources our next sequence cannot be foretold: one at a time then.
      window: this.#shared ? 1 : windowMessages,
      followsOwn: state.lastOwnSequence,
      follows: this.#shared ? null : state.lastSequence,
    })
  }

  /** After a conflict: tells whether the stream has other writers. */
  noteConflict(state: LogState): void {
    if (state.isShared) this.#shared = true
  }

  /** Tells all readers that changes may be missing here. What follows starts anew. */
  async publishGap(
    subject: string,
    reason: string,
    from?: { readonly origin: string; readonly resume: string },
  ): Promise<void> {
    const head = headers()
    head.set(changeHeader.lsn, '0/0')
    head.set(changeHeader.index, '-1')
    if (from !== undefined) {
      head.set(changeHeader.origin, from.origin)
      head.set(changeHeader.resume, from.resume)
    }
    await this.#client.publish(subject, JSON.stringify({ reason, timestamp: Date.now() }), {
      headers: head,
      timeout: ackTimeoutMs,
    })
  }
}

export interface LogState {
  readonly last: Position | null
  /** Of the last message; empty when there is none. */
  readonly origin: string
  /** What the last message says of where to read from; empty when it says nothing. */
  readonly resume: string
  /** Id of the last message's transaction; empty when it has none. */
  readonly transaction: string
  /** The last message is a gap marker. */
  readonly isGap: boolean
  readonly lastSequence: number
  /** 0 when there is none. */
  readonly lastOwnSequence: number
  /** The newest message is of another source. */
  readonly isShared: boolean
  /** What a message's body may have, its headers left out. */
  readonly maxBodyBytes: number
}

async function lastMessage(manager: JetStreamManager, stream: string, query: MsgRequest) {
  try {
    return await manager.streams.getMessage(stream, query)
  } catch (error) {
    if (error instanceof JetStreamApiError && error.code === noMessageFound) return null
    throw error
  }
}
