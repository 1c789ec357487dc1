import { rm } from 'node:fs/promises'
import { type CredentialData, credentialText } from '../../schemas/workflows/credential.ts'
import { derivedId } from '../../schemas/workflows/derived-id.ts'
import { outputsTask } from '../../schemas/workflows/execution-advance.ts'
import type { ExecutionState } from '../../schemas/workflows/execution-state.ts'
import type { FlowPlan, TaskPlan } from '../../schemas/workflows/flow-plan.ts'
import type { TaskResult, Value } from '../../schemas/workflows/task-result.ts'
import { credentialsIn, holds, renderValue, TemplateMistake } from '../../schemas/workflows/template.ts'
import { turnOf } from '../../schemas/workflows/turn.ts'
import { checkedInput } from './checked-input.ts'
import { maskedKv } from './kv.ts'
import { Mask } from './mask.ts'
import { isPassing } from './passing-faults.ts'
import { outwait, patientFiles, patientKv } from './patience.ts'
import { type ControlRun, Opened, type Plugin, TaskFailure, type TaskLog, type TaskServices } from './plugin.ts'
import { valueSize } from './plugins/value-size.ts'
import { type ScopeSources, scopeOf } from './scope.ts'
import { makeScratch } from './scratch.ts'

export interface TaskEnvironment extends ScopeSources {
  readonly plugins: ReadonlyMap<string, Plugin>
  /** Opens a credential of a namespace; null when there is none. */
  readonly credential: (namespace: string, name: string) => Promise<CredentialData | null>
  readonly services: Omit<TaskServices, 'value'>
  readonly store: (json: unknown) => Promise<Value>
  readonly log: (line: {
    readonly run: string
    readonly task: string
    readonly attempt: number
    readonly level: keyof TaskLog
    readonly message: string
  }) => void
}

interface Attempt {
  readonly plan: FlowPlan
  readonly task: TaskPlan
  readonly state: ExecutionState
  /** Key of the task run. */
  readonly run: string
  readonly signal: AbortSignal
}

/** A plugin that does not stop when it is told to is waited for this long, and then left alone. */
const stopMs = 1_000
const maxOutputBytes = 64 * 1024 ** 2
const defaultTimeoutMs = 60 * 60_000
/** Of a failure, which every state of the execution has in it. */
const maxMessageLength = 8 * 1024
/** Of what a control task decides, besides its items. */
const maxOpeningLength = 256 * 1024

/** Runs one attempt to its end; every way it can go is a result. */
export async function runTask(environment: TaskEnvironment, attempt: Attempt): Promise<TaskResult> {
  const mask = new Mask()
  try {
    return await attemptTask(patient(environment, attempt.signal), attempt, mask)
  } catch (error) {
    const failure = failureOf(error)
    // A plugin may have cut it off.
    const message = mask.lines()(failure.message).slice(0, maxMessageLength)
    logOf(environment, attempt, mask).error(message)
    return { kind: 'failure', failure: { ...failure, message } }
  }
}

/** What the engine itself asks the bus for. */
function patient(environment: TaskEnvironment, signal: AbortSignal): TaskEnvironment {
  const { read, kv, item, store, credential } = environment
  return {
    ...environment,
    read: (value) => outwait(() => read(value), signal),
    item: (list, index) => outwait(() => item(list, index), signal),
    kv: (namespace, key) => outwait(() => kv(namespace, key), signal),
    store: (json) => outwait(() => store(json), signal),
    credential: (namespace, name) => outwait(() => credential(namespace, name), signal),
  }
}

async function attemptTask(environment: TaskEnvironment, attempt: Attempt, mask: Mask): Promise<TaskResult> {
  const { plan, task, state, run } = attempt
  await maskCredentials(environment, state.created!.namespace, plan, mask)
  const scope = await scopeOf(plan, state, run, environment)
  if (task === outputsTask) {
    return { kind: 'success', outputs: await environment.store(await renderValue(plan.outputs, scope)) }
  }
  if (task.runIf !== null && state.runs[run]!.round === 0 && !holds(await renderValue(task.runIf, scope))) {
    return { kind: 'skip', reason: 'runIf does not hold' }
  }
  const plugin = environment.plugins.get(task.type)
  if (plugin === undefined) throw new TaskFailure('refused', `There is no plugin ${task.type}`)
  const credentials = await openCredentials(environment, state.created!.namespace, task, mask)
  const rendered = await renderValue(task.properties, scope, credentials)
  const input = checkedInput(plugin, rendered)
  const key = task.idempotencyKey === null ? null : String(await renderValue(task.idempotencyKey, scope))
  const given = await runPlugin(environment, attempt, { plugin, input, key, mask })
  if (given instanceof Opened) {
    const { length } = JSON.stringify(given.opening)
    if (length > maxOpeningLength) {
      throw new TaskFailure(
        'refused',
        `What it hands on has ${length} characters; at most ${maxOpeningLength} are taken`,
      )
    }
    return { kind: 'opening', opening: mask.value(given.opening) }
  }
  // What is smaller than this and not small lies in the object store.
  if (valueSize(given, maxOutputBytes) > maxOutputBytes)
    throw new TaskFailure('refused', 'The outputs of the task are larger than 64 MB: let it give a file')
  return { kind: 'success', outputs: await environment.store(mask.value(given ?? {})) }
}

/** Names of the credentials that a flow uses. */
const credentialNames = new WeakMap<FlowPlan, ReadonlySet<string>>()

