import { setTimeout as sleep } from 'node:timers/promises'
import type { Bus } from '../../bus/connect.ts'
import { type Decided, decide } from '../../bus/decide.ts'
import { load } from '../../bus/load.ts'
import { eventSubject } from '../../bus/subject.ts'
import { also, decideTogether } from '../../bus/together.ts'
import { decideOnOperation, type Instance, type InstanceState, instance } from '../../schemas/provisioning/instance.ts'
import { facts, type InstanceFact, type OperationFailure } from '../../schemas/provisioning/instance-facts.ts'
import { decideRelease, namespace } from '../../schemas/provisioning/namespace.ts'
import { isUnderWay } from '../../schemas/provisioning/operation.ts'
import type { Driver, Plan, Step } from './driver.ts'
import { forgetPoints } from './watching.ts'

export type RunnerObservation = {
  readonly projectId: string
  readonly operationId: string
} & (
  | { readonly type: 'operation-step'; readonly operation: string; readonly step: string; readonly durationMs: number }
  | { readonly type: 'operation-retried'; readonly step: string; readonly error: unknown }
  | { readonly type: 'operation-undoing'; readonly step: string; readonly error: unknown }
  | { readonly type: 'operation-ended'; readonly operation: string; readonly state: 'SUCCEEDED' | 'FAILED' }
)

export interface RunnerOptions {
  readonly bus: Bus
  readonly driver: Driver
  readonly onObservation: (observation: RunnerObservation) => void
  /** What an error may tell the user. */
  readonly explain: (error: unknown) => { readonly code: string; readonly message: string; readonly details?: unknown }
}

const stream = 'EVT_PROVISIONING'
const actor = 'busbar'
/** How often a step is run again after a passing fault, before its operation is undone. */
const maxTries = 8
/** What an undo does should be done: it is tried for some minutes. */
const maxUndoTries = 20
const longestPauseMs = 30_000

export function instancePlace(projectName: string) {
  return { stream, subject: eventSubject('provisioning', 'instance', projectName) }
}

/**
 * Runs the operation that is under way on an instance to its end, from the step that is not done. Each step is recorded when it
 * is done, together with what it brought about; a killed worker's successor goes on at the same step.
 *
 * Resolves when there is nothing (more) to do here. @throws {BusUnavailable}; what the signal was aborted with
 */
export async function runOperation(options: RunnerOptions, projectName: string, signal: AbortSignal): Promise<void> {
  for (;;) {
    signal.throwIfAborted()
    const { state } = await load(options.bus, instance, instancePlace(projectName))
    if (state.stage !== 'wanted' || !isUnderWay(state.operation)) return
    if (state.place === null && !(await claim(options, state))) return
    if (state.place !== null && state.place !== options.driver.place) return
    const claimed = state.place === null ? { ...state, place: options.driver.place } : state
    await next(options, claimed, signal)
  }
}

/** False when it is for another place. */
async function claim({ bus, driver }: RunnerOptions, found: Instance): Promise<boolean> {
  // A copy is made where its source is.
  if (found.source !== null) {
    const { state } = await load(bus, instance, instancePlace(found.source.projectId))
    if (state.stage === 'wanted' && state.place !== null && state.place !== driver.place) return false
  }
  const { state } = await decide(bus, {
    ...instancePlace(found.projectName),
    aggregate: instance,
    actor,
    decide: (now) =>
      now.stage === 'wanted' && now.uid === found.uid && now.place === null
        ? [facts.placed.of({ place: driver.place, at: Date.now() })]
        : [],
  })
  return state.stage === 'wanted' && state.place === driver.place
}

async function next(options: RunnerOptions, found: Instance, signal: AbortSignal): Promise<void> {
  const { operation } = found
  const undoing = operation.state === 'UNDOING'
  let plan: Plan
  try {
    plan = options.driver.plan(operation.type, found)
  } catch (error) {
    await end(options, found, { failed: failureOf(options, error) })
    return
  }
  const steps = undoing ? plan.undo : plan.steps
  const step = steps.find(({ name }) => !operation.done.includes(name))
  if (step === undefined) {
    await end(options, found, undoing ? { failed: operation.error! } : { failed: null })
    return
  }
  await runStep(options, found, { step, isLast: step === steps.at(-1), undo: plan.undo.length > 0 }, signal)
}

interface Turn {
  readonly step: Step
  readonly isLast: boolean
  /** Whether there is anything to take back. */
  readonly undo: boolean
}

