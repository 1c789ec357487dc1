import { createHash } from 'node:crypto'
import type { Bus } from '../../bus/connect.ts'
import { type ConsumeObservation, consume } from '../../bus/consume.ts'
import { messageIdHeader } from '../../bus/envelope.ts'
import type { Delivery } from '../../bus/handle.ts'
import { causedId } from '../../bus/message.ts'
import { asking, publish } from '../../bus/publish.ts'
import { invocationSubject, outcomeSubject } from '../../bus/subject.ts'
import { maxOutcomeBytes } from '../../bus/topology.ts'
import {
  type Call,
  callHeader,
  callStart,
  type FaultCode,
  type Outcome,
  outcomeHeader,
  readReplyHead,
} from '../../schemas/functions/call.ts'
import type { CallTarget } from '../../schemas/functions/target.ts'
import { failed, type Runner, type RunResult } from './runner.ts'

export interface InvocationsOptions {
  readonly run: Runner
  readonly onObservation: (observation: ConsumeObservation) => void
}

/** Not the function's doing: tried again with the same invocation id, so often at most. */
const passing: ReadonlySet<FaultCode> = new Set(['host-died', 'too-many-calls', 'internal'])
const maxAttempts = 5
/** A worker that is gone is missed after this. */
const ackWaitMs = 5_000
const concurrency = 32
/** All headers of a message have 64 KB. */
const maxHeaderBytes = 60_000
/** Room for what stands around an outcome. */
const frameBytes = 1_024

/** An attempt that is not the last one failed. */
class InvocationRetry extends Error {
  override readonly name = 'InvocationRetry'
}

/** Runs asynchronous calls, each until there is an outcome; acknowledged behind the work. */
export function serveInvocations(bus: Bus, { run, onObservation }: InvocationsOptions, signal: AbortSignal) {
  return consume(
    bus,
    {
      stream: 'INVOCATIONS',
      consumer: 'workers-functions-invocations',
      concurrency,
      ackWaitMs,
      handle: (delivery) => handle(bus, run, delivery),
      onObservation,
    },
    signal,
  )
}

async function handle(bus: Bus, run: Runner, { headers, data, deliveryCount }: Delivery): Promise<void> {
  const call = JSON.parse(headers.get(callHeader)) as Call
  if (await hasOutcome(bus, call.id)) return
  const held = { id: call.id, target: call, start: callStart(call, call.id, call), body: data }
  const result = await new Promise<RunResult>((resolve) => run(held, resolve, deliveryCount > 1))
  const { fault } = result
  if (fault !== null && passing.has(fault.code) && deliveryCount < maxAttempts) {
    throw new InvocationRetry(`Attempt ${deliveryCount} of invocation ${call.id} failed: ${fault.code}`)
  }
  await keepOutcome(bus, call, result)
}

async function hasOutcome(bus: Bus, id: string): Promise<boolean> {
  const query = { last_by_subj: outcomeSubject(id) }
  return (await asking(bus, () => bus.manager.direct.getMessage('OUTCOMES', query))) !== null
}

async function keepOutcome(bus: Bus, { id, fn }: Call, result: RunResult): Promise<void> {
  let kept = outcomeOf(fn, result)
  const largest = Math.min(bus.connection.info?.max_payload ?? 1_048_576, maxOutcomeBytes) - frameBytes
  const headerBytes = Buffer.byteLength(kept.header)
  if (headerBytes > maxHeaderBytes || headerBytes + kept.body.length > largest) {
    const fault = { code: 'output-too-large', message: 'The result is larger than the bus takes' } as const
    kept = outcomeOf(fn, failed(fault, result.durationMs))
  }
  const headers = { [messageIdHeader]: causedId(id, 'outcome'), [outcomeHeader]: kept.header }
  await publish(bus, { subject: outcomeSubject(id), headers, body: kept.body })
}

function outcomeOf(fn: string, { head, body, durationMs }: RunResult) {
  const outcome: Outcome = { ...readReplyHead(head), fn, durationMs, finishedAt: Date.now() }
  return { header: JSON.stringify(outcome), body }
}

/**
 * Stores a call that a trigger makes, under an id that the same cause always gets: so it is made once.
 *
 * @throws {BusUnavailable}
 */
export async function triggerInvocation(
  bus: Bus,
  target: CallTarget,
  cause: { readonly id: readonly string[]; readonly path: string; readonly body: Uint8Array | string },
): Promise<void> {
  const digest = createHash('sha256').update(JSON.stringify([target.fn, ...cause.id]))
  const id = digest.digest('base64url').slice(0, 40)
  const headers = { 'content-type': 'application/json' }
  const request = { method: 'POST', path: cause.path, query: {}, headers }
  const call: Call = { id, ...target, at: Date.now(), ...request }
  await publish(bus, {
    subject: invocationSubject(id),
    headers: { [messageIdHeader]: id, [callHeader]: JSON.stringify(call) },
    body: cause.body,
  })
}