/** What any task of the flow may have got and passed on is masked in all of them. */
async function maskCredentials(environment: TaskEnvironment, namespace: string, plan: FlowPlan, mask: Mask) {
  const names = credentialNames.get(plan) ?? new Set(credentialsIn(plan).map(({ name }) => name))
  credentialNames.set(plan, names)
  for (const name of names) {
    try {
      mask.add(await environment.credential(namespace, name))
    } catch (error) {
      // One that cannot be opened fails the task that asks for it.
      if (!(error instanceof TaskFailure)) throw error
    }
  }
}

async function openCredentials(environment: TaskEnvironment, namespace: string, task: TaskPlan, mask: Mask) {
  const opened: Record<string, unknown> = {}
  for (const { name, field } of credentialsIn(task.properties)) {
    const value = await environment.credential(namespace, name)
    if (value === null) throw new TaskFailure('refused', `There is no credential ${name} in the namespace ${namespace}`)
    mask.add(value)
    const found = field === null ? whole(value) : credentialText(value, field)
    if (found === null) throw new TaskFailure('refused', `The credential ${name} has no field ${field}`)
    opened[field === null ? name : `${name}.${field}`] = found
  }
  return opened
}

/** A credential of one field is that field. */
function whole(value: CredentialData): CredentialData {
  return credentialText(value, null) ?? value
}

interface PluginCall {
  readonly plugin: Plugin
  readonly input: unknown
  readonly key: string | null
  readonly mask: Mask
}

async function runPlugin(environment: TaskEnvironment, attempt: Attempt, call: PluginCall): Promise<unknown> {
  const { state, run, task, signal } = attempt
  const { attempt: number, round, generation } = turnOf(state.runs[run]!)
  const { executionId, flowId, namespace } = state.created!
  const timeoutMs = call.plugin.manifest.control ? defaultTimeoutMs : (task.timeoutMs ?? defaultTimeoutMs)
  const limit = limited(signal, timeoutMs)
  let folder: Promise<string> | null = null
  const given: ControlRun<unknown> = {
    input: call.input,
    signal: limit.signal,
    log: logOf(environment, attempt, call.mask),
    idempotencyKey: call.key ?? `${executionId}/${run}`,
    scratch: () => {
      folder ??= makeScratch()
      return folder
    },
    services: {
      ...environment.services,
      kv: maskedKv(patientKv(environment.services.kv, limit.signal), call.mask),
      files: patientFiles(environment.services.files, limit.signal),
      value: (json) => environment.store(call.mask.value(json)),
    },
    task: { executionId, flowId, namespace, run, attempt: number },
    round,
    blocks: Object.keys(task.blocks),
    // Not the child of an earlier turn, which has ended.
    childId: derivedId(`${executionId}/${run}/${number}${generation === 0 ? '' : `//${generation}`}`),
  }
  try {
    return await settled(call.plugin.run(given), limit.signal)
  } catch (error) {
    if (limit.signal.reason === tooLate) throw new TaskFailure('timeout', `Not done after ${timeoutMs} ms`, error)
    throw error
  } finally {
    limit.end()
    if (folder !== null) await rm(await folder, { recursive: true, force: true })
  }
}

const tooLate = new Error('The time is over')
const longestTimerMs = 2 ** 31 - 1

/** The signal, or the end of the time; with neither a composite signal nor a timer that stays, for this is done for every task. */
function limited(signal: AbortSignal, timeoutMs: number): { readonly signal: AbortSignal; end(): void } {
  const limit = new AbortController()
  const stop = () => limit.abort(signal.reason)
  if (signal.aborted) stop()
  else signal.addEventListener('abort', stop, { once: true })
  const timer = setTimeout(() => limit.abort(tooLate), Math.min(timeoutMs, longestTimerMs))
  timer.unref()
  return {
    signal: limit.signal,
    end() {
      clearTimeout(timer)
      signal.removeEventListener('abort', stop)
    },
  }
}

/** Its outcome, or once it was told to stop a moment later the reason for that. */
async function settled(work: Promise<unknown>, signal: AbortSignal): Promise<unknown> {
  const late = Promise.withResolvers<never>()
  let timer: NodeJS.Timeout | null = null
  const stop = () => {
    timer = setTimeout(() => late.reject(signal.reason), stopMs)
  }
  signal.addEventListener('abort', stop, { once: true })
  try {
    return await Promise.race([work, late.promise])
  } finally {
    signal.removeEventListener('abort', stop)
    if (timer !== null) clearTimeout(timer)
    // Whatever it still says is of no interest to anybody.
    work.catch(() => undefined)
  }
}

function logOf({ log }: TaskEnvironment, { run, task, state }: Attempt, mask: Mask): TaskLog {
  const attempt = state.runs[run]?.attempt ?? 1
  const line = (level: keyof TaskLog) => {
    const masked = mask.lines()
    return (message: string) => log({ run, task: task.name, attempt, level, message: masked(String(message)) })
  }
  return { debug: line('debug'), info: line('info'), warn: line('warn'), error: line('error') }
}

function failureOf(error: unknown): { readonly message: string; readonly kind: TaskFailure['kind'] } {
  if (error instanceof TaskFailure) return { message: error.message, kind: error.kind }
  if (error instanceof TemplateMistake)
    return { message: `A template cannot be rendered: ${error.message}`, kind: 'refused' }
  const { name, message } = (error ?? {}) as { name?: string; message?: string }
  const passes = isPassing(error) || name === 'Unavailable' || name === 'BusUnavailable'
  return { message: String(message ?? error), kind: passes ? 'unavailable' : 'refused' }
}
