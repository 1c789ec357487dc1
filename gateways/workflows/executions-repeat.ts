import type { FastifyInstance, FastifyRequest } from 'fastify'
import { newId } from '../../bus/message.ts'
import { Rejected } from '../../schemas/failure.ts'
import { derivedId } from '../../schemas/workflows/derived-id.ts'
import { begunLoop, throughRun } from '../../schemas/workflows/execution-carried.ts'
import type { Carried, ExecutionFact } from '../../schemas/workflows/execution-facts.ts'
import { type ExecutionState, isEnded, type Run, rootKey } from '../../schemas/workflows/execution-state.ts'
import { countTasks, type FlowPlan, type TaskPlan, tasksOf } from '../../schemas/workflows/flow-plan.ts'
import { bindInputs } from '../../schemas/workflows/inputs.ts'
import { bodyOf, invalid } from '../http/request.ts'
import { loadExecution } from './execution-commands.ts'
import { createExecution, latestFlow, pinnedFlow } from './execution-start.ts'
import { iterationsAround, loopFrom } from './executions-iteration.ts'
import { idempotencyKey, objectField, textField } from './request.ts'
import type { WorkflowService } from './service.ts'

type ById = { Params: { id: string } }
type Created = Extract<ExecutionFact, { type: 'executions.execution.created' }>['data']

/** An execution that has ended is never changed: to do it again makes another one, which knows what the first has done. */
export function repeatRoutes(app: FastifyInstance, service: WorkflowService): void {
  const route = (verb: 'retry' | 'restart' | 'replay', repeat: Repeat) => {
    const config = { role: 'executor', audit: `execution.${verb}` } as const
    app.post<ById>(`/api/v1/executions/:id/${verb}`, { config }, async (request, reply) => {
      const state = await loadExecution(service.bus, request.params.id)
      if (!isEnded(state.stage)) {
        throw new Rejected('workflows/execution-state', `The execution runs; it can be ${verb}ed when it has ended`)
      }
      // Whoever may only start flows does not get around that one is off.
      const { enabled } = await latestFlow(service, state.created!.flowId)
      if (!enabled) throw new Rejected('workflows/flow-disabled', 'The flow is disabled')
      const { plan, created } = await repeat(request, state)
      const executionId = repetitionId(request, verb)
      const origin = { executionId: request.params.id, kind: verb }
      const actor = service.principalOf(request).name
      const again = { ...created, executionId, origin, actor, at: service.now(), tasksTotal: countTasks(plan) }
      const { sequence } = await createExecution(service, again)
      await service.readable('EVT_EXECUTIONS', sequence)
      return reply.code(202).send({ executionId, status: 'QUEUED', tasksTotal: again.tasksTotal })
    })
  }

  // From the failed task: what has succeeded is not run again.
  route('retry', async (request, state) => {
    bodyOf(request, [])
    if (state.stage === 'success') {
      throw new Rejected('workflows/execution-state', 'The execution has succeeded; restart or replay it instead')
    }
    const created = base(state)
    const plan = await pinnedFlow(service, created)
    return { plan, created: { ...created, carried: finished(state, plan) } }
  })

  // From any task on, with the flow as it was or as it is.
  route('restart', async (request, state) => {
    const body = bodyOf(request, ['fromTask', 'revision'])
    const { created, plan } = await chosenFlow(service, state, body.revision)
    if (body.fromTask === undefined) return { plan, created }
    const from = textField('fromTask', body.fromTask, { min: 1, max: 1_000 })
    const again = fromOn(plan, placedTask(plan, from))
    const carried = finished(state, plan)
    for (const key of Object.keys(carried)) if (again.has(taskOf(key))) delete carried[key]
    if (iterationsAround(from).length > 0) {
      const { key, begun } = await loopFrom(service.bus, state, from, again)
      carried[key] = withoutEnds(begun, endsOf(plan))
    }
    return { plan, created: { ...created, carried } }
  })

  // From the start, with other inputs.
  route('replay', async (request, state) => {
    const body = bodyOf(request, ['inputs', 'revision'])
    const { created, plan } = await chosenFlow(service, state, body.revision)
    const inputs =
      body.inputs === undefined ? created.inputs : { ...created.inputs, ...objectField('inputs', body.inputs) }
    return { plan, created: { ...created, inputs: bindInputs(plan, inputs) } }
  })
}

type Repeat = (
  request: FastifyRequest<ById>,
  state: ExecutionState,
) => Promise<{ readonly plan: FlowPlan; readonly created: Created }>

/** With an `Idempotency-Key` the same request makes one repetition. */
function repetitionId(request: FastifyRequest<ById>, verb: string): string {
  const key = idempotencyKey(request)
  return key === null ? newId() : derivedId(`${request.params.id}/${verb}/${key}`)
}

function base({ created }: ExecutionState): Created {
  const { carried: _, parent: __, origin: ___, ...rest } = created!
  return rest
}

async function chosenFlow(service: WorkflowService, state: ExecutionState, revision: unknown) {
  const created = base(state)
  if (revision === undefined || revision === 'original') return { created, plan: await pinnedFlow(service, created) }
  if (revision !== 'latest') throw invalid('revision', 'must be "original" or "latest"')
  const { latest, sequence } = await latestFlow(service, created.flowId)
  const { name: flowName, namespace, plan } = latest
  const pinned = { flowName, namespace, revision: latest.revision, flowSequence: sequence }
  const inputs = bindInputs(plan, created.inputs)
  return { plan, created: { ...created, ...pinned, inputs, hasFinally: plan.finally.length > 0 } }
}

