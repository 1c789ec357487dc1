import { randomBytes } from 'node:crypto'
import type { HeaderReader } from './envelope.ts'

/** Where in a distributed trace something happens. Source: https://www.w3.org/TR/trace-context/ */
export interface Trace {
  /** 32 lower-case hex digits. */
  readonly traceId: string
  /** 16 lower-case hex digits. */
  readonly spanId: string
  readonly sampled: boolean
}

const header = 'traceparent'
const pattern = /^([0-9a-f]{2})-([0-9a-f]{32})-([0-9a-f]{16})-([0-9a-f]{2})(-.*)?$/

/** Null for what is not a traceparent: a broken header must not stop a request. */
export function parseTrace(traceparent: string | undefined): Trace | null {
  const [, version, traceId, spanId, flags, rest] = pattern.exec(traceparent ?? '') ?? []
  if (version === undefined || version === 'ff' || (version === '00' && rest !== undefined)) return null
  if (/^0+$/.test(traceId!) || /^0+$/.test(spanId!)) return null
  return { traceId: traceId!, spanId: spanId!, sampled: (Number.parseInt(flags!, 16) & 1) === 1 }
}

export function formatTrace({ traceId, spanId, sampled }: Trace): string {
  return `00-${traceId}-${spanId}-${sampled ? '01' : '00'}`
}

export function newTrace(): Trace {
  return { traceId: identifier(16), spanId: identifier(8), sampled: true }
}

/** The next step of the same trace. */
export function childTrace(parent: Trace): Trace {
  return { ...parent, spanId: identifier(8) }
}

/** The trace that a message or a request belongs to; null when it says none. */
export function traceOf(headers: HeaderReader): Trace | null {
  return parseTrace(headers.get(header))
}

export function traceHeaders(trace: Trace): Readonly<Record<string, string>> {
  return { [header]: formatTrace(trace) }
}

/** All zeros means "none" and is not allowed. */
function identifier(bytes: number): string {
  const text = randomBytes(bytes).toString('hex')
  return /^0+$/.test(text) ? identifier(bytes) : text
}
