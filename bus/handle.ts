import type { JsMsg } from '@nats-io/jetstream'
import { type Bus, BusUnavailable } from './connect.ts'
import { buryMessage } from './dead.ts'
import type { HeaderReader } from './envelope.ts'
import { MessageMalformed } from './message.ts'
import { pause, pauseUnlessBack } from './pause.ts'

/** A message in the hands of a handler. */
export interface Delivery {
  readonly subject: string
  readonly headers: HeaderReader
  readonly data: Uint8Array
  readonly stream: string
  /** In the stream. */
  readonly sequence: number
  /** When the bus stored it, epoch ms. */
  readonly at: number
  /** 1 at first. */
  readonly deliveryCount: number
}

/**
 * What a failure means: `retry` hands the message back and has it delivered again later, `wait` keeps it and tries again here
 * (a passing fault: no delivery is used up and nothing else is fetched in its place), `dead` gives it up at once.
 */
export type Verdict = 'retry' | 'wait' | 'dead'

export type HandleObservation = { readonly consumer: string; readonly subject: string; readonly sequence: number } & (
  | { readonly type: 'message-handled'; readonly deliveryCount: number; readonly durationMs: number }
  | {
      readonly type: 'message-retried'
      readonly deliveryCount: number
      readonly delayMs: number
      readonly error: unknown
    }
  | { readonly type: 'message-waiting'; readonly delayMs: number; readonly error: unknown }
  | { readonly type: 'message-returned'; readonly reason: 'draining' }
  | { readonly type: 'message-dead'; readonly deliveryCount: number; readonly error: unknown }
  | { readonly type: 'message-not-buried'; readonly error: unknown }
)

export interface HandleOptions {
  /** Its file's path with dashes: `workers-workflows-decider`. */
  readonly consumer: string
  /**
   * Does the work. May run again for the same message: what it does must bear that. The signal is aborted when a drain has no
   * more time for it; the message is then handed back, whatever the handler does.
   */
  readonly handle: (delivery: Delivery, signal: AbortSignal) => Promise<void>
  /** Without a sign of life for this long a message is delivered to someone else. Signs are sent meanwhile. Default 30,000. */
  readonly ackWaitMs?: number
  /** How often a message is tried before it goes to DEAD. Default 10. */
  readonly maxDeliver?: number
  /** The same when those who had it were not heard of any more: more of them where `ackWaitMs` is short. Default `maxDeliver`. */
  readonly maxSilent?: number
  /** Before the next delivery. Default: from 1 s, doubled each time, at most 60 s, with jitter. */
  readonly delayMs?: (deliveryCount: number) => number
  /** Default: `Rejected` and `MessageMalformed` are dead, `Unavailable` and `BusUnavailable` wait, everything else is retried. */
  readonly judge?: (error: unknown) => Verdict
  /** Names of what happened, for logs and metrics. */
  readonly onObservation?: (observation: HandleObservation) => void
}

export const defaultAckWaitMs = 30_000
const defaultMaxDeliver = 10

/** A reason made once: the default one is made anew each time, with a stack. */
const done = new Error('The message is done with')

/** Handles one message to its end: acknowledged, handed back, or dead. Never throws. */
export async function handleMessage(bus: Bus, message: JsMsg, options: HandleOptions, stop: Stop): Promise<void> {
  // Aborted when the drain runs out of time, or the message is done with. One signal and no composite: this runs for every message.
  const life = new AbortController()
  const late = Promise.withResolvers<'late'>()
  const end = () => {
    life.abort(done)
    late.resolve('late')
  }
  if (stop.late.aborted) end()
  else stop.late.addEventListener('abort', end, { once: true })
  const heartbeat = setInterval(() => bus.connected && message.working(), (options.ackWaitMs ?? defaultAckWaitMs) / 3)
  const work = tries(bus, message, options, stop, life.signal)
  try {
    if (stop.late.aborted || (await Promise.race([work, late.promise])) === 'late') giveBack(message, options)
  } finally {
    clearInterval(heartbeat)
    stop.late.removeEventListener('abort', end)
    life.abort(done)
  }
}

