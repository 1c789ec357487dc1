import { hostname } from 'node:os'
import type { Bus } from '../../bus/connect.ts'
import { type ConsumeObservation, consume } from '../../bus/consume.ts'
import { causationHeader, factsHeader, messageIdHeader, readJson } from '../../bus/envelope.ts'
import type { Delivery } from '../../bus/handle.ts'
import { carriedState, readMessage, trailFrom } from '../../bus/load.ts'
import { newId } from '../../bus/message.ts'
import {
  abortSubjects,
  backlogSubjects,
  dueSubjects,
  taskBacklogSubjects,
  taskConsumer,
  taskSubjects,
  unescapeToken,
} from '../../bus/subject.ts'
import { timerDelivery } from '../../bus/timers.ts'
import { execution } from '../../schemas/workflows/execution.ts'
import { type ExecutionCommand, knownCommand } from '../../schemas/workflows/execution-decide.ts'
import { ExecutionCreated } from '../../schemas/workflows/execution-facts.ts'
import type { ExecutionState } from '../../schemas/workflows/execution-state.ts'
import type { TaskPlan } from '../../schemas/workflows/flow-plan.ts'
import { backlogLanes, backlogStream, deferExecution, isDeferred } from './backlog.ts'
import { type ActorContext, ExecutionActor, type Handling } from './execution-actor.ts'
import { Executions, type Stored } from './executions.ts'
import { FlowPlans } from './flow-plans.ts'
import { defaultGroup, type ExecutionTimer } from './follow-ups.ts'
import { Lane } from './lane.ts'
import { Lanes } from './lanes.ts'
import { leaseConsumers, lostLeases } from './lost-leases.ts'
import { outwait } from './patience.ts'
import { type Performer, performFollowUp } from './perform-follow-up.ts'
import type { Plugin } from './plugin.ts'
import { runTask, type TaskEnvironment } from './run-task.ts'
import { RunningTasks } from './running-tasks.ts'
import { type TaskLogObservation, TaskLogs } from './task-logs.ts'
import { type Taker, takeTask } from './task-queue.ts'
import { type TaskValues, taskValues } from './task-values.ts'

export type EngineObservation =
  | ConsumeObservation
  | TaskLogObservation
  | { readonly type: 'child-refused'; readonly executionId: string; readonly error: unknown }

export interface EngineOptions {
  readonly bus: Bus
  readonly plugins: ReadonlyMap<string, Plugin>
  readonly services: TaskEnvironment['services']
  readonly credential: TaskEnvironment['credential']
  readonly kv: TaskEnvironment['kv']
  /** Executions of one flow that begin here at a time; half as many more are for others, and as many come from the side lane. Default 64. */
  readonly concurrency?: number
  /** Tasks of one flow from the queue that run here at a time, in the same way. Default 32. */
  readonly taskConcurrency?: number
  /** How long a worker may be silent before others get what it had in hand. Default 30,000. */
  readonly ackWaitMs?: number
  /** Default: the one of tasks that name none. */
  readonly groups?: readonly string[]
  readonly onObservation: (observation: EngineObservation) => void
}

export interface WorkflowEngine {
  /** Finishes or hands back what is in flight. */
  stop(): Promise<void>
}

/** Executions that have begun and hang on the event that created them, over all workers. */
const maxBegun = 50_000
/** Tasks at a time that a worker runs on the side of deciding. */
const maxInline = 1

/**
 * Runs executions: takes commands, tasks and timers from the bus, decides, runs plugins, and appends what happened. Any number of
 * workers share the queues.
 */
export async function startWorkflowEngine(options: EngineOptions): Promise<WorkflowEngine> {
  const engine = new Engine(options)
  engine.start()
  return engine
}

class Engine implements WorkflowEngine {
  readonly #options: EngineOptions
  readonly #bus: Bus
  readonly #running = new RunningTasks((executionId) => void this.#stopUnwanted(executionId))
  readonly #actors = new Map<string, ExecutionActor>()
  readonly #stopping = new AbortController()
  readonly #logs: TaskLogs
  readonly #context: ActorContext & Performer & Taker
  readonly #values: TaskValues
  readonly #consumers: Promise<void>[] = []
  /** Commands in hand. */
  #commands = 0
  readonly #maxBearing: number

