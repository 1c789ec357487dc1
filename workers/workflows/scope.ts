import type { ExecutionState } from '../../schemas/workflows/execution-state.ts'
import type { FlowPlan } from '../../schemas/workflows/flow-plan.ts'
import type { Value } from '../../schemas/workflows/task-result.ts'
import { Lookup, renderValue, type TemplateScope } from '../../schemas/workflows/template.ts'

export interface ScopeSources {
  /** Reads what lies in the object store. */
  readonly read: (value: Value) => Promise<unknown>
  readonly kv: (namespace: string, key: string) => Promise<unknown>
  /** Of a list, without reading it each time. */
  readonly item: (list: Value, index: number) => Promise<unknown>
}

/** What the templates of a task run can name. */
export async function scopeOf(
  plan: FlowPlan,
  state: ExecutionState,
  run: string,
  sources: ScopeSources,
): Promise<TemplateScope> {
  const created = state.created!
  const chain = iterationsAround(run)
  const scope: Record<string, unknown> = {
    inputs: created.inputs,
    outputs: outputsFor(state, chain, sources),
    trigger: created.trigger,
    labels: created.labels,
    execution: {
      id: created.executionId,
      flowId: created.flowId,
      flowName: created.flowName,
      namespace: created.namespace,
      revision: created.revision,
      createdAt: new Date(created.at).toISOString(),
      ...(state.startedAt !== null && { startedAt: new Date(state.startedAt).toISOString() }),
      actor: created.actor,
    },
    failure: state.runs['']?.failure ?? failureAround(state, run),
    kv: new Lookup((key) => sources.kv(created.namespace, key)),
    ...(await iterationOf(state, chain, sources)),
  }
  const vars: Record<string, unknown> = {}
  scope.vars = vars
  // In the order they are written, so that one can use those before it.
  for (const [name, template] of Object.entries(plan.variables)) vars[name] = await renderValue(template, scope)
  return scope
}

interface Iteration {
  readonly loop: string
  readonly index: number
  /** What the keys of its tasks begin with. */
  readonly prefix: string
}

/** From the outside in. */
function iterationsAround(run: string): readonly Iteration[] {
  return [...run.matchAll(/\[(\d+)\]\./g)].map((found) => ({
    loop: run.slice(0, found.index),
    index: Number(found[1]),
    prefix: run.slice(0, found.index + found[0].length),
  }))
}

async function iterationOf(state: ExecutionState, chain: readonly Iteration[], sources: ScopeSources) {
  let around: Record<string, unknown> = {}
  for (const { loop, index } of chain) {
    const { opening } = state.runs[loop] ?? {}
    const item = opening?.kind === 'items' ? await sources.item(opening.items, index) : null
    around = { item, index, ...(Object.keys(around).length > 0 && { parent: around }) }
  }
  return around
}

/** By name: tasks of the innermost iteration hide those of the same name further out. */
function outputsFor(state: ExecutionState, chain: readonly Iteration[], { read }: ScopeSources): Lookup {
  const prefixes = ['', ...chain.map(({ prefix }) => prefix)]
  let keys: ReadonlyMap<string, string> | null = null
  return new Lookup(async (task) => {
    // There can be many, and most templates name none.
    keys ??= keysByTask(state, prefixes)
    const run = state.runs[keys.get(task) ?? '']
    if (run === undefined || task === '') return null
    const own = run.outputs === null ? {} : await read(run.outputs)
    if (run.loop === null) return own
    return { ...(own as object), iterations: await Promise.all(run.loop.results.map((each) => readAll(each, read))) }
  })
}

function keysByTask(state: ExecutionState, prefixes: readonly string[]): ReadonlyMap<string, string> {
  const keys = new Map<string, string>()
  for (const [key, run] of Object.entries(state.runs)) {
    if (key === '' || !prefixes.includes(key.slice(0, key.lastIndexOf('].') + 1 ? key.lastIndexOf('].') + 2 : 0)))
      continue
    const known = keys.get(run.task)
    if (known === undefined || key.length > known.length) keys.set(run.task, key)
  }
  return keys
}

async function readAll(values: Readonly<Record<string, Value>> | null, read: ScopeSources['read']) {
  const entries = Object.entries(values ?? {}).map(async ([name, value]) => [name, await read(value)] as const)
  return Object.fromEntries(await Promise.all(entries))
}

/** Of the innermost control task around a run whose `errors` it belongs to. */
function failureAround(state: ExecutionState, run: string): unknown {
  for (let key = run; key.includes('.'); ) {
    key = key.slice(0, key.lastIndexOf('.')).replace(/\[\d+\]$/, '')
    const { failure } = state.runs[key] ?? {}
    if (failure) return failure
  }
  return null
}
