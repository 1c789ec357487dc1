import { AppendConflict } from '../../bus/append.ts'
import { type Bus, BusUnavailable } from '../../bus/connect.ts'
import { pauseUnlessBack } from '../../bus/pause.ts'
import { decideCommands, type ExecutionCommand, findTask } from '../../schemas/workflows/execution-decide.ts'
import { type ExecutionState, isEnded, type Run } from '../../schemas/workflows/execution-state.ts'
import type { FlowPlan, TaskPlan } from '../../schemas/workflows/flow-plan.ts'
import type { TaskResult } from '../../schemas/workflows/task-result.ts'
import { isTurn, turnOf } from '../../schemas/workflows/turn.ts'
import { claim, claimedByAnother } from './claim.ts'
import type { Executions, Stored } from './executions.ts'
import type { FlowPlans } from './flow-plans.ts'
import { type FollowUp, followUpsOf, outstanding } from './follow-ups.ts'
import type { RunningTasks } from './running-tasks.ts'
import { doubtsOf, isOverdue, maxUnsavedMs, mustBeStored, type Unsaved, type Waiting } from './unsaved.ts'

/** What an actor needs of the engine. */
export interface ActorContext {
  readonly bus: Bus
  readonly executions: Executions
  readonly worker: string
  readonly plans: FlowPlans
  readonly running: RunningTasks
  readonly now: () => number
  /** Whether the worker that decides a task may run it as well, when so many run already. */
  readonly inline: (task: TaskPlan, live: number) => boolean
  readonly isPure: (task: TaskPlan) => boolean
  readonly isOnce: (task: TaskPlan) => boolean
  readonly run: (attempt: {
    readonly plan: FlowPlan
    readonly task: TaskPlan
    readonly state: ExecutionState
    readonly run: string
    readonly signal: AbortSignal
  }) => Promise<TaskResult>
  readonly perform: (stored: Stored, followUp: FollowUp, again: boolean) => Promise<void>
  /** Messages that tasks hang on and nobody has in hand any more, but for those that are held here. */
  readonly lostLeases: (state: ExecutionState, held: ReadonlySet<string>) => Promise<ReadonlySet<string>>
  /** Log lines of the tasks, before their results are told. */
  readonly flushLogs: (executionId: string) => Promise<void>
  /** It has nothing to do any more, and nothing of it runs here. */
  readonly onIdle: (actor: ExecutionActor) => void
}

/** How a message came. */
export type Handling = Pick<Waiting, 'again'> & Partial<Pick<Waiting, 'bears' | 'at'>>

const maxBatch = 200
const retryMs = 250
const none: ReadonlySet<string> = new Set()

/**
 * One execution in this process: takes what has come in one go, decides, stores, does what follows, and runs the tasks that are its
 * own. A message is done with when what it led to is stored and the tasks that hang on it are through; so whoever gets it after a crash
 * goes on where its tasks were.
 */
export class ExecutionActor {
  readonly id: string
  readonly #context: ActorContext
  #stored: Stored | null
  readonly #queue: Waiting[] = []
  /** Decided and not stored: taken back when somebody else was faster. */
  #unsaved: Unsaved | null = null
  /** Messages whose tasks run. */
  readonly #held = new Map<string, Set<PromiseWithResolvers<void>>>()
  #working: Promise<void> | null = null
  #stopped = false

  /** @param seen spares it to read the execution */
  constructor(id: string, context: ActorContext, seen: Stored | null) {
    this.id = id
    this.#stored = seen
    this.#context = context
  }

  /** Resolves when the message can be acknowledged. @throws what stops it from being handled, but for a bus that is away. */
  handle(command: ExecutionCommand, lease: string, { again, bears = true, at = 0 }: Handling): Promise<void> {
    const handled = Promise.withResolvers<void>()
    this.#add({ command, lease, again, bears, at, handled })
    return handled.promise
  }