/**
 * Task runs that need not be run again: what has succeeded or was skipped. A loop that has not goes on with the iterations that have failed or
 * were never started, and in those with the tasks that have. What deals with a failure or tidies up does so in each execution.
 */
function finished(state: ExecutionState, plan: FlowPlan): NonNullable<Created['carried']> {
  const carried: NonNullable<Created['carried']> = {}
  const tasks = new Map([...tasksOf(plan.tasks)].map((task) => [task.name, task]))
  const isEnd = endsOf(plan)
  for (const [key, run] of Object.entries(state.runs)) {
    if (key === rootKey || key.includes('[')) continue
    const task = tasks.get(run.task)
    if (task === undefined || isEnd.has(run.task)) continue
    const begun = isThrough(run) ? null : begunLoop(state.runs, key)
    if (begun !== null) carried[key] = withoutEnds(begun, isEnd)
    if (!isThrough(run)) continue
    const beside = key.slice(0, key.length - run.task.length)
    // Skipped because of a failure: that may go well now.
    const isDue = task.needs.some((need) => !isThrough(state.runs[beside + need]))
    if (run.status === 'skipped' && isDue) continue
    carried[key] = throughRun(run, run.status)
  }
  // A loop that never came to be opened here has come as far as before.
  for (const [key, begun] of Object.entries(state.begun ?? {})) if (!key.includes('[')) carried[key] ??= begun
  return carried
}

/** What deals with failures of control tasks, or tidies up behind them. */
function endsOf(plan: FlowPlan): ReadonlySet<string> {
  const ends = [...tasksOf(plan.tasks)].flatMap(({ blocks }) => [...(blocks.errors ?? []), ...(blocks.finally ?? [])])
  return new Set([...tasksOf(ends)].map(({ name }) => name))
}

function withoutEnds(carried: Carried, isEnd: ReadonlySet<string>): Carried {
  if (carried.status !== 'begun') return carried
  const kept = (done: Readonly<Record<string, Carried>>) =>
    Object.entries(done).flatMap(([key, each]) => (isEnd.has(taskOf(key)) ? [] : [[key, withoutEnds(each, isEnd)]]))
  const due = Object.entries(carried.due).map(([index, done]) => [index, Object.fromEntries(kept(done))])
  return { ...carried, due: Object.fromEntries(due) }
}

function isThrough(run: Run | undefined): run is Run & { readonly status: 'success' | 'skipped' } {
  return run?.status === 'success' || run?.status === 'skipped'
}

/** Plugins whose tasks run once an iteration. */
const loops: readonly string[] = ['core.foreach', 'flow.while']

/**
 * The task of a name, or of the key of a task run, as executions list it: `orders[2].pay`.
 * @throws {Rejected} `http/bad-request` when there is none, or it is in a loop and nothing says in which iteration
 */
function placedTask(plan: FlowPlan, from: string): string {
  const steps = from.split('.').map((step) => /^(.*?)(\[\d{1,9}\])?$/.exec(step)!)
  const name = steps.at(-1)![1]!
  const chain = chainTo(plan.tasks, name)
  if (chain === null) throw invalid('fromTask', 'is no task of the flow')
  const isKey = steps.length === chain.length && steps.every((step, place) => step[1] === chain[place]!.name)
  const misplaced = chain.slice(0, -1).filter(({ type }, place) => {
    return isKey && loops.includes(type) !== (steps[place]![2] !== undefined)
  })
  const bare = steps.length === 1 && !chain.slice(0, -1).some(({ type }) => loops.includes(type))
  if (steps.at(-1)![2] === undefined && (bare || (isKey && misplaced.length === 0))) return name
  const written = chain.map((task) => (task.name !== name && loops.includes(task.type) ? `${task.name}[0]` : task.name))
  // Named alone, the whole loop would be done again without a word.
  const reason = `does not say where it is: name its run, as in ${written.join('.')}, or a whole loop`
  throw invalid('fromTask', reason)
}

/** The control tasks around a task, from the outside in, and the task; null when there is no such task. */
function chainTo(tasks: readonly TaskPlan[], name: string): readonly TaskPlan[] | null {
  for (const task of tasks) {
    if (task.name === name) return [task]
    const inner = chainTo(Object.values(task.blocks).flat(), name)
    if (inner !== null) return [task, ...inner]
  }
  return null
}

/** A task and all that comes behind it: what depends on it, what is in it, and what it is in. */
function fromOn(plan: FlowPlan, name: string): ReadonlySet<string> {
  const again = new Set([name])
  for (let grown = true; grown; ) {
    grown = false
    const add = (task: string) => {
      if (again.has(task)) return
      again.add(task)
      grown = true
    }
    for (const task of tasksOf(plan.tasks)) {
      const children = Object.values(task.blocks).flat()
      if (task.needs.some((need) => again.has(need))) add(task.name)
      if (children.some((child) => again.has(child.name))) add(task.name)
      if (again.has(task.name) && task.name === name) for (const child of tasksOf(children)) add(child.name)
    }
  }
  for (const task of tasksOf(plan.tasks)) {
    // Behind the task everything is done anew, with all that is inside.
    if (again.has(task.name) && !containsTask(task, name)) {
      for (const child of tasksOf(Object.values(task.blocks).flat())) again.add(child.name)
    }
  }
  return again
}

function containsTask(task: TaskPlan, name: string): boolean {
  return [...tasksOf(Object.values(task.blocks).flat())].some((child) => child.name === name)
}

function taskOf(key: string): string {
  return key.slice(key.lastIndexOf('.') + 1)
}