async function runStep(options: RunnerOptions, found: Instance, turn: Turn, signal: AbortSignal): Promise<void> {
  const { step } = turn
  const { operation, projectName: projectId } = found
  const undoing = operation.state === 'UNDOING'
  const tell = { projectId, operationId: operation.id }
  for (let attempt = 1; ; attempt++) {
    const startedAt = performance.now()
    try {
      const outcome = await step.run({ instance: found, operation, signal })
      signal.throwIfAborted()
      const at = Date.now()
      const { data = {}, facts: own = [] } = outcome ?? {}
      const done = facts.advanced.of({ operationId: operation.id, step: step.name, data: { ...data }, at })
      const durationMs = Math.round(performance.now() - startedAt)
      await record(options, found, [done, ...own, ...(turn.isLast && !undoing ? [succeeded(found, data, at)] : [])])
      options.onObservation({ type: 'operation-step', ...tell, operation: operation.type, step: step.name, durationMs })
      return
    } catch (error) {
      signal.throwIfAborted()
      if (isPassing(error, undoing) && attempt < (undoing ? maxUndoTries : maxTries)) {
        options.onObservation({ type: 'operation-retried', ...tell, step: step.name, error })
        // Servers that have gone with their supervisor come back.
        await options.driver.bringUp(found, signal).catch(() => signal.throwIfAborted())
        await sleep(Math.min(longestPauseMs, 250 * 2 ** (attempt - 1)), undefined, { signal })
        continue
      }
      options.onObservation({ type: 'operation-undoing', ...tell, step: step.name, error })
      if (undoing || !turn.undo)
        await end(options, found, { failed: undoing ? operation.error! : failureOf(options, error) })
      else {
        const undo = { operationId: operation.id, error: failureOf(options, error), at: Date.now() }
        await record(options, found, [facts.undoing.of(undo)])
      }
      return
    }
  }
}

function failureOf({ explain }: RunnerOptions, error: unknown): OperationFailure {
  const { code, message, details } = explain(error)
  const { field } = (details ?? {}) as { readonly field?: unknown }
  return { code, message, ...(typeof field === 'string' && { field }) }
}

/** By name, as everywhere. */
function isPassing(error: unknown, undoing: boolean): boolean {
  const { name, kind } = error as { name?: unknown; kind?: unknown }
  // What the server refuses it will refuse again.
  if (undoing) return name !== 'Rejected' && kind !== 'refused'
  return isBroken(error) || name === 'Unavailable' || name === 'BusUnavailable' || kind === 'unavailable'
}

const brokenCodes = /^(08...|57P0[1-3]|ECONNREFUSED|ECONNRESET|EPIPE|ETIMEDOUT|PROTOCOL_CONNECTION_LOST)$/
/** The clients' own words, for a session that broke between two statements. */
const brokenWords = /^(Connection terminated|Client (has encountered|was closed)|timeout expired)|in closed state$/

/** A connection to a server that ended, or is about to. Source: PostgreSQL, appendix A, classes 08 and 57. */
function isBroken(error: unknown): boolean {
  const { code, message } = error as { code?: unknown; message?: unknown }
  if (typeof code === 'string' && brokenCodes.test(code)) return true
  return typeof message === 'string' && brokenWords.test(message)
}

function succeeded({ operation }: Instance, data: Readonly<Record<string, unknown>>, at: number): InstanceFact {
  const result = (data.result ?? operation.data.result ?? {}) as Record<string, unknown>
  return facts.succeeded.of({ operationId: operation.id, result, at })
}

async function end(
  options: RunnerOptions,
  found: Instance,
  { failed }: { readonly failed: OperationFailure | null },
): Promise<void> {
  const { operation } = found
  const at = Date.now()
  const state = failed === null ? 'SUCCEEDED' : 'FAILED'
  const fact =
    failed === null ? succeeded(found, {}, at) : facts.failed.of({ operationId: operation.id, error: failed, at })
  await record(options, found, [fact])
  const tell = { projectId: found.projectName, operationId: operation.id }
  options.onObservation({ type: 'operation-ended', ...tell, operation: operation.type, state })
}

/** The name of what is gone is free again in the same moment; what was measured of it has gone before. */
async function record(
  { bus }: RunnerOptions,
  found: Instance,
  own: readonly InstanceFact[],
): Promise<Decided<InstanceState, InstanceFact>> {
  // A deleted instance has no operation that could succeed.
  const gone = own.some(({ type }) => type === 'provisioning.instance.deleted')
  const kept = gone ? own.filter(({ type }) => type !== 'provisioning.instance.operation-succeeded') : own
  if (gone) await forgetPoints(bus, found.projectName)
  return await decideTogether(
    bus,
    {
      ...instancePlace(found.projectName),
      aggregate: instance,
      actor,
      decide: (state) =>
        state.stage === 'wanted' && state.uid === found.uid
          ? decideOnOperation(state, found.operation.id, () => kept)
          : [],
    },
    (_before, after) => {
      if (after.stage !== 'deleted') return []
      const subject = eventSubject('provisioning', 'namespace', found.namespace)
      return [also(subject, namespace, (state) => decideRelease(state, found.uid))]
    },
  )
}
