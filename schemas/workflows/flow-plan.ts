import type { TriggerPlan } from './trigger-plan.ts'

/**
 * A flow as the engine runs it: its YAML, checked, with every default filled in. Made by `flow-yaml.ts`, stored with the revision,
 * and never changed: an execution is pinned to the plan it was queued with.
 */
export interface FlowPlan {
  readonly name: string
  readonly inputs: readonly InputPlan[]
  /** Templates by name, rendered for each task that asks for them. */
  readonly variables: Readonly<Record<string, unknown>>
  /** Templates by name, rendered at the end of a successful execution; empty for none. */
  readonly outputs: Readonly<Record<string, unknown>>
  readonly tasks: readonly TaskPlan[]
  /** Run when `tasks` have failed; the execution fails nonetheless. */
  readonly errors: readonly TaskPlan[]
  /** Run at the end, whatever the end is, but for a kill. */
  readonly finally: readonly TaskPlan[]
  /** From the start of the execution. */
  readonly timeoutMs: number | null
  readonly concurrency: ConcurrencyPlan | null
  readonly labels: Readonly<Record<string, string>>
  /** What starts it by itself; absent for nothing. */
  readonly triggers?: readonly TriggerPlan[]
  /** How long an execution should take at most; one that takes longer goes on, and its listeners are told. */
  readonly slaMs?: number
  /** Flows that are started when an execution comes to something; absent for none. */
  readonly listeners?: readonly ListenerPlan[]
}

export const listenedTo = ['SUCCESS', 'FAILED', 'CANCELLED', 'TIMED_OUT', 'SLA_MISSED'] as const
export type ListenedTo = (typeof listenedTo)[number]

export interface ListenerPlan {
  readonly on: readonly ListenedTo[]
  /** Name or id of the flow. */
  readonly flow: string
  /** Null: that of the flow that is listened to. */
  readonly namespace: string | null
  /** Templates by name, rendered with what the execution has come to; `execution.status` is what is listened to. */
  readonly inputs: Readonly<Record<string, unknown>>
}

export interface InputPlan {
  readonly name: string
  readonly type: 'string' | 'integer' | 'number' | 'boolean' | 'object' | 'array' | 'datetime' | 'date' | 'duration'
  readonly required: boolean
  readonly description: string
  /** Undefined when there is none. */
  readonly default?: unknown
  /** JSON Schema words that the value must fit besides its type: `enum`, `minimum`, `pattern` and the like. */
  readonly schema?: Readonly<Record<string, unknown>>
}

/** How many executions of a flow run at a time, and what becomes of one more. */
export interface ConcurrencyPlan {
  readonly limit: number
  readonly behavior: 'queue' | 'cancel' | 'fail'
}

export interface TaskPlan {
  /** Unique in the flow. */
  readonly name: string
  /** A plugin's id. */
  readonly type: string
  /** As written, with its templates. */
  readonly properties: Readonly<Record<string, unknown>>
  /** Tasks of the same block that must have ended before: the one before it where the block names none (see `flow-yaml.ts`). */
  readonly needs: readonly string[]
  /** A template; the task is skipped when it renders to an empty text, `false`, `0` or `null`. */
  readonly runIf: string | null
  readonly retry: RetryPlan | null
  /** Of one attempt. */
  readonly timeoutMs: number | null
  /** Its failure does not fail the block. */
  readonly allowFailure: boolean
  /** A template that takes the place of the key the engine makes. */
  readonly idempotencyKey: string | null
  /** Only workers of this group run it. */
  readonly workerGroup: string | null
  /** Of a control task: `tasks`, `then`, `else`, `default`, `case:<value>`, and for each of them `errors` and `finally`. */
  readonly blocks: Readonly<Record<string, readonly TaskPlan[]>>
}

export interface RetryPlan {
  /** The first one counts. */
  readonly maxAttempts: number
  readonly delayMs: number
  readonly backoff: 'constant' | 'exponential'
  /** What the delay is multiplied with after each attempt. */
  readonly factor: number
  readonly maxDelayMs: number
  /** 0 to 1: how much of the delay is left to chance. */
  readonly jitter: number
}

/** What becomes of the other tasks of a block when one fails. */
export type OnFailure = 'cancel' | 'wait' | 'continue'

/** Every task of these blocks, and of theirs. */
export function* tasksOf(...lists: readonly (readonly TaskPlan[])[]): Generator<TaskPlan> {
  for (const task of lists.flat()) {
    yield task
    yield* tasksOf(...Object.values(task.blocks))
  }
}

/** `tasksTotal`: what is written under `tasks`, with all that is nested there. */
export function countTasks(plan: FlowPlan): number {
  let count = 0
  for (const _ of tasksOf(plan.tasks)) count++
  return count
}
