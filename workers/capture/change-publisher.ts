import { JetStreamApiError, type JetStreamClient } from '@nats-io/jetstream'
import { type ChangeMessage, headersOf } from './change-message.ts'
import { formatLsn } from './lsn.ts'

/** Another message came between ours: what lies on the stream must be read again before anything is added. */
export class PublishConflict extends Error {
  override readonly name = 'PublishConflict'
}

/** The second comes while messages before ours are not stored yet. */
const wrongLastSequence: ReadonlySet<number> = new Set([10_071, 10_164])
export const ackTimeoutMs = 10_000
const windowBytes = 4 * 1024 * 1024

export interface PublisherOptions {
  /** What all subjects of the source match. */
  readonly subjects: string
  readonly slotName: string
  /** Digest of the database's identity. */
  readonly origin: string
  /** Most messages under way. */
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

/** Keeps many messages under way, in order and without holes; see `ChangeLog.publisher`. */
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

function asConflict(error: unknown): unknown {
  const conflict = error instanceof JetStreamApiError && wrongLastSequence.has(error.code)
  return conflict ? new PublishConflict('The stream has grown by other messages', { cause: error }) : error
}
