import { type Static, Type } from 'typebox'
import { defineEvent, defineEvents, type EventSet } from '../../bus/message.ts'
import { Failure, Opening, Value } from './task-result.ts'

const Time = Type.Integer({ description: 'epoch ms' })
const text = Type.String
const closed = { additionalProperties: false } as const

const Iterations = Type.Array(Type.Union([Type.Record(text(), Value), Type.Null()]))

/** A run that need not be run again. */
const ThroughRun = Type.Object({
  status: Type.Union([Type.Literal('success'), Type.Literal('skipped')]),
  outputs: Type.Optional(Value),
  /** Of a loop, by index: what the tasks of an iteration have given, by task. */
  iterations: Type.Optional(Iterations),
})
const BegunLoop = Type.Object({
  status: Type.Literal('begun'),
  opening: Opening,
  next: Type.Integer({ description: 'the first item, or round, that was never started' }),
  iterations: Iterations,
  due: Type.Record(text(), Type.Record(text(), Type.Unknown()), {
    description: 'by index, iterations that are to be started again: what is done in them, by key within the iteration',
  }),
})
/** A loop that is not through. */
export interface BegunLoop extends Omit<Static<typeof BegunLoop>, 'due'> {
  readonly due: Due
}
/** What another execution has done already, for one that goes on from there. */
export type Carried = Static<typeof ThroughRun> | BegunLoop
/** By index of an iteration: what is done in it, by key within it. */
export type Due = Readonly<Record<string, Readonly<Record<string, Carried>>>>
const Carried = Type.Unsafe<Carried>(Type.Union([ThroughRun, BegunLoop]))

const run = { run: text({ description: 'key of the task run: names and [iterations] from the outside in' }) }
const attempt = { ...run, attempt: Type.Integer({ minimum: 1 }) }

