import { Rejected } from '../failure.ts'
import { derivedId } from './derived-id.ts'
import type { CreateExecution } from './execution-create.ts'
import type { FlowPlan } from './flow-plan.ts'
import { renderValue, TemplateMistake } from './template.ts'
import type { Saved } from './trigger.ts'

/** Why a trigger starts an execution. */
export interface Firing {
  /** Names the cause among all of the trigger: the tick, the delivery. One cause starts one execution. */
  readonly cause: string
  /** What templates find under `trigger`, besides its `type`, `id` and `name`. */
  readonly brings: Readonly<Record<string, unknown>>
  /** Members of it become inputs of the same name, unless the trigger's own inputs say otherwise. */
  readonly body?: unknown
  /** Epoch ms. */
  readonly at: number
}

/** The id of the execution that a cause starts. */
export function firedExecutionId(triggerId: string, cause: string): string {
  return derivedId(`trigger/${triggerId}/${cause}`)
}

const maxEncodedName = 480

/** The execution that a trigger starts. @throws {Rejected} `workflows/invalid-input` for inputs that cannot be rendered. */
export async function firedExecution(
  { triggerId, type, name, inputs }: Saved,
  plan: Pick<FlowPlan, 'inputs'>,
  { cause, brings, body, at }: Firing,
): Promise<CreateExecution> {
  const trigger = { type, id: triggerId, name, ...brings }
  try {
    const rendered = (await renderValue(inputs, { trigger })) as Readonly<Record<string, unknown>>
    return {
      executionId: firedExecutionId(triggerId, cause),
      inputs: { ...inputsOf(plan, body), ...rendered },
      trigger,
      actor: `trigger:${shortened(name)}`,
      at,
    }
  } catch (cause) {
    if (!(cause instanceof TemplateMistake)) throw cause
    throw new Rejected('workflows/invalid-input', `The inputs of the trigger ${name}: ${cause.message}`, { cause })
  }
}

/** As much of a name as fits a header, in which a letter takes up to twelve characters. */
function shortened(name: string): string {
  return encodeURIComponent(name.toWellFormed()).length <= maxEncodedName ? name : `${[...name].slice(0, 36).join('')}…`
}

/** A flow without declared inputs takes what comes. */
function inputsOf({ inputs }: Pick<FlowPlan, 'inputs'>, body: unknown): Readonly<Record<string, unknown>> {
  if (typeof body !== 'object' || body === null || Array.isArray(body)) return {}
  const known = new Set(inputs.map(({ name }) => name))
  return Object.fromEntries(Object.entries(body).filter(([name]) => known.size === 0 || known.has(name)))
}
