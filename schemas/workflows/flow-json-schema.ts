import { isMapping } from './flow-fields.ts'
import { listenedTo } from './flow-plan.ts'
import { maxTasks, taskName } from './flow-tasks.ts'
import { maxFlowNameLength, namespacePattern } from './flow-yaml.ts'
import { writtenSchema } from './input-schema.ts'
import type { PluginManifest } from './plugin-manifest.ts'
import { strictSchema } from './plugin-schema.ts'
import { triggerConfigs } from './trigger-plan.ts'

type Schema = Readonly<Record<string, unknown>>

const duration = {
  type: ['string', 'number'],
  description: '`500ms`, `30s`, `5m`, `2h`, `1d`, `PT1H`, or milliseconds',
}
const template = {
  type: 'string',
  pattern: '\\{\\{|\\{%|\\$\\{',
  description: 'A template: `{{ outputs["task"]["field"] }}`, or a credential: `${NAME}`',
}
const tasks = { type: 'array', items: { $ref: '#/$defs/task' }, maxItems: maxTasks }
const object = (properties: Schema, required: readonly string[] = []) => {
  return { type: 'object', properties, additionalProperties: false, ...(required.length > 0 && { required }) }
}

/** The flow language as JSON Schema 2020-12, with the plugins there are: editors complete and check flows with it. */
export function flowJsonSchema(plugins: readonly PluginManifest[]): Schema {
  return {
    $schema: 'https://json-schema.org/draft/2020-12/schema',
    title: 'Busbar flow',
    ...object(flowProperties, ['name', 'tasks']),
    $defs: {
      task: { oneOf: plugins.map(({ id }) => ({ $ref: `#/$defs/${id}` })) },
      retry,
      input,
      trigger: { oneOf: triggers },
      ...Object.fromEntries(plugins.map((manifest) => [manifest.id, taskSchema(manifest)])),
    },
  }
}

const retry = object({
  maxAttempts: { type: 'integer', minimum: 1, maximum: 1_000, default: 3, description: 'The first one counts' },
  delay: { ...duration, default: '1s' },
  backoff: { enum: ['constant', 'exponential'], default: 'constant' },
  factor: { type: 'number', minimum: 1, maximum: 100, default: 2 },
  maxDelay: { ...duration, default: '1d' },
  jitter: {
    type: 'number',
    minimum: 0,
    maximum: 1,
    default: 0,
    description: 'How much of the delay is left to chance',
  },
})

const input = {
  type: 'object',
  description:
    'Besides these any words of JSON Schema that its values must fit: `enum`, `minimum`, `pattern` and the like',
  properties: {
    name: { type: 'string' },
    type: {
      enum: ['string', 'integer', 'number', 'boolean', 'object', 'array', 'datetime', 'date', 'duration'],
      default: 'string',
    },
    required: { type: 'boolean', description: 'Default: whether there is no default' },
    default: {},
    description: { type: 'string' },
  },
}

const triggers = Object.entries(triggerConfigs).map(([type, config]) => {
  const { properties, required = [] } = config as unknown as { properties: Schema; required?: string[] }
  const common = {
    name: { type: 'string' },
    enabled: { type: 'boolean', default: true },
    inputs: { type: 'object', description: 'What executions get besides what the trigger brings' },
  }
  return object({ type: { const: type }, ...common, ...properties }, ['type', ...required])
})

const flowProperties = {
  name: { type: 'string', minLength: 1, maxLength: maxFlowNameLength },
  namespace: { type: 'string', pattern: namespacePattern },
  description: { type: 'string' },
  labels: { type: 'object', additionalProperties: { type: ['string', 'number', 'boolean'] } },
  inputs: {
    description: 'What an execution is given: a list of inputs with names, or names with inputs or types',
    oneOf: [
      { type: 'array', items: { $ref: '#/$defs/input' } },
      { type: 'object', additionalProperties: { anyOf: [{ $ref: '#/$defs/input' }, { type: 'string' }] } },
    ],
  },
  variables: { type: 'object', description: 'Templates by name, for `vars`' },
  tasks: { ...tasks, minItems: 1 },
  errors: { ...tasks, description: 'Run when `tasks` have failed; the execution fails nonetheless' },
  finally: { ...tasks, description: 'Run at the end, whatever the end is' },
  outputs: { type: 'object', description: 'Templates by name: what a successful execution gives' },
  timeout: duration,
  concurrency: object(
    {
      limit: { type: 'integer', minimum: 1, maximum: 10_000 },
      behavior: { enum: ['queue', 'cancel', 'fail'], default: 'queue', description: 'What becomes of one more' },
    },
    ['limit'],
  ),
  triggers: { type: 'array', items: { $ref: '#/$defs/trigger' } },
  sla: { ...duration, description: 'How long an execution should take at most: one that takes longer goes on' },
  listeners: {
    type: 'array',
    maxItems: 20,
    description: 'Flows that are started when an execution comes to something',
    items: object(
      {
        on: { type: ['string', 'array'], items: { enum: listenedTo } },
        flow: { type: 'string', description: 'Name or id' },
        namespace: { type: 'string', pattern: namespacePattern },
        inputs: { type: 'object', description: 'Templates by name; `execution.status` is what is listened to' },
      },
      ['on', 'flow'],
    ),
  },
}

function taskSchema({ id, description, inputSchema, blocks = [] }: PluginManifest): Schema {
  const properties = withTemplates(writtenSchema(strictSchema(inputSchema)))
  const required = isMapping(properties) && Array.isArray(properties.required) && properties.required.length > 0
  const keys = blocks.length === 0 ? [] : [...new Set([...blocks, 'errors', 'finally'])]
  return {
    description,
    ...object(
      {
        name: { type: 'string', pattern: taskName, description: 'Unique in the flow' },
        type: { const: id },
        description: { type: 'string' },
        properties,
        dependsOn: { type: ['string', 'array'], items: { type: 'string' }, description: 'Tasks of the same block' },
        runIf: {
          type: ['string', 'boolean', 'number'],
          description: 'Skipped when it renders to nothing, `false`, `0` or `null`',
        },
        retry: { $ref: '#/$defs/retry' },
        timeout: duration,
        allowFailure: { type: 'boolean', default: false },
        idempotencyKey: { type: ['string', 'number'], description: 'In place of the key that the engine makes' },
        workerGroup: { type: 'string', pattern: '^[A-Za-z0-9_-]+$' },
        ...Object.fromEntries(
          keys.map((key) => [key, key === 'cases' ? { type: 'object', additionalProperties: tasks } : tasks]),
        ),
      },
      ['name', 'type', ...(required ? ['properties'] : [])],
    ),
  }
}

/** A template may stand wherever a value is: for every member and item, not for the whole. */
function withTemplates(schema: unknown): unknown {
  if (!isMapping(schema)) return schema
  const members = isMapping(schema.properties) ? Object.entries(schema.properties) : []
  return {
    ...schema,
    ...(members.length > 0 && {
      properties: Object.fromEntries(members.map(([name, each]) => [name, orTemplate(each)])),
    }),
    ...(schema.items !== undefined && { items: orTemplate(schema.items) }),
  }
}

function orTemplate(schema: unknown): unknown {
  if (!isMapping(schema)) return schema
  const { description, default: fallback, examples, ...rest } = schema
  const about = { description, default: fallback, examples }
  const told = Object.fromEntries(Object.entries(about).filter(([, value]) => value !== undefined))
  return { ...told, anyOf: [withTemplates(rest), template] }
}
