import { Compile } from 'typebox/compile'
import { isPlainText, notPlainText } from '../plain-text.ts'
import { Fields, isMapping } from './flow-fields.ts'
import {
  type ConcurrencyPlan,
  type FlowPlan,
  type InputPlan,
  type ListenedTo,
  type ListenerPlan,
  listenedTo,
  type TaskPlan,
  tasksOf,
} from './flow-plan.ts'
import { readTasks, type TaskReading } from './flow-tasks.ts'
import { checkTemplates, type TemplateNames } from './flow-templates.ts'
import { propertyProblems } from './input-schema.ts'
import { inputMistake, inputSchema } from './inputs.ts'
import type { PluginManifest } from './plugin-manifest.ts'
import { isCredential, type TriggerPlan, triggerConfigs, triggerMistake } from './trigger-plan.ts'
import { type FlowProblem, type Path, YamlSource } from './yaml-source.ts'

export type ReadFlow =
  | { readonly plan: FlowPlan; readonly namespace: string | null; readonly problems: readonly [] }
  | { readonly plan: null; readonly namespace: null; readonly problems: readonly FlowProblem[] }

/** Which plugins there are. */
export interface KnownPlugins {
  all(): readonly PluginManifest[]
  find(type: string): PluginManifest | undefined
}

export const namespacePattern = '^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$'
export const maxFlowNameLength = 200

const flowKeys = [
  'name',
  'namespace',
  'description',
  'labels',
  'inputs',
  'variables',
  'tasks',
  'errors',
  'finally',
  'outputs',
  'timeout',
  'concurrency',
  'triggers',
  'sla',
  'listeners',
]

/**
 * A flow out of its YAML text, or everything that is wrong with it, in the order of the text.
 *
 * The language: `gateways/workflows/README.md`.
 */
export function readFlow(text: string, plugins: KnownPlugins): ReadFlow {
  const source = new YamlSource(text)
  const value = source.value()
  const read = source.problems.length > 0 ? null : readWhole(source, value, plugins)
  if (read !== null && source.problems.length === 0) return { ...read, problems: [] }
  const problems = source.problems.toSorted((one, other) => one.line - other.line || one.column - other.column)
  return { plan: null, namespace: null, problems }
}

function readWhole(source: YamlSource, value: unknown, plugins: KnownPlugins) {
  const fields = Fields.of(source, [], value, flowKeys)
  if (fields === null) return null
  fields.text('description', { max: 10_000 })
  const namespace = fields.text('namespace', { max: 100 })
  if (namespace !== null && !new RegExp(namespacePattern).test(namespace)) {
    fields.wrong('namespace', 'must hold letters, digits, dots, _ and - only, and begin with a letter or digit')
  }
  const reading: TaskReading = {
    source,
    find: (type) => plugins.find(type),
    types: plugins.all().map(({ id }) => id),
    names: new Set(),
    places: new Map(),
  }
  const block = (name: string) => readTasks(reading, fields.path(name), fields.list(name, 10_000))
  const triggers = readTriggers(source, fields)
  const listeners = readListeners(source, fields)
  const slaMs = fields.duration('sla', null)
  const plan: FlowPlan = {
    name: fields.text('name', { max: maxFlowNameLength, required: true }) ?? '',
    inputs: readInputs(source, fields),
    variables: fields.mapping('variables', 200),
    outputs: fields.mapping('outputs', 200),
    tasks: block('tasks'),
    errors: block('errors'),
    finally: block('finally'),
    timeoutMs: fields.duration('timeout', null),
    concurrency: readConcurrency(source, fields),
    labels: readLabels(fields),
    ...(triggers.length > 0 && { triggers }),
    ...(slaMs !== null && { slaMs }),
    ...(listeners.length > 0 && { listeners }),
  }
  if (!fields.has('tasks')) fields.missing('tasks')
  else if (Array.isArray(fields.raw('tasks')) && (fields.raw('tasks') as unknown[]).length === 0)
    fields.wrong('tasks', 'must have a task')
  checkAllTemplates(source, plan, reading.places)
  return { plan, namespace }
}

