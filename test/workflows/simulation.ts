import { evolveAll } from '../../schemas/workflows/execution.ts'
import { decideCommands, type ExecutionCommand } from '../../schemas/workflows/execution-decide.ts'
import { ExecutionCreated, type ExecutionFact } from '../../schemas/workflows/execution-facts.ts'
import { type ExecutionState, initialExecution, isEnded, type Run } from '../../schemas/workflows/execution-state.ts'
import type { FlowPlan, OnFailure } from '../../schemas/workflows/flow-plan.ts'
import type { Opening, TaskResult } from '../../schemas/workflows/task-result.ts'
import { type Turn, turnOf } from '../../schemas/workflows/turn.ts'

/** An execution without bus and workers: the decisions alone, and somebody who hands in the results. */
export class Simulation {
  readonly facts: ExecutionFact[] = []
  readonly plan: FlowPlan
  state: ExecutionState = initialExecution
  now = 1_000

  constructor(plan: FlowPlan, created: Partial<Parameters<typeof ExecutionCreated.of>[0]> = {}) {
    this.plan = plan
    this.add([
      ExecutionCreated.of({
        executionId: 'e1',
        flowId: 'f1',
        flowName: plan.name,
        namespace: 'default',
        revision: 1,
        flowSequence: 1,
        inputs: {},
        trigger: { type: 'manual' },
        labels: {},
        tasksTotal: 1,
        actor: 'ann',
        at: this.now,
        hasFinally: plan.finally.length > 0,
        ...created,
      }),
    ])
  }

  add(facts: readonly ExecutionFact[]): void {
    this.facts.push(...facts)
    this.state = evolveAll(this.state, facts)
  }

  /** How many facts of a decision are stored before whoever decides dies; then the commands come once more. */
  survives: (facts: number) => number = (facts) => facts

  send(...commands: readonly ExecutionCommand[]): readonly ExecutionFact[] {
    const before = this.facts.length
    const decide = () => decideCommands(this.plan, this.state, commands, { now: this.now, lease: () => 'm1' }).facts
    const facts = decide()
    const whole = evolveAll(this.state, facts)
    this.add(facts.slice(0, this.survives(facts.length)))
    if (this.facts.length < before + facts.length) {
      this.add(decide())
      if (JSON.stringify(this.state) !== JSON.stringify(whole))
        throw new Error('a decision that was cut has come to something else')
    }
    return this.facts.slice(before)
  }

  begin(): this {
    this.send({ type: 'nudge' })
    return this
  }

  /** Keys of what a worker could run now. */
  get scheduled(): readonly string[] {
    return Object.entries(this.state.runs).flatMap(([key, run]) => (run.status === 'scheduled' ? [key] : []))
  }

  result(run: string, result: TaskResult, turn: Partial<Turn> = {}): readonly ExecutionFact[] {
    const known = this.state.runs[run]
    const { attempt, round, generation } = { ...turnOf(known ?? { attempt: 1, round: 0 }), ...turn }
    return this.send({ type: 'result', run, attempt, round, generation, startedAt: this.now, worker: 'w1', result })
  }

  succeed(run: string, json: unknown = {}): readonly ExecutionFact[] {
    return this.result(run, { kind: 'success', outputs: { json } })
  }

  fail(run: string, kind: 'refused' | 'unavailable' = 'refused'): readonly ExecutionFact[] {
    return this.result(run, { kind: 'failure', failure: { message: `${run} failed`, kind } })
  }

  open(run: string, opening: Opening): readonly ExecutionFact[] {
    return this.result(run, { kind: 'opening', opening })
  }

  later(ms: number): this {
    this.now += ms
    this.send({ type: 'nudge' })
    return this
  }

  run(key: string): Run | undefined {
    return this.state.runs[key]
  }

  get ended(): boolean {
    return isEnded(this.state.stage)
  }

  /** The types of the facts about a run, without the component. */
  history(run: string): readonly string[] {
    return this.facts.flatMap(({ type, data }) => {
      return (data as { run?: string }).run === run ? [type.replace('executions.task.', '')] : []
    })
  }
}

export function block(name: string, concurrency = 1_000, onFailure: OnFailure = 'cancel'): Opening {
  return { kind: 'block', block: name, concurrency, onFailure }
}

export function items(count: number, concurrency = 1, onFailure: OnFailure = 'cancel'): Opening {
  return { kind: 'items', items: { json: Array.from({ length: count }, (_, i) => i) }, count, concurrency, onFailure }
}