export const ExecutionCreated = defineEvent(
  'executions.execution.created',
  Type.Object(
    {
      executionId: text(),
      flowId: text(),
      flowName: text(),
      namespace: text(),
      revision: Type.Integer({ minimum: 1 }),
      flowSequence: Type.Integer({ description: 'of the message in EVT_WORKFLOWS that holds this revision' }),
      inputs: Type.Record(text(), Type.Unknown()),
      trigger: Type.Record(text(), Type.Unknown(), { description: 'what set it off: `type`, and what came with it' }),
      labels: Type.Record(text(), text()),
      tasksTotal: Type.Integer(),
      actor: text(),
      at: Time,
      /** Whether a cancelled execution has something left to do. */
      hasFinally: Type.Boolean(),
      /** The task of another execution that waits for this one. */
      parent: Type.Optional(Type.Object({ executionId: text(), run: text() }, closed)),
      /** The execution that this one repeats. */
      origin: Type.Optional(
        Type.Object(
          {
            executionId: text(),
            kind: Type.Union([Type.Literal('retry'), Type.Literal('restart'), Type.Literal('replay')]),
          },
          closed,
        ),
      ),
      carried: Type.Optional(Type.Record(text(), Carried)),
    },
    closed,
  ),
)
/** It wants one of the places that its flow's concurrency leaves. */
export const SlotRequested = defineEvent('executions.execution.slot-requested', Type.Object({ at: Time }, closed))
export const ExecutionStarted = defineEvent(
  'executions.execution.started',
  Type.Object(
    {
      at: Time,
      deadlineAt: Type.Union([Time, Type.Null()]),
      slaAt: Type.Optional(Time),
    },
    closed,
  ),
)
/** It takes longer than it should, and goes on. */
export const SlaMissed = defineEvent('executions.execution.sla-missed', Type.Object({ at: Time }, closed))
export const ExecutionPaused = defineEvent('executions.execution.paused', Type.Object({ by: text(), at: Time }, closed))
export const ExecutionResumed = defineEvent(
  'executions.execution.resumed',
  Type.Object({ by: text(), at: Time }, closed),
)
/** It ends as `status` once its `finally` is through. */
export const EndRequested = defineEvent(
  'executions.execution.end-requested',
  Type.Object(
    {
      status: Type.Union([Type.Literal('cancelled'), Type.Literal('timed-out')]),
      by: text(),
      at: Time,
    },
    closed,
  ),
)
export const ExecutionEnded = defineEvent(
  'executions.execution.ended',
  Type.Object(
    {
      status: Type.Union([
        Type.Literal('success'),
        Type.Literal('failed'),
        Type.Literal('cancelled'),
        Type.Literal('timed-out'),
      ]),
      at: Time,
      outputs: Type.Optional(Value),
      failure: Type.Optional(Failure),
      by: Type.Optional(text()),
    },
    closed,
  ),
)
export const TaskScheduled = defineEvent(
  'executions.task.scheduled',
  Type.Object(
    {
      ...attempt,
      task: text(),
      type: text(),
      at: Time,
      /** The message whose handler runs it; null: it is on the queue of tasks, for any worker. */
      lease: Type.Union([text(), Type.Null()]),
      /** Of a loop whose condition is asked again. */
      round: Type.Optional(Type.Integer()),
    },
    closed,
  ),
)
/** A task that must not run twice is about to run. */
export const TaskClaimed = defineEvent(
  'executions.task.claimed',
  Type.Object({ ...attempt, worker: text(), at: Time }, closed),
)
export const TaskOpened = defineEvent(
  'executions.task.opened',
  Type.Object(
    { ...attempt, opening: Opening, startedAt: Time, at: Time, deadlineAt: Type.Union([Time, Type.Null()]) },
    closed,
  ),
)
/** A control task goes on with its `errors`, or with its `finally`. */
export const TaskEntered = defineEvent(
  'executions.task.entered',
  Type.Object(
    {
      ...run,
      phase: Type.Union([Type.Literal('errors'), Type.Literal('finally')]),
      failure: Type.Optional(Failure),
      at: Time,
    },
    closed,
  ),
)
export const IterationStarted = defineEvent(
  'executions.task.iteration-started',
  Type.Object({ ...run, index: Type.Integer(), at: Time }, closed),
)
export const IterationEnded = defineEvent(
  'executions.task.iteration-ended',
  Type.Object(
    {
      ...run,
      index: Type.Integer(),
      failed: Type.Boolean(),
      outputs: Type.Record(text(), Value),
      failure: Type.Optional(Failure),
      at: Time,
    },
    closed,
  ),
)
export const TaskSucceeded = defineEvent(
  'executions.task.succeeded',
  Type.Object(
    { ...attempt, task: text(), outputs: Value, startedAt: Time, at: Time, worker: Type.Optional(text()) },
    closed,
  ),
)
export const TaskFailed = defineEvent(
  'executions.task.failed',
  Type.Object(
    {
      ...attempt,
      task: text(),
      failure: Failure,
      startedAt: Time,
      at: Time,
      /** When it is tried again; null when this was the last time. */
      retryAt: Type.Union([Time, Type.Null()]),
      worker: Type.Optional(text()),
    },
    closed,
  ),
)
export const TaskSkipped = defineEvent(
  'executions.task.skipped',
  Type.Object({ ...run, task: text(), type: text(), reason: text(), at: Time }, closed),
)
export const TaskCancelled = defineEvent('executions.task.cancelled', Type.Object({ ...run, at: Time }, closed))
/** A result that came when it was not waited for any more; it changes nothing. */
export const LateResult = defineEvent(
  'executions.task.late-result',
  Type.Object({ ...attempt, outcome: text(), at: Time }, closed),
)
export const QuestionAnswered = defineEvent(
  'executions.task.question-answered',
  Type.Object(
    {
      ...run,
      answer: Type.Union([Type.Literal('approved'), Type.Literal('rejected')]),
      by: text(),
      comment: text(),
      at: Time,
    },
    closed,
  ),
)

/** All that can happen to an execution. Subject `evt.executions.execution.<id>`, stream `EVT_EXECUTIONS`. */
export const executionEvents = defineEvents(
  ExecutionCreated,
  SlotRequested,
  ExecutionStarted,
  SlaMissed,
  ExecutionPaused,
  ExecutionResumed,
  EndRequested,
  ExecutionEnded,
  TaskScheduled,
  TaskClaimed,
  TaskOpened,
  TaskEntered,
  IterationStarted,
  IterationEnded,
  TaskSucceeded,
  TaskFailed,
  TaskSkipped,
  TaskCancelled,
  LateResult,
  QuestionAnswered,
)
export type ExecutionFact = typeof executionEvents extends EventSet<infer F> ? F : never