function checkAllTemplates(source: YamlSource, plan: FlowPlan, places: ReadonlyMap<TaskPlan, Path>): void {
  const tasks = [...tasksOf(plan.tasks, plan.errors, plan.finally)]
  const names: TemplateNames = {
    tasks: new Set(tasks.map(({ name }) => name)),
    inputs: plan.inputs,
    variables: new Set(Object.keys(plan.variables)),
  }
  checkTemplates(source, ['variables'], plan.variables, names)
  checkTemplates(source, ['outputs'], plan.outputs, names)
  for (const [index, { inputs }] of (plan.listeners ?? []).entries()) {
    checkTemplates(source, ['listeners', index, 'inputs'], inputs, names)
  }
  for (const [index, { inputs }] of (plan.triggers ?? []).entries()) {
    checkTemplates(source, ['triggers', index, 'inputs'], inputs, names, ['trigger'])
  }
  for (const task of tasks) {
    const path = places.get(task)!
    for (const key of ['properties', 'runIf', 'idempotencyKey'] as const) {
      checkTemplates(source, [...path, key], task[key], names)
    }
  }
}

const inputTypes = [
  'string',
  'integer',
  'number',
  'boolean',
  'object',
  'array',
  'datetime',
  'date',
  'duration',
] as const
const schemaWords = [
  'enum',
  'minimum',
  'maximum',
  'exclusiveMinimum',
  'exclusiveMaximum',
  'multipleOf',
  'minLength',
  'maxLength',
  'pattern',
  'items',
  'minItems',
  'maxItems',
  'uniqueItems',
  'properties',
  'additionalProperties',
]

/** A list of inputs with names, or a mapping of names to inputs or to types alone. */
function readInputs(source: YamlSource, fields: Fields): readonly InputPlan[] {
  const raw = fields.raw('inputs')
  const entries: (readonly [Path, string | null, unknown])[] = isMapping(raw)
    ? Object.entries(fields.mapping('inputs', 200)).map(([name, each]) => [
        [...fields.path('inputs'), name],
        name,
        each,
      ])
    : fields.list('inputs', 200).map((each, index) => [[...fields.path('inputs'), index], null, each])
  const inputs: InputPlan[] = []
  for (const [path, name, value] of entries) {
    const input = readInput(source, path, name, typeof value === 'string' && name !== null ? { type: value } : value)
    if (input === null) continue
    if (inputs.some((each) => each.name === input.name)) source.add(path, `The flow has another input ${input.name}`)
    inputs.push(input)
  }
  return inputs
}

function readInput(source: YamlSource, path: Path, named: string | null, value: unknown): InputPlan | null {
  const keys = [...(named === null ? ['name'] : []), 'type', 'required', 'default', 'description', ...schemaWords]
  const fields = Fields.of(source, path, value ?? {}, keys)
  if (fields === null) return null
  const name = named ?? fields.text('name', { max: 100, required: true }) ?? ''
  if (name !== '' && !/^[A-Za-z_][A-Za-z0-9_-]*$/.test(name)) {
    source.add(
      path,
      `${name} is no name for an input: it must begin with a letter and hold letters, digits, _ and - only`,
    )
  }
  const written = schemaWords.filter((word) => fields.has(word)).map((word) => [word, fields.raw(word)])
  const fallback = fields.raw('default')
  const input: InputPlan = {
    name,
    type: fields.choice('type', inputTypes, 'string'),
    required: fields.flag('required', fallback === undefined),
    description: fields.text('description', { max: 5_000 }) ?? '',
    ...(fallback !== undefined && { default: fallback }),
    ...(written.length > 0 && { schema: Object.fromEntries(written) }),
  }
  checkInput(input, fields)
  return input
}

/** Words that are used at each start have to be right before it. */
function checkInput(input: InputPlan, fields: Fields): void {
  try {
    if (typeof input.schema?.pattern === 'string') new RegExp(input.schema.pattern, 'u')
    Compile(inputSchema(input))
    const { default: fallback } = input
    const mistake = fallback === undefined ? null : inputMistake(input, fallback)
    if (mistake !== null) fields.wrong('default', `${mistake}: this input is of the type ${input.type}`)
  } catch (error) {
    fields.wrong('type', `The words beside it are no JSON Schema: ${(error as Error).message.split('\n')[0]}`)
  }
}

