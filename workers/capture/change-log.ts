import {
  JetStreamApiError,
  type JetStreamClient,
  type JetStreamManager,
  jetstream,
  jetstreamManager,
  type MsgRequest,
} from '@nats-io/jetstream'
import { headers, type MsgHdrs, type NatsConnection } from '@nats-io/nats-core'
import { changeHeader } from '../../schemas/data/change.ts'
import { formatLsn, parseLsn } from './lsn.ts'

/** A change's place in the order of its source: the commit it came with, and which one of the commit it is. */
export interface Position {
  readonly lsn: bigint
  readonly index: number
}

export interface ChangeMessage {
  readonly subject: string
  readonly body: string
  readonly position: Position
  /** Transaction id. */
  readonly transaction: number | string
  readonly command?: string
  /** Columns left out because the message would be too large. */
  readonly omitted?: readonly string[]
  /** Where to read from to get its transaction again, for databases that do not keep that for us. */
  readonly resume?: string
}

export interface ChangeLogOptions {
  readonly bus: NatsConnection
  readonly streamName: string
  /** What all subjects of the source match. */
  readonly subjects: string
  readonly slotName: string
}

interface Origin {
  /** Digest of the database's identity. */
  readonly origin: string
}

/** Another message came between ours: what lies on the stream must be read again before anything is added. */
export class PublishConflict extends Error {
  override readonly name = 'PublishConflict'
}

/** The second comes while messages before ours are not stored yet. */
const wrongLastSequence: ReadonlySet<number> = new Set([10_071, 10_164])
const noMessageFound = 10_037
const ackTimeoutMs = 10_000
const windowMessages = 1_024
const windowBytes = 4 * 1024 * 1024
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

interface PublisherOptions extends ChangeLogOptions, Origin {
  readonly window: number
  /** Sequence of the message of ours that the next one follows. */
  readonly followsOwn: number
  /** Sequence of the message that the next one follows; null: any. */
  readonly follows: number | null
  /** Called with the number of messages that are stored without a hole. */
  readonly onStored: (count: number) => void
}

interface Gathered {
  readonly message: ChangeMessage
  readonly body: Buffer
  /** How many were given before it. */
  readonly ordinal: number
}

export class ChangePublisher {
  readonly #client: JetStreamClient
  readonly #options: PublisherOptions
  readonly #failed = Promise.withResolvers<never>()
  #followsOwn: number
  #follows: number | null
  #sent = 0
  #stored = 0
  #flyingBytes = 0
  /** Answers that came before those of earlier messages. */
  readonly #early = new Set<number>()
  readonly #gathered: Gathered[] = []
  #room: PromiseWithResolvers<void> | null = null
  #broken = false

  constructor(client: JetStreamClient, options: PublisherOptions) {
    this.#client = client
    this.#options = options
    this.#followsOwn = options.followsOwn
    this.#follows = options.follows
    this.#failed.promise.catch(() => undefined)
  }

  /** Rejects when a message could not be stored; nothing is sent from then on. */
  get failed(): Promise<never> {
    return this.#failed.promise
  }

  /** Messages given to `publish` so far. */
  get sent(): number {
    return this.#sent
  }

  get idle(): boolean {
    return this.#stored === this.#sent
  }

  /** Resolves when there is room for more; returns nothing when there is room already. */
  publish(message: ChangeMessage): Promise<void> | undefined {
    if (this.#broken) return this.#failed.promise
    const body = Buffer.from(message.body)
    this.#sent += 1
    this.#flyingBytes += body.length
    if (this.#gathered.length === 0) setImmediate(() => this.#sendGathered())
    this.#gathered.push({ message, body, ordinal: this.#sent - 1 })
    return this.#hasRoom() ? undefined : this.#waitForRoom()
  }

  /** What one piece of WAL brought goes out as one piece: a write to the socket for each message takes longer than all else. */
  #sendGathered(): void {
    for (const each of this.#gathered.splice(0)) if (!this.#broken) this.#send(each)
  }

  #send({ message, body, ordinal }: Gathered): void {
    const { slotName, origin, subjects } = this.#options
    const lsn = formatLsn(message.position.lsn)
    const publishing = this.#client.publish(message.subject, body, {
      // The numbers of GTIDs are unique by their source only.
      msgID: `${slotName}/${typeof message.transaction === 'string' ? message.transaction : lsn}/${message.position.index}`,
      headers: headersOf(message, lsn, origin),
      timeout: ackTimeoutMs,
      expect: {
        lastSubjectSequence: this.#followsOwn,
        lastSubjectSequenceSubject: subjects,
        ...(this.#follows === null ? {} : { lastSequence: this.#follows }),
      },
    })
    if (this.#follows !== null) {
      this.#follows += 1
      this.#followsOwn = this.#follows
    }
    publishing.then(
      ({ duplicate, seq }) => {
        // It lies there already, so that those behind it follow another sequence than they state.
        if (duplicate) return this.#fail(new PublishConflict('A message is on the stream already'))
        if (this.#follows === null) this.#followsOwn = seq
        this.#store(ordinal, body.length)
      },
      (error: unknown) => this.#fail(asConflict(error)),
    )
  }

  #hasRoom(): boolean {
    return this.#sent - this.#stored < this.#options.window && this.#flyingBytes < windowBytes
  }

  async #waitForRoom(): Promise<void> {
    while (!this.#hasRoom()) {
      if (this.#broken) return this.#failed.promise
      // Not raced with `failed`: what is raced is remembered by the promise for as long as it is open.
      this.#room ??= Promise.withResolvers()
      await this.#room.promise
    }
  }

  #store(ordinal: number, size: number): void {
    this.#flyingBytes -= size
    if (ordinal !== this.#stored) this.#early.add(ordinal)
    else {
      this.#stored += 1
      while (this.#early.delete(this.#stored)) this.#stored += 1
      this.#options.onStored(this.#stored)
    }
    if (this.#room && this.#hasRoom()) {
      this.#room.resolve()
      this.#room = null
    }
  }

  #fail(error: unknown): void {
    this.#broken = true
    this.#failed.reject(error)
    this.#room?.reject(error)
  }
}

function headersOf(
  { position, transaction, command, omitted, resume }: ChangeMessage,
  lsn: string,
  origin: string,
): MsgHdrs {
  const head = headers()
  head.set(changeHeader.lsn, lsn)
  head.set(changeHeader.index, String(position.index))
  head.set(changeHeader.transaction, String(transaction))
  head.set(changeHeader.origin, origin)
  if (command !== undefined) head.set(changeHeader.command, command)
  if (omitted !== undefined) head.set(changeHeader.omitted, JSON.stringify(omitted))
  if (resume !== undefined) head.set(changeHeader.resume, resume)
  return head
}

async function lastMessage(manager: JetStreamManager, stream: string, query: MsgRequest) {
  try {
    return await manager.streams.getMessage(stream, query)
  } catch (error) {
    if (error instanceof JetStreamApiError && error.code === noMessageFound) return null
    throw error
  }
}

function positionOf(head: MsgHdrs): Position | null {
  const lsn = head.get(changeHeader.lsn)
  const index = Number(head.get(changeHeader.index))
  return lsn === '' || Number.isNaN(index) ? null : { lsn: parseLsn(lsn), index }
}

function asConflict(error: unknown): unknown {
  const conflict = error instanceof JetStreamApiError && wrongLastSequence.has(error.code)
  return conflict ? new PublishConflict('The stream has grown by other messages', { cause: error }) : error
}
