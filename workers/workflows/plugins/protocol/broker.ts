import { isUtf8 } from 'node:buffer'
import { TaskFailure, type TaskRun } from '../../plugin.ts'
import type { ServerPlace } from '../server-properties.ts'
import type { BrokerInput } from './broker-properties.ts'

/** A connection to a message broker, whatever it speaks. */
export interface Broker {
  /** @returns what the broker says of it */
  publish(message: OutgoingMessage): Promise<Record<string, unknown>>
  /** Waits until enough have come, or for as long as one waits. */
  receive(inbox: Inbox): Promise<void>
  /** The answer goes into the inbox. */
  request(message: OutgoingMessage, inbox: Inbox): Promise<void>
  /** @returns the value of the key; null when there is none */
  key?(operation: 'keyGet' | 'keyPut' | 'keyDelete', value: Buffer): Promise<string | null>
  /** Lets go of every connection; never throws. */
  close(): void | Promise<void>
}

export interface BrokerRun {
  readonly given: TaskRun<BrokerInput>
  readonly place: ServerPlace
  /** Rejects when the task is cancelled or the connection breaks. */
  readonly broken: Broken
}

export interface OutgoingMessage {
  readonly topic: string
  readonly payload: Buffer
  /** The same for every attempt. */
  readonly id: string
}

interface IncomingMessage {
  readonly topic: string
  readonly payload: string
  readonly encoding: 'utf8' | 'base64'
  readonly headers: Readonly<Record<string, unknown>>
}

/** What ends all waiting. */
export class Broken {
  readonly promise: Promise<never>
  readonly fail: (error: unknown) => void

  constructor(signal: AbortSignal) {
    const { promise, reject } = Promise.withResolvers<never>()
    promise.catch(() => undefined)
    this.promise = promise
    this.fail = reject
    if (signal.aborted) reject(signal.reason)
    else signal.addEventListener('abort', () => reject(signal.reason), { once: true })
  }

  or<T>(work: Promise<T>): Promise<T> {
    return Promise.race([work, this.promise])
  }
}

/** Messages within bounds. */
export class Inbox {
  readonly messages: IncomingMessage[] = []
  readonly #limits: Pick<BrokerInput, 'maxMessages' | 'maxBytes' | 'waitMs'>
  readonly #counts: (payload: string) => boolean
  readonly #full = Promise.withResolvers<void>()
  #sizeBytes = 0

  /** @param counts says which are wanted; default: all */
  constructor(
    limits: Pick<BrokerInput, 'maxMessages' | 'maxBytes' | 'waitMs'>,
    counts: (payload: string) => boolean = () => true,
  ) {
    this.#limits = limits
    this.#counts = counts
    this.#full.promise.catch(() => undefined)
    if (this.isFull) this.#full.resolve()
  }

  get isFull(): boolean {
    return this.messages.length >= this.#limits.maxMessages
  }

  /** @returns false for one that is no longer wanted */
  add(topic: string, bytes: Uint8Array, headers: Readonly<Record<string, unknown>>): boolean {
    if (this.isFull) return false
    this.#sizeBytes += bytes.length
    const { maxBytes } = this.#limits
    if (this.#sizeBytes > maxBytes) {
      this.#full.reject(new TaskFailure('refused', `The messages are more than ${maxBytes} bytes`))
      return false
    }
    const encoding = isUtf8(bytes) ? 'utf8' : 'base64'
    const payload = Buffer.from(bytes).toString(encoding)
    if (!this.#counts(payload)) return true
    this.messages.push({ topic, payload, encoding, headers })
    if (this.isFull) this.#full.resolve()
    return true
  }

  /** Nothing comes any more. */
  end(): void {
    this.#full.resolve()
  }

  /** Until it is full, or for as long as one waits. */
  async wait(broken: Broken): Promise<void> {
    const late = Promise.withResolvers<void>()
    const timer = setTimeout(late.resolve, this.#limits.waitMs)
    try {
      await broken.or(Promise.race([this.#full.promise, late.promise]))
    } finally {
      clearTimeout(timer)
    }
  }
}
