import { type TProperties, type TSchema, Type } from 'typebox'
import { definePlugin, type Plugin, TaskFailure, type TaskRun } from '../../plugin.ts'
import { callJson } from '../http-json.ts'

/** One request of a service's API, as its reference writes it. */
export interface ApiOperation {
  readonly title: string
  readonly method: 'GET' | 'POST' | 'PUT' | 'PATCH' | 'DELETE'
  /** Below the base URL, with `{field}` for what goes into the path. */
  readonly path: string
  /** Fields it cannot do without, those of the path included. */
  readonly required: readonly string[]
  /** Fields that go into the query, under other names where the service has them. */
  readonly query?: Readonly<Record<string, string>>
  /** What is sent; absent: nothing. */
  readonly body?: (input: ApiInput) => unknown
}

export type ApiInput = Readonly<Record<string, unknown>>

interface ApiPlugin {
  readonly id: string
  readonly name: string
  readonly description: string
  /** Where the API is; null when every customer has an own address, which is then a required property. */
  readonly baseUrl: string | null
  readonly baseUrlExample: string
  /** Where its reference is, and what one needs to use it. */
  readonly needs: string
  /** Credentials as properties. */
  readonly credentials: TProperties
  readonly headers: (input: ApiInput, key: string) => Readonly<Record<string, string>>
  /** Credentials that the service wants in the query. */
  readonly secretQuery?: (input: ApiInput) => Readonly<Record<string, string>>
  /** Default `json`. */
  readonly encoding?: 'json' | 'form'
  /** Properties of all operations; each says which need it. */
  readonly fields: TProperties
  readonly operations: Readonly<Record<string, ApiOperation>>
  /** The service takes the key of a request and does it once. */
  readonly idempotent?: boolean
  /** Properties of the example flow, in YAML, below `operation`. */
  readonly example: string
}

/** A plugin for a service with an HTTP API: its operations in a table. */
export function defineApiPlugin(api: ApiPlugin): Plugin {
  const names = Object.keys(api.operations)
  const input = Type.Object(
    {
      operation: Type.Union(
        names.map((name) => Type.Literal(name, { description: api.operations[name]!.title })),
        { description: 'What to do', examples: [names[0]] },
      ),
      ...optional(api.fields),
      ...api.credentials,
      baseUrl:
        api.baseUrl === null
          ? Type.String({ description: 'Address of your account', examples: [api.baseUrlExample] })
          : Type.String({ description: 'Address of the API', default: api.baseUrl, examples: [api.baseUrlExample] }),
    },
    { additionalProperties: false },
  )
  return definePlugin({
    id: api.id,
    name: api.name,
    category: 'SaaS',
    description: api.description,
    needs: api.needs,
    effect: api.idempotent === true ? 'idempotent' : 'once',
    input,
    output: Type.Object({
      status: Type.Integer({ description: 'HTTP status of the answer', examples: [200] }),
      body: Type.Unknown({ description: 'The answer, as the service gives it', examples: [{ id: 1 }] }),
    }),
    example: `name: ${api.id.replace('.', '-')}
tasks:
  - name: call
    type: ${api.id}
    properties:
      operation: ${names[0]}
${api.example
  .trim()
  .split('\n')
  .map((line) => `      ${line}`)
  .join('\n')}
`,
    run: (given) => callApi(api, given as unknown as TaskRun<ApiInput>),
  })
}

function optional(fields: TProperties): TProperties {
  return Object.fromEntries(Object.entries(fields).map(([name, schema]) => [name, Type.Optional(schema as TSchema)]))
}

async function callApi(api: ApiPlugin, given: TaskRun<ApiInput>) {
  const { input, idempotencyKey } = given
  const operation = api.operations[String(input.operation)]!
  for (const name of operation.required) {
    if (input[name] === undefined) {
      throw new TaskFailure('refused', `properties.${name} is needed for the operation ${input.operation}`)
    }
  }
  const sent = operation.body?.(input)
  const body = sent === undefined ? undefined : encode(api, sent)
  return await callJson(given, {
    service: api.name,
    url: urlOf(api, operation, input),
    method: operation.method,
    headers: { ...(body !== undefined && { 'Content-Type': contentType(api) }), ...api.headers(input, idempotencyKey) },
    ...(body !== undefined && { body }),
  })
}

function urlOf(api: ApiPlugin, { path, query = {} }: ApiOperation, input: ApiInput): string {
  const filled = path.replace(/\{(\w+)\}/g, (_, name: string) => encodeURIComponent(String(input[name])))
  const url = new URL(`${String(input.baseUrl).replace(/\/+$/, '')}${filled}`)
  for (const [name, parameter] of Object.entries(query)) {
    const value = input[name]
    if (value !== undefined) url.searchParams.set(parameter, Array.isArray(value) ? value.join(',') : String(value))
  }
  for (const [name, value] of Object.entries(api.secretQuery?.(input) ?? {})) url.searchParams.set(name, value)
  return url.href
}

function contentType({ encoding }: ApiPlugin): string {
  return encoding === 'form' ? 'application/x-www-form-urlencoded' : 'application/json'
}

function encode({ encoding }: ApiPlugin, sent: unknown): string {
  if (encoding !== 'form') return JSON.stringify(sent)
  const form = new URLSearchParams()
  addFields(form, '', sent)
  return form.toString()
}

/** Objects and lists in brackets: `metadata[order]=6`. */
function addFields(form: URLSearchParams, name: string, value: unknown): void {
  if (value === undefined || value === null) return
  if (typeof value !== 'object') form.append(name, String(value))
  else {
    for (const [key, each] of Object.entries(value)) addFields(form, name === '' ? key : `${name}[${key}]`, each)
  }
}

/** Without the members that are not given. */
export function given(members: Readonly<Record<string, unknown>>): Record<string, unknown> {
  return Object.fromEntries(Object.entries(members).filter(([, value]) => value !== undefined))
}

/** Some of the properties, under their own names. */
export function only(input: ApiInput, names: readonly string[]): Record<string, unknown> {
  return given(Object.fromEntries(names.map((name) => [name, input[name]])))
}

export function basic(user: unknown, password: unknown): string {
  return `Basic ${Buffer.from(`${user}:${password}`).toString('base64')}`
}

/** A property that is a text. */
export function text(description: string, example: string): TSchema {
  return Type.String({ description, examples: [example] })
}

/** A property that holds a credential: written as `${NAME}` in flows. */
export function secret(description: string, name: string): TSchema {
  return Type.String({ description, examples: [`\${${name}}`] })
}

export function whole(description: string, example: number): TSchema {
  return Type.Integer({ description, examples: [example] })
}

export function flag(description: string): TSchema {
  return Type.Boolean({ description, examples: [true] })
}

export function texts(description: string, example: readonly string[]): TSchema {
  return Type.Array(Type.String(), { description, examples: [example] })
}

/** A property that is handed on as it is. */
export function record(description: string, example: unknown): TSchema {
  return Type.Record(Type.String(), Type.Unknown(), { description, examples: [example] })
}

export function list(description: string, example: readonly unknown[]): TSchema {
  return Type.Array(Type.Unknown(), { description, examples: [example] })
}