  constructor(options: EngineOptions) {
    this.#options = options
    this.#bus = options.bus
    const { concurrency = 64, taskConcurrency = 32 } = options
    this.#maxBearing = concurrency / 2
    this.#logs = new TaskLogs(options.bus, options.onObservation)
    this.#values = taskValues(options.bus)
    const effect = (task: TaskPlan) => options.plugins.get(task.type)?.manifest.effect ?? 'pure'
    const groups = options.groups ?? [defaultGroup]
    this.#context = {
      bus: options.bus,
      executions: new Executions(options.bus),
      worker: `${hostname()}/${process.pid}/${newId().slice(0, 8)}`,
      plans: new FlowPlans(options.bus),
      running: this.#running,
      lanes: new Lanes(concurrency, taskConcurrency),
      sources: { ...this.#values, kv: options.kv },
      now: Date.now,
      isPure: (task) => effect(task) === 'pure',
      isOnce: (task) => effect(task) === 'once',
      inline: (task, live) => {
        const ours = groups.includes(task.workerGroup ?? defaultGroup)
        return ours && (live < maxInline || effect(task) === 'pure')
      },
      run: ({ plan, task, state, run, signal }) =>
        runTask(this.#environment(state.created!.executionId), { plan, task, state, run, signal }),
      perform: (stored, followUp, again) => performFollowUp(this.#context, stored, followUp, again),
      lostLeases: (state, held) => lostLeases(this.#bus, state.created!.executionId, state, held),
      flushLogs: (executionId) => this.#logs.flush(executionId),
      onIdle: (actor) => {
        if (this.#actors.get(actor.id) === actor) this.#actors.delete(actor.id)
      },
      refused: (executionId, error) => options.onObservation({ type: 'child-refused', executionId, error }),
    }
  }

  start(): void {
    const { concurrency = 64, groups = [defaultGroup] } = this.#options
    // An execution begins with the event that created it: there is nothing else to be stored, and nothing that could be lost.
    this.#consume(leaseConsumers.executions, {
      stream: 'EVT_EXECUTIONS',
      concurrency: this.#context.lanes.executions.places,
      maxAckPending: maxBegun,
      handle: (delivery) => this.#takeEvent(delivery),
    })
    for (const lane of backlogLanes) {
      this.#consume(`workers-workflows-backlog-${lane}`, {
        stream: backlogStream,
        subjects: [backlogSubjects(lane)],
        // When all of a batch has stepped aside it is run from there alone.
        concurrency,
        maxAckPending: maxBegun,
        handle: (delivery) => this.#takeDeferred(delivery, lane),
      })
    }
    this.#consume('workers-workflows-commands', {
      stream: 'COMMANDS',
      concurrency,
      handle: (delivery) => this.#takeCommand(delivery),
    })
    for (const group of groups) this.#consumeTasks(group)
    this.#consume(leaseConsumers.timers, {
      stream: 'TIMERS',
      subjects: [dueSubjects('executions')],
      concurrency,
      // No task hangs on a timer.
      ...timerDelivery,
      handle: (delivery) => this.#takeTimer(delivery),
    })
    this.#hearAborts()
  }

  #consumeTasks(group: string): void {
    const { taskConcurrency = 32 } = this.#options
    const { lanes } = this.#context
    this.#consume(taskConsumer(group), {
      stream: 'TASKS',
      subjects: [taskSubjects(group)],
      concurrency: lanes.tasks.places,
      handle: (delivery, ended) => takeTask(this.#context, delivery, ended, group),
    })
    for (const lane of backlogLanes) {
      this.#consume(`${taskConsumer(group)}-backlog-${lane}`, {
        stream: backlogStream,
        subjects: [taskBacklogSubjects(group, lane)],
        concurrency: taskConcurrency,
        handle: async (delivery, ended) => {
          using _ = await lanes.tasks.waitAside(lane, this.#stopping.signal)
          await takeTask(this.#context, delivery, ended, null)
        },
      })
    }
  }

  #consume(consumer: string, more: Omit<Parameters<typeof consume>[1], 'consumer' | 'onObservation'>): void {
    const { onObservation, ackWaitMs } = this.#options
    const options = { consumer, onObservation, ...(ackWaitMs && { ackWaitMs }), ...more }
    this.#consumers.push(consume(this.#bus, options, this.#stopping.signal))
  }

  #hearAborts(): void {
    const { signal } = this.#stopping
    const aborts = this.#bus.connection.subscribe(abortSubjects, {
      callback: (error, message) => {
        if (error === null) this.#running.tell(unescapeToken(message.subject.split('.').at(-1)!))
      },
    })
    signal.addEventListener('abort', () => aborts.unsubscribe(), { once: true })
    const unwatch = this.#bus.onReconnect(() => this.#running.tellMissed())
    signal.addEventListener('abort', unwatch, { once: true })
  }

  async stop(): Promise<void> {
    this.#stopping.abort()
    await Promise.all(this.#consumers)
    for (const actor of this.#actors.values()) actor.stop()
    this.#running.stopAll()
    await this.#logs.flush()
  }

  async #takeEvent({ subject, headers, data, sequence, deliveryCount }: Delivery): Promise<void> {
    const executionId = unescapeToken(subject.split('.').at(-1)!)
    const lease = headers.get(messageIdHeader)
    if (!headers.get(factsHeader).includes(ExecutionCreated.type)) {
      // Decided from outside: whoever did so sends a nudge, which is faster, but may die before.
      if (headers.get(causationHeader) === '') await this.#hand(executionId, { type: 'nudge' }, lease, { again: false })
      return
    }
    if (deliveryCount > 1 || this.#actors.has(executionId)) {
      return await this.#hand(executionId, { type: 'nudge' }, lease, { again: deliveryCount > 1 })
    }
    // What was just created is most often as it was created: when it is not, the first append says so.
    const created = carriedState(execution, await readMessage(this.#bus, execution.events, { headers, data }))
    using place = created === null ? Lane.uncounted : await this.#placeFor(created.state)
    if (place === null) return await deferExecution(this.#bus, created!.state.created!)
    await this.#hand(
      executionId,
      { type: 'nudge' },
      lease,
      { again: false },
      created && { ...created, sequence, id: lease, trail: trailFrom(sequence) },
    )
  }

  /** Null when its flow or its namespace has enough of this worker. Where the flow has places those are waited for, in their order. */
  async #placeFor({ created }: ExecutionState): Promise<Disposable | null> {
    const { concurrency } = await this.#context.plans.get(created!)
    return concurrency === null ? this.#context.lanes.executions.take(created!) : Lane.uncounted
  }

  async #takeDeferred({ subject, headers, deliveryCount }: Delivery, lane: number): Promise<void> {
    using _ = await this.#context.lanes.executions.waitAside(lane, this.#stopping.signal)
    const executionId = unescapeToken(subject.split('.').at(-1)!)
    await this.#hand(executionId, { type: 'nudge' }, headers.get(messageIdHeader), { again: deliveryCount > 1 })
  }

  async #takeCommand({ subject, headers, data, deliveryCount }: Delivery): Promise<void> {
    const executionId = unescapeToken(subject.split('.').at(-1)!)
    const command = knownCommand(readJson(data))
    const swept = command.type === 'nudge' && command.sweep === true
    if (swept && (await this.#hasNotBegun(executionId))) return
    const again = swept || deliveryCount > 1
    this.#commands++
    try {
      // Tasks hang on half of them at the most: so there is always somebody who decides.
      const bears = this.#commands <= this.#maxBearing
      await this.#hand(executionId, command, headers.get(messageIdHeader), { again, bears })
    } finally {
      this.#commands--
    }
  }

  /** It waits for its turn on the side lane: nothing is lost. */
  async #hasNotBegun(executionId: string): Promise<boolean> {
    const { state } = await this.#context.executions.load(executionId)
    return state.stage === 'queued' && !state.slotRequested && (await isDeferred(this.#bus, state.created!))
  }

  /** Decided at once and by whoever has it: what is to be run then goes to the queue, so that the timer is soon done with. */
  async #takeTimer({ data, sequence, deliveryCount }: Delivery): Promise<void> {
    const { executionId, at = 0 } = readJson(data) as ExecutionTimer
    const handling = { again: deliveryCount > 1, bears: false, at }
    await this.#hand(executionId, { type: 'nudge' }, `timer/${sequence}`, handling)
  }

  async #hand(
    executionId: string,
    command: ExecutionCommand,
    lease: string,
    handling: Handling,
    seen: Stored | null = null,
  ): Promise<void> {
    const actor = this.#actors.get(executionId) ?? new ExecutionActor(executionId, this.#context, seen)
    this.#actors.set(executionId, actor)
    await actor.handle(command, lease, handling)
  }

  /** Reads what is wanted until the bus says it. */
  async #stopUnwanted(executionId: string): Promise<void> {
    try {
      await outwait(async () => {
        if (this.#running.isEmpty(executionId)) return
        const actor = this.#actors.get(executionId)
        if (actor !== undefined) return await actor.refresh()
        const { begun } = this.#running
        const { state } = await this.#context.executions.load(executionId)
        this.#running.stopUnwanted(executionId, state, begun)
      }, this.#stopping.signal)
    } catch {
      // The result that is not wanted will be refused when it is handed in.
    }
  }

  #environment(executionId: string): TaskEnvironment {
    const { plugins, services, credential, kv } = this.#options
    return {
      plugins,
      services,
      credential,
      kv,
      ...this.#values,
      log: ({ run, task, attempt, level, message }) => {
        const timestamp = new Date().toISOString()
        this.#logs.add(executionId, { timestamp, level, executionId, taskName: task, run, attempt, message })
      },
    }
  }
}
