import type { FlowPlan, TaskPlan } from '../../schemas/workflows/flow-plan.ts'

/** A task for tests, with what is left out left at its default. */
export function task(name: string, more: Partial<TaskPlan> = {}): TaskPlan {
  return {
    name,
    type: 'util.log',
    properties: {},
    needs: [],
    runIf: null,
    retry: null,
    timeoutMs: null,
    allowFailure: false,
    idempotencyKey: null,
    workerGroup: null,
    blocks: {},
    ...more,
  }
}

/** Tasks one after the other. */
export function sequence(...tasks: readonly TaskPlan[]): readonly TaskPlan[] {
  return tasks.map((each, index) => (index === 0 ? each : { ...each, needs: [tasks[index - 1]!.name] }))
}

export function flow(tasks: readonly TaskPlan[], more: Partial<FlowPlan> = {}): FlowPlan {
  return {
    name: 'a flow',
    inputs: [],
    variables: {},
    outputs: {},
    tasks,
    errors: [],
    finally: [],
    timeoutMs: null,
    concurrency: null,
    labels: {},
    ...more,
  }
}