  /** Another process has decided something: what runs here may not be wanted any more. */
  async refresh(): Promise<void> {
    const { begun } = this.#context.running
    const stored = await this.#context.executions.load(this.id)
    if (this.#unsaved !== null && this.#unsaved.stored.sequence !== stored.sequence) this.#takeBack([])
    if (this.#unsaved === null) {
      if (stored.sequence >= (this.#stored?.sequence ?? 0)) this.#stored = stored
      this.#context.running.stopUnwanted(this.id, stored.state, begun)
    }
    this.#wake()
  }

  stop(): void {
    this.#stopped = true
  }

  #add(waiting: Waiting): void {
    this.#queue.push(waiting)
    this.#wake()
  }

  #wake(): void {
    this.#working ??= this.#work().finally(() => {
      this.#working = null
      // Others may decide while it has nothing to do.
      if (this.#queue.length > 0) this.#wake()
      else if (this.#unsaved === null) {
        this.#stored = null
        if (this.#held.size === 0) this.#context.onIdle(this)
      }
    })
  }

  async #work(): Promise<void> {
    // What comes in the same turn is decided together.
    await Promise.resolve()
    while (this.#queue.length > 0 || this.#mustSave()) {
      const batch = this.#queue.splice(0, maxBatch)
      try {
        await this.#step(batch)
      } catch (error) {
        if (await this.#passes(error, batch)) continue
        this.#giveUp(batch, error)
      }
    }
  }

  /** A bus that is away comes back, unless the process stops before. */
  async #passes(error: unknown, batch: readonly Waiting[]): Promise<boolean> {
    if (!(error instanceof BusUnavailable || error instanceof AppendConflict) || this.#stopped) return false
    this.#takeBack(batch)
    if (error instanceof BusUnavailable) await pauseUnlessBack(this.#context.bus, retryMs)
    return true
  }

  #takeBack(batch: readonly Waiting[]): void {
    const taken = this.#unsaved?.taken ?? []
    this.#unsaved = null
    this.#stored = null
    const all = [...taken, ...batch.filter((each) => !taken.includes(each))]
    // What was not answered may be stored nonetheless, and then nobody has done what follows from it.
    this.#queue.unshift(...all.map((each) => ({ ...each, again: true })))
  }

  #giveUp(batch: readonly Waiting[], error: unknown): void {
    const taken = [...(this.#unsaved?.taken ?? []), ...batch]
    this.#unsaved = null
    this.#stored = null
    for (const { handled } of taken) handled?.reject(error)
    for (const held of this.#held.values()) for (const handled of held) handled.reject(error)
    this.#held.clear()
  }

  async #step(batch: readonly Waiting[]): Promise<void> {
    const isFresh = this.#stored === null
    const stored = await this.#read()
    const before = this.#unsaved?.state ?? stored.state
    if (before.stage === 'absent') {
      for (const { handled } of batch) handled?.resolve()
      return
    }
    const plan = await this.#context.plans.get(before.created!)
    const lease = (batch.find(({ handled }) => handled === null) ?? batch.find(({ bears }) => bears))?.lease
    const { facts, state } = decideCommands(
      plan,
      before,
      batch.map(({ command }) => command),
      {
        now: Math.max(this.#context.now(), ...batch.map(({ at }) => at)),
        lease: (task, live) => (lease !== undefined && this.#context.inline(task, live) ? lease : null),
      },
    )
    if (facts.length === 0 && this.#unsaved === null && !isFresh) {
      // Nothing follows from what we know, but somebody else may have decided meanwhile, and nothing would tell us.
      this.#stored = null
      return await this.#step(batch)
    }
    this.#unsaved ??= this.#begun(stored, state)
    this.#unsaved.facts.push(...facts)
    this.#unsaved.taken.push(...batch)
    this.#unsaved.state = state
    if (mustBeStored(plan, this.#unsaved, this.#context.isPure)) await this.#save(plan)
    if (this.#unsaved !== null || this.#stored !== null)
      this.#startTasks(plan, this.#unsaved?.state ?? this.#stored!.state)
    this.#release()
  }

  #begun(stored: Stored, state: ExecutionState): Unsaved {
    setTimeout(() => this.#mustSave() && this.#wake(), maxUnsavedMs + 1).unref()
    return { facts: [], taken: [], state, stored, since: performance.now() }
  }

  #mustSave(): boolean {
    if (this.#unsaved === null) return false
    return this.#context.running.isEmpty(this.id) || isOverdue(this.#unsaved)
  }

  async #save(plan: FlowPlan): Promise<void> {
    const unsaved = this.#unsaved!
    const { facts, taken, state, stored: before } = unsaved
    const followUps = followUpsOf(plan, facts, state, before.state.runs)
    const timers = followUps.filter((followUp) => followUp.type === 'timer')
    if (facts.length > 0) {
      if (isEnded(state.stage)) await this.#context.flushLogs(this.id)
      // Ahead of what asks for them: whoever dies in between would let them come late.
      await this.#setTimers(timers, before)
      this.#stored = await this.#context.executions.append(this.id, before, {
        facts,
        state,
        causation: taken[0]!.lease,
      })
    }
    this.#unsaved = null
    // From here on nothing is taken back: what is left to do is in the state.
    this.#context.running.stopUnwanted(this.id, state)
    for (const { lease, handled } of taken) {
      if (handled !== null) this.#held.set(lease, (this.#held.get(lease) ?? new Set()).add(handled))
    }
    const { again, swept, endedOutside } = doubtsOf(unsaved)
    const stored = this.#stored ?? before
    const left =
      again || endedOutside
        ? outstanding(plan, state, { lost: swept ? await this.#lost(state) : none, anew: swept })
        : []
    // One that went off before it was asked for has found nothing.
    const now = this.#context.now()
    const next = followUps.filter((followUp) => followUp.type !== 'timer' || followUp.at <= now)
    await this.#followUp(stored, [...next, ...left], again)
  }

  async #setTimers(timers: readonly FollowUp[], stored: Stored): Promise<void> {
    await Promise.all(timers.map((timer) => this.#context.perform(stored, timer, false)))
  }

  async #lost(state: ExecutionState): Promise<ReadonlySet<string>> {
    try {
      return await this.#context.lostLeases(state, new Set(this.#held.keys()))
    } catch (error) {
      if (!(error instanceof BusUnavailable)) throw error
      // The next nudge asks again.
      return none
    }
  }

  async #followUp(stored: Stored, followUps: readonly FollowUp[], again: boolean): Promise<void> {
    const aborts = followUps.some(({ type }) => type === 'abort')
    const distinct = followUps.filter(({ type }) => type !== 'abort')
    for (;;) {
      try {
        if (aborts) await this.#context.perform(stored, { type: 'abort' }, again)
        await Promise.all(distinct.map((followUp) => this.#context.perform(stored, followUp, again)))
        return
      } catch (error) {
        if (!(error instanceof BusUnavailable) || this.#stopped) throw error
        await pauseUnlessBack(this.#context.bus, retryMs)
      }
    }
  }

  /** The tasks whose message is in these hands, and those that have just been decided. */
  #startTasks(plan: FlowPlan, state: ExecutionState): void {
    const leases = new Set([...this.#held.keys(), ...(this.#unsaved?.taken.map(({ lease }) => lease) ?? [])])
    for (const [key, run] of Object.entries(state.runs)) {
      const mine = run.status === 'scheduled' && run.lease !== null && leases.has(run.lease)
      if (!mine || this.#context.running.has(this.id, key, turnOf(run)) || this.#isThrough(key, run)) continue
      void this.#runTask(plan, state, key)
    }
  }

  /** Its result has come while this was being decided, and is next. */
  #isThrough(key: string, run: Run): boolean {
    return this.#queue.some(({ command }) => {
      return command.type === 'result' && command.run === key && isTurn(run, turnOf(command))
    })
  }

  async #runTask(plan: FlowPlan, state: ExecutionState, key: string): Promise<void> {
    const { lease, claimedBy } = state.runs[key]!
    const turn = turnOf(state.runs[key]!)
    const task = findTask(plan, state.runs[key]!)
    const startedAt = this.#context.now()
    const { signal, end } = this.#context.running.begin(this.id, key, turn)
    let result: TaskResult
    try {
      const once = this.#context.isOnce(task)
      if (
        once &&
        (claimedBy !== null || !(await claim(this.#context, { executionId: this.id, run: key, turn, signal })))
      )
        result = claimedByAnother
      else {
        if (once) this.#stored = null
        result = await this.#context.run({ plan, task, state, run: key, signal })
      }
    } catch (error) {
      result = { kind: 'failure', failure: { message: String((error as Error).message), kind: 'unavailable' } }
    }
    end()
    if (this.#stopped) return
    const waiting = { lease: lease!, again: false, bears: true, at: 0, handled: null }
    // That it was stopped says nothing about it: where it is wanted once more, it begins once more.
    if (signal.aborted && result.kind === 'failure') return this.#add({ command: { type: 'nudge' }, ...waiting })
    const command = {
      type: 'result',
      run: key,
      ...turn,
      startedAt,
      worker: this.#context.worker,
      result,
    } as const
    this.#add({ command, ...waiting })
  }

  /** Messages that no task hangs on any more. */
  #release(): void {
    if (this.#unsaved !== null || this.#stored === null) return
    const needed = new Set(
      Object.entries(this.#stored.state.runs).flatMap(([, { status, lease }]) => {
        return status === 'scheduled' && lease !== null ? [lease] : []
      }),
    )
    for (const [lease, handled] of this.#held) {
      if (needed.has(lease)) continue
      for (const each of handled) each.resolve()
      this.#held.delete(lease)
    }
  }

  async #read(): Promise<Stored> {
    this.#stored ??= await this.#context.executions.load(this.id)
    return this.#stored
  }
}