function readLabels(fields: Fields): Readonly<Record<string, string>> {
  const labels: Record<string, string> = {}
  for (const [name, value] of Object.entries(fields.mapping('labels', 50))) {
    const plain = ['string', 'number', 'boolean'].includes(typeof value)
    if (!isPlainText(`${name}${value}`)) fields.wrong('labels', `${JSON.stringify(name.slice(0, 100))} ${notPlainText}`)
    else if (plain && String(value).length <= 200 && name.length <= 100) labels[name] = String(value)
    else fields.wrong('labels', `${name.slice(0, 100)} must be a text of at most 200 characters`)
  }
  return labels
}

function readConcurrency(source: YamlSource, fields: Fields): ConcurrencyPlan | null {
  if (!fields.has('concurrency')) return null
  const value = fields.raw('concurrency')
  const whole = typeof value === 'number' ? { limit: value } : value
  const own = Fields.of(source, fields.path('concurrency'), whole, ['limit', 'behavior'])
  if (own === null) return null
  if (!own.has('limit')) own.missing('limit')
  return {
    limit: own.number('limit', { min: 1, max: 10_000, whole: true, otherwise: 1 }),
    behavior: own.choice('behavior', ['queue', 'cancel', 'fail'], 'queue'),
  }
}

function readTriggers(source: YamlSource, fields: Fields): readonly TriggerPlan[] {
  const names = new Set<string>()
  return fields.list('triggers', 50).flatMap((value, index) => {
    const path = [...fields.path('triggers'), index]
    const own = Fields.of(source, path, value, null)
    if (own === null || !isMapping(value)) return []
    const name = own.text('name', { max: 100 }) ?? `trigger-${index + 1}`
    if (names.has(name)) own.wrong('name', `The flow has another trigger ${name}`)
    names.add(name)
    if (!own.has('type')) own.missing('type')
    const types = Object.keys(triggerConfigs) as (keyof typeof triggerConfigs)[]
    const type = own.choice('type', types, 'manual')
    const { name: _, type: __, enabled: ___, inputs: ____, ...config } = value
    // Of a type that is not known nobody can say what it takes.
    const problems = value.type === type ? propertyProblems(triggerConfigs[type], config) : []
    for (const problem of problems) source.add([...path, ...problem.path], problem.message, problem.of)
    const mistake = value.type === type && problems.length === 0 ? triggerMistake(type, config) : null
    if (mistake !== null) own.wrong(mistake.member, mistake.message)
    // What stands in a flow's text can be read by whoever may read flows.
    if (type === 'webhook' && typeof config.secret === 'string' && !isCredential(config.secret)) {
      own.wrong('secret', 'must be a credential: ${NAME}')
    }
    return [{ name, type, enabled: own.flag('enabled', true), inputs: own.mapping('inputs', 200), config }]
  })
}

function readListeners(source: YamlSource, fields: Fields): readonly ListenerPlan[] {
  return fields.list('listeners', 20).flatMap((value, index) => {
    const own = Fields.of(source, [...fields.path('listeners'), index], value, ['on', 'flow', 'namespace', 'inputs'])
    if (own === null) return []
    const on = typeof own.raw('on') === 'string' ? [own.raw('on')] : own.list('on', listenedTo.length)
    if (on.length === 0) own.wrong('on', `must name what to listen to: ${listenedTo.join(', ')}`)
    const unknown = on.find((each) => !(listenedTo as readonly unknown[]).includes(each))
    if (unknown !== undefined) own.wrong('on', `can hold ${listenedTo.join(', ')}, not ${String(unknown).slice(0, 50)}`)
    if (on.includes('SLA_MISSED') && !fields.has('sla')) own.wrong('on', 'names SLA_MISSED, and the flow has no sla')
    const flow = own.text('flow', { max: maxFlowNameLength, required: true }) ?? ''
    const namespace = own.text('namespace', { max: 100 })
    return [{ on: on as ListenedTo[], flow, namespace, inputs: own.mapping('inputs', 200) }]
  })
}
