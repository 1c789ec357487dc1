import { hostname } from 'node:os'
import { LRUCache } from 'lru-cache'
import type { Bus } from '../../bus/connect.ts'
import { type ConsumeObservation, consume } from '../../bus/consume.ts'
import type { Delivery } from '../../bus/handle.ts'
import { carriedState, readMessage, trailFrom } from '../../bus/load.ts'
import { causationHeader, factsHeader, messageIdHeader, newId, readJson } from '../../bus/message.ts'
import { readBytes, storeBytes } from '../../bus/objects.ts'
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
import { type ExecutionCommand, findTask, knownCommand } from '../../schemas/workflows/execution-decide.ts'
import { ExecutionCreated } from '../../schemas/workflows/execution-facts.ts'
import { type Ending, type ExecutionState, isEnded } from '../../schemas/workflows/execution-state.ts'
import type { ListenedTo, TaskPlan } from '../../schemas/workflows/flow-plan.ts'
import type { TaskResult, Value } from '../../schemas/workflows/task-result.ts'
import { awaits, turnId, turnOf } from '../../schemas/workflows/turn.ts'
import { backlogLanes, backlogStream, deferExecution, deferTask, isDeferred } from './backlog.ts'
import { claim } from './claim.ts'
import { type ActorContext, ExecutionActor, type Handling } from './execution-actor.ts'
import { Executions, type Stored } from './executions.ts'
import { findFlow } from './find-flow.ts'
import { FlowPlans } from './flow-plans.ts'
import {
  announceAbort,
  announceEnd,
  cancelDeadline,
  cancelSla,
  defaultGroup,
  type ExecutionTimer,
  type FollowUp,
  type QueuedTask,
  queueTask,
  sendCommand,
  setExecutionTimer,
} from './follow-ups.ts'
import { Lane } from './lane.ts'
import { Lanes } from './lanes.ts'
import { startListeners } from './listeners.ts'
import { hasResults, leaseConsumers, lostLeases } from './lost-leases.ts'
import { outwait } from './patience.ts'
import type { Plugin } from './plugin.ts'
import { runTask, type TaskEnvironment } from './run-task.ts'
import { RunningTasks } from './running-tasks.ts'
import { releaseSlot, requestSlot } from './slots.ts'
import { startExecution } from './start-execution.ts'
import { stopChild } from './stop-child.ts'
import { type TaskLogObservation, TaskLogs } from './task-logs.ts'

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