/** `now`: fetch nothing more, wait for nothing. `late`: the time for finishing is over. */
export interface Stop {
  readonly now: AbortSignal
  readonly late: AbortSignal
}

async function tries(bus: Bus, message: JsMsg, options: HandleOptions, stop: Stop, ended: AbortSignal): Promise<void> {
  const { maxDeliver = defaultMaxDeliver, maxSilent = maxDeliver, judge = judged, delayMs = backOffMs } = options
  const { deliveryCount } = message.info
  const startedAt = performance.now()
  if (deliveryCount > maxSilent) {
    return bury(bus, message, options, new Error(`Delivered ${maxSilent} times and never finished`))
  }
  for (let attempt = 1; !ended.aborted; attempt++) {
    try {
      await options.handle(deliveryOf(message), ended)
      if (ended.aborted) return
      message.ack()
      const durationMs = performance.now() - startedAt
      return observe(message, options, { type: 'message-handled', deliveryCount, durationMs })
    } catch (error) {
      if (ended.aborted) return
      const verdict = judge(error)
      if (verdict === 'wait') {
        const pauseMs = retryAfterMs(error) ?? delayMs(attempt)
        observe(message, options, { type: 'message-waiting', delayMs: pauseMs, error })
        if (error instanceof BusUnavailable) await pauseUnlessBack(bus, pauseMs, stop.now)
        else await pause(pauseMs, stop.now)
        if (stop.now.aborted) return giveBack(message, options)
      } else if (verdict === 'dead' || deliveryCount >= maxDeliver) {
        return bury(bus, message, options, error)
      } else {
        const pauseMs = delayMs(deliveryCount)
        message.nak(pauseMs)
        return observe(message, options, { type: 'message-retried', deliveryCount, delayMs: pauseMs, error })
      }
    }
  }
}

async function bury(bus: Bus, message: JsMsg, options: HandleOptions, error: unknown): Promise<void> {
  try {
    await buryMessage(bus, options.consumer, message, error)
    message.term('dead letter')
    observe(message, options, { type: 'message-dead', deliveryCount: message.info.deliveryCount, error })
  } catch (cause) {
    // It stays where it is, and is tried again.
    message.nak((options.delayMs ?? backOffMs)(message.info.deliveryCount))
    observe(message, options, { type: 'message-not-buried', error: cause })
  }
}

function giveBack(message: JsMsg, options: HandleOptions): void {
  message.nak()
  observe(message, options, { type: 'message-returned', reason: 'draining' })
}

function deliveryOf(message: JsMsg): Delivery {
  const { stream, deliveryCount, timestampNanos } = message.info
  return {
    subject: message.subject,
    // The client has no headers object for a message without headers.
    headers: message.headers ?? { get: () => '' },
    data: message.data,
    stream,
    sequence: message.seq,
    at: Math.floor(timestampNanos / 1_000_000),
    deliveryCount,
  }
}

type Detail = HandleObservation extends infer O
  ? O extends unknown
    ? Omit<O, 'consumer' | 'subject' | 'sequence'>
    : never
  : never

function observe(message: JsMsg, { consumer, onObservation }: HandleOptions, detail: Detail): void {
  onObservation?.({ consumer, subject: message.subject, sequence: message.seq, ...detail } as HandleObservation)
}

/** By name, because the bus knows no component's errors. */
function judged(error: unknown): Verdict {
  const name = error instanceof Error ? error.name : ''
  if (name === 'Rejected' || error instanceof MessageMalformed) return 'dead'
  return error instanceof BusUnavailable || name === 'Unavailable' ? 'wait' : 'retry'
}

function retryAfterMs(error: unknown): number | undefined {
  const { retryAfterSeconds } = error as { retryAfterSeconds?: unknown }
  return typeof retryAfterSeconds === 'number' ? retryAfterSeconds * 1000 : undefined
}

const firstDelayMs = 1_000
const longestDelayMs = 60_000

/** Doubled each time from 1 s to 60 s, less up to a half of chance, so that many do not come back at once. */
export function backOffMs(count: number): number {
  const full = Math.min(longestDelayMs, firstDelayMs * 2 ** (count - 1))
  return Math.round(full * (1 - Math.random() / 2))
}
