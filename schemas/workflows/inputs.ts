import { Script } from 'node:vm'
import { Compile, type Validator } from 'typebox/compile'
import { Rejected } from '../failure.ts'
import type { FlowPlan, InputPlan } from './flow-plan.ts'

const types: Readonly<Record<InputPlan['type'], Readonly<Record<string, unknown>>>> = {
  string: { type: 'string' },
  integer: { type: 'integer' },
  number: { type: 'number' },
  boolean: { type: 'boolean' },
  object: { type: 'object' },
  array: { type: 'array' },
  datetime: {
    type: 'string',
    pattern: '^\\d{4}-\\d\\d-\\d\\d[Tt ]\\d\\d:\\d\\d(:\\d\\d(\\.\\d+)?)?([Zz]|[+-]\\d\\d:\\d\\d)?$',
  },
  date: { type: 'string', pattern: '^\\d{4}-\\d\\d-\\d\\d$' },
  duration: { type: 'string', pattern: '^(\\d+(ms|s|m|h|d)?|P(?!$)(\\d+D)?(T(\\d+H)?(\\d+M)?(\\d+(\\.\\d+)?S)?)?)$' },
}

/** Of one input, for the flow's own JSON Schema and for checking. */
export function inputSchema({ type, schema }: InputPlan): Readonly<Record<string, unknown>> {
  return { ...types[type], ...schema }
}

const validators = new WeakMap<InputPlan, Validator>()

/**
 * The inputs of an execution: what is given, and defaults for what is not.
 * @throws {Rejected} `workflows/invalid-input`, with every mistake in `details.errors` as `{field, message}`.
 */
export function bindInputs(plan: FlowPlan, given: Readonly<Record<string, unknown>>): Record<string, unknown> {
  const errors: { field: string; message: string }[] = []
  const bound: Record<string, unknown> = {}
  const known = new Map(plan.inputs.map((input) => [input.name, input]))
  for (const name of Object.keys(given)) {
    // A flow without declared inputs takes what comes.
    if (known.size === 0) bound[name] = given[name]
    else if (!known.has(name)) errors.push({ field: name, message: 'The flow has no such input' })
  }
  for (const input of plan.inputs) {
    const value = given[input.name] ?? input.default
    if (value === undefined || value === null) {
      if (input.required) errors.push({ field: input.name, message: 'The input is required' })
      else bound[input.name] = null
      continue
    }
    const mistake = inputMistake(input, value)
    if (mistake === null) bound[input.name] = value
    else errors.push({ field: input.name, message: mistake })
  }
  if (errors.length === 0) return bound
  const [first] = errors
  throw new Rejected('workflows/invalid-input', `${first!.field}: ${first!.message}`, { details: { errors } })
}

/** Longer than any sound pattern takes, and short enough for those who wait meanwhile. */
const patternMs = 250
const bounded = new Script('check()')

/**
 * Why a value is not what an input takes; null when it is. Whoever sends a value chose neither the pattern nor, perhaps, did its author
 * know what it costs: one that goes astray is ended.
 */
export function inputMistake(input: InputPlan, value: unknown): string | null {
  const check = () => mistakeOf(input, value)
  if (!JSON.stringify(input.schema ?? null).includes('"pattern')) return check()
  try {
    return bounded.runInNewContext({ check }, { timeout: patternMs })
  } catch (error) {
    if ((error as { code?: unknown }).code !== 'ERR_SCRIPT_EXECUTION_TIMEOUT') throw error
    return 'takes too long to be matched against its pattern'
  }
}

function mistakeOf(input: InputPlan, value: unknown): string | null {
  const validator = validators.get(input) ?? Compile(inputSchema(input))
  validators.set(input, validator)
  if (validator.Check(value)) return null
  const [first] = validator.Errors(value)
  return `${first?.instancePath ? `${first.instancePath} ` : ''}${first?.message ?? `is no ${input.type}`}`
}