/** A larger output lies in the object store. */
const maxInlineValueBytes = 16 * 1024
/** Of items that are kept in memory. */
const maxListBytes = 64 * 1024 ** 2
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
  readonly #context: ActorContext
  readonly #consumers: Promise<void>[] = []
  readonly #lanes: Lanes
  /** Commands in hand. */
  #commands = 0
  readonly #maxBearing: number
  /** Items of loops, by digest: each of their tasks asks for one. */
  readonly #lists = new LRUCache<string, readonly unknown[]>({ max: 100, maxSize: maxListBytes })

  constructor(options: EngineOptions) {
    this.#options = options
    this.#bus = options.bus
    const { concurrency = 64, taskConcurrency = 32 } = options
    this.#lanes = new Lanes(concurrency, taskConcurrency)
    this.#maxBearing = concurrency / 2
    this.#logs = new TaskLogs(options.bus, options.onObservation)
    const effect = (task: TaskPlan) => options.plugins.get(task.type)?.manifest.effect ?? 'pure'
    const groups = options.groups ?? [defaultGroup]
    this.#context = {
      bus: options.bus,
      executions: new Executions(options.bus),
      worker: `${hostname()}/${process.pid}/${newId().slice(0, 8)}`,
      plans: new FlowPlans(options.bus),
      running: this.#running,
      now: Date.now,
      isPure: (task) => effect(task) === 'pure',
      isOnce: (task) => effect(task) === 'once',
      inline: (task, live) => {
        const ours = groups.includes(task.workerGroup ?? defaultGroup)
        return ours && (live < maxInline || effect(task) === 'pure')
      },
      run: ({ plan, task, state, run, signal }) =>
        runTask(this.#environment(state.created!.executionId), { plan, task, state, run, signal }),
      perform: (stored, followUp, again) => this.#perform(stored, followUp, again),
      lostLeases: (state, held) => lostLeases(this.#bus, state.created!.executionId, state, held),
      flushLogs: (executionId) => this.#logs.flush(executionId),
      onIdle: (actor) => {
        if (this.#actors.get(actor.id) === actor) this.#actors.delete(actor.id)
      },
    }
  }

  start(): void {
    const { onObservation, concurrency = 64, taskConcurrency = 32, groups = [defaultGroup], ackWaitMs } = this.#options
    const { signal } = this.#stopping
    const run = (consumer: string, more: Omit<Parameters<typeof consume>[1], 'consumer' | 'onObservation'>) => {
      this.#consumers.push(
        consume(this.#bus, { consumer, onObservation, ...(ackWaitMs && { ackWaitMs }), ...more }, signal),
      )
    }
    // An execution begins with the event that created it: there is nothing else to be stored, and nothing that could be lost.
    run(leaseConsumers.executions, {
      stream: 'EVT_EXECUTIONS',
      concurrency: this.#lanes.executions.places,
      maxAckPending: maxBegun,
      handle: (delivery) => this.#takeEvent(delivery),
    })
    for (const lane of backlogLanes) {
      run(`workers-workflows-backlog-${lane}`, {
        stream: backlogStream,
        subjects: [backlogSubjects(lane)],
        // When all of a batch has stepped aside it is run from there alone.
        concurrency,
        maxAckPending: maxBegun,
        handle: (delivery) => this.#takeDeferred(delivery, lane),
      })
    }
    run('workers-workflows-commands', {
      stream: 'COMMANDS',
      concurrency,
      handle: (delivery) => this.#takeCommand(delivery),
    })
    for (const group of groups) {
      run(taskConsumer(group), {
        stream: 'TASKS',
        subjects: [taskSubjects(group)],
        concurrency: this.#lanes.tasks.places,
        handle: (delivery, ended) => this.#takeTask(delivery, ended, group),
      })
      for (const lane of backlogLanes) {
        run(`${taskConsumer(group)}-backlog-${lane}`, {
          stream: backlogStream,
          subjects: [taskBacklogSubjects(group, lane)],
          concurrency: taskConcurrency,
          handle: async (delivery, ended) => {
            using _ = await this.#lanes.tasks.waitAside(lane, signal)
            await this.#takeTask(delivery, ended, null)
          },
        })
      }
    }
    run(leaseConsumers.timers, {
      stream: 'TIMERS',
      subjects: [dueSubjects('executions')],
      concurrency,
      // No task hangs on a timer.
      ...timerDelivery,
      handle: (delivery) => this.#takeTimer(delivery),
    })
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
    return concurrency === null ? this.#lanes.executions.take(created!) : Lane.uncounted
  }

  async #takeDeferred({ subject, headers, deliveryCount }: Delivery, lane: number): Promise<void> {
    using _ = await this.#lanes.executions.waitAside(lane, this.#stopping.signal)
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

  /** Runs a task from the queue of a group, or, with null, from the side lane. Its result is a command, so that results that come together are decided together. */
  async #takeTask({ data }: Delivery, ended: AbortSignal, group: string | null): Promise<void> {
    const queued = readJson(data) as QueuedTask
    const { executionId, run: key } = queued
    const turn = turnOf(queued)
    const { state } = await this.#context.executions.load(executionId)
    const run = state.runs[key]
    if (!awaits(run, turn)) return
    using place = group === null ? Lane.uncounted : this.#lanes.tasks.take(state.created!)
    if (place === null) return await deferTask(this.#bus, group!, state.created!.flowId, { ...queued, ...turn })
    const plan = await this.#context.plans.get(state.created!)
    // It was not heard of for a time. Were it done with already, the task would die with this process.
    const ending = this.#running.ending(executionId, key, turn)
    if (ending !== undefined) return await ending
    const task = findTask(plan, run)
    const startedAt = this.#context.now()
    const { signal, end } = this.#running.begin(executionId, key, turn)
    let result: TaskResult
    try {
      const once = this.#context.isOnce(task)
      if (once && !(await claim(this.#context, { executionId, run: key, turn, signal: ended }))) {
        const message = 'A worker died while it ran, and it must not run twice'
        result = { kind: 'failure', failure: { message, kind: 'lost' } }
      } else {
        result = await this.#context.run({ plan, task, state, run: key, signal: AbortSignal.any([signal, ended]) })
      }
    } finally {
      end()
    }
    // Handed back, not failed.
    if (ended.aborted) return
    const { worker } = this.#context
    const command: ExecutionCommand = { type: 'result', run: key, ...turn, startedAt, worker, result }
    // Were it handed back, the task would run once more.
    const id = `${turnId(executionId, key, turn)}/result`
    await outwait(() => sendCommand(this.#bus, executionId, command, id), ended)
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

  async #perform(stored: Stored, followUp: FollowUp, again: boolean): Promise<void> {
    const { state } = stored
    const { executionId, flowId } = state.created!
    switch (followUp.type) {
      case 'queue': {
        const { run, turn, group, anew = false } = followUp
        if (anew && (await hasResults(this.#bus, executionId))) return
        const queueing = { flowId, group, again: anew ? ('anew' as const) : again }
        return await queueTask(this.#bus, { executionId, run, ...turn }, queueing)
      }
      case 'timer':
        return await setExecutionTimer(this.#bus, executionId, followUp.id, followUp.at)
      case 'abort':
        announceAbort(this.#bus, executionId)
        return
      case 'slot': {
        const { concurrency } = await this.#context.plans.get(state.created!)
        if (concurrency === null) return
        return await requestSlot(this.#bus, { flowId: state.created!.flowId, executionId, concurrency, again })
      }
      case 'child':
        return await this.#startChild(state, followUp, again)
      case 'stop-child':
        return await stopChild(this.#bus, followUp.executionId, this.#context.now())
      case 'ended':
        return await this.#end(stored)
      case 'sla-missed':
        return await this.#listen(state, 'SLA_MISSED')
      default:
        followUp satisfies never
    }
  }

  async #startChild(
    state: ExecutionState,
    { run, opening }: Extract<FollowUp, { type: 'child' }>,
    again: boolean,
  ): Promise<void> {
    const { executionId, actor, namespace } = state.created!
    try {
      const flowId = await findFlow(this.#bus, opening.namespace ?? namespace, opening.flowId)
      await startExecution(this.#bus, flowId, {
        executionId: opening.executionId,
        inputs: opening.inputs,
        trigger: { type: 'subflow', executionId, run },
        actor,
        at: this.#context.now(),
        ...(opening.wait && { parent: { executionId, run } }),
      })
      if (!opening.wait) return
      // Whoever cancels in this moment finds nothing yet that could be stopped.
      const { runs } = (await this.#context.executions.load(executionId)).state
      if (runs[run]?.status !== 'waiting') return await stopChild(this.#bus, opening.executionId, this.#context.now())
      if (!again) return
      // It may have ended, and what it told was lost.
      const child = await this.#context.executions.load(opening.executionId)
      if (isEnded(child.state.stage)) await this.#tellParent(child.state)
    } catch (error) {
      if ((error as Error).name !== 'Rejected') throw error
      this.#options.onObservation({ type: 'child-refused', executionId: opening.executionId, error })
      const failure = { message: (error as Error).message, kind: 'refused' } as const
      const outputs: Value = { json: {} }
      const { executionId: child } = opening
      await sendCommand(
        this.#bus,
        executionId,
        { type: 'child', run, executionId: child, status: 'failed', outputs, failure },
        `${child}/refused`,
      )
    }
  }

  async #end(stored: Stored): Promise<void> {
    const { state } = stored
    const { created, slotRequested } = state
    const { executionId, flowId, parent } = created!
    announceEnd(this.#bus, stored)
    const plan = await this.#context.plans.get(created!)
    if (plan.timeoutMs !== null) await cancelDeadline(this.#bus, executionId)
    if (plan.slaMs !== undefined) await cancelSla(this.#bus, executionId)
    await this.#listen(state, endings[state.stage as Ending])
    if (slotRequested) await releaseSlot(this.#bus, flowId, executionId, plan.concurrency?.limit ?? 1)
    if (parent !== undefined) await this.#tellParent(state)
  }

  async #listen(state: ExecutionState, to: ListenedTo): Promise<void> {
    const plan = await this.#context.plans.get(state.created!)
    const { executionId } = state.created!
    const sources = { ...this.#sources, kv: this.#options.kv }
    await startListeners(this.#bus, { plan, state, to, sources, at: this.#context.now() }, (error) =>
      this.#options.onObservation({ type: 'child-refused', executionId, error }),
    )
  }

  async #tellParent({ created, stage, outputs, failure }: ExecutionState): Promise<void> {
    const { executionId, parent } = created!
    if (parent === undefined) return
    const status = stage as Ending
    await sendCommand(
      this.#bus,
      parent.executionId,
      { type: 'child', run: parent.run, executionId, status, outputs: outputs ?? { json: {} }, failure },
      `${executionId}/ended`,
    )
  }

  #environment(executionId: string): TaskEnvironment {
    const { plugins, services, credential, kv } = this.#options
    return {
      plugins,
      services,
      credential,
      kv,
      ...this.#sources,
      store: (json) => this.#store(json),
      log: ({ run, task, attempt, level, message }) => {
        const timestamp = new Date().toISOString()
        this.#logs.add(executionId, { timestamp, level, executionId, taskName: task, run, attempt, message })
      },
    }
  }

  async #store(json: unknown): Promise<Value> {
    const text = JSON.stringify(json ?? null)
    const sizeBytes = Buffer.byteLength(text)
    if (sizeBytes <= maxInlineValueBytes) return { json: json ?? null }
    return { object: await storeBytes(this.#bus, Buffer.from(text)), sizeBytes }
  }

  readonly #sources = {
    read: (value: Value) => this.#read(value),
    item: (list: Value, index: number) => this.#item(list, index),
  }

  /** Nobody gets the list itself, so it can be shared. */
  async #item(list: Value, index: number): Promise<unknown> {
    if ('json' in list) return (list.json as readonly unknown[])[index] ?? null
    const known = this.#lists.get(list.object)
    const items = known ?? ((await this.#read(list)) as readonly unknown[])
    if (known === undefined) this.#lists.set(list.object, items, { size: list.sizeBytes })
    return structuredClone(items[index] ?? null)
  }

  async #read(value: Value): Promise<unknown> {
    if ('json' in value) return value.json
    return JSON.parse(Buffer.from(await readBytes(this.#bus, value.object)).toString('utf8'))
  }
}

const endings = {
  success: 'SUCCESS',
  failed: 'FAILED',
  cancelled: 'CANCELLED',
  'timed-out': 'TIMED_OUT',
} as const satisfies Record<Ending, ListenedTo>
