import type { DatabaseFunction, DatabaseType } from '../data/catalog.ts'
import { failureResponses, headerReferences, parameterReferences } from './openapi-components.ts'
import { reading } from './openapi-tables.ts'
import { exampleOf, exampleText, type Json, orNull, type TypeReferences, typeSchema } from './openapi-types.ts'
import { withAuthentication } from './openapi-writes.ts'

export interface FunctionPlan {
  /** All functions of one name. */
  readonly overloads: readonly DatabaseFunction[]
  /** Ends the operations' ids. */
  readonly component: string
  readonly references: TypeReferences
  readonly jwt: boolean
}

/** `/rpc/<name>`: POST for every function, GET for those that change nothing and can be called with named arguments. */
export function functionPaths(plan: FunctionPlan): Json {
  const [first] = plan.overloads
  const readable = plan.overloads.filter(
    ({ volatility, arguments: all }) => volatility !== 'volatile' && all.every(({ name }) => name !== ''),
  )
  return {
    [`/rpc/${encodeURIComponent(first!.name)}`]: {
      ...(readable.length > 0 ? { get: getOperation(plan, readable) } : {}),
      post: postOperation(plan),
    },
  }
}

function common(plan: FunctionPlan, verb: string, overloads: readonly DatabaseFunction[]): Json {
  const { name } = overloads[0]!
  const comments = overloads.flatMap(({ comment }) => comment ?? [])
  const signatures = overloads.map((one) => `- \`${signature(one)}\``).join('\n')
  return {
    operationId: `${verb}_${plan.component}`,
    tags: ['rpc'],
    summary: `Call ${name}`,
    description: [...comments, signatures].join('\n\n'),
  }
}

function signature({ name, arguments: all, returns }: DatabaseFunction): string {
  const list = all.map(
    (one) => `${one.variadic ? 'variadic ' : ''}${one.name} ${one.type.name}${one.optional ? ' = …' : ''}`,
  )
  return `${name}(${list.map((one) => one.trim()).join(', ')}) returns ${returns.set ? 'setof ' : ''}${returns.type.name}`
}

function getOperation(plan: FunctionPlan, overloads: readonly DatabaseFunction[]): Json {
  const names = [...new Set(overloads.flatMap(({ arguments: all }) => all.map(({ name }) => name)))]
  return {
    ...common(plan, 'read', overloads),
    parameters: [
      ...names.map((name) => {
        const found = overloads.flatMap(({ arguments: all }) => all.filter((one) => one.name === name))
        const required = found.length === overloads.length && found.every(({ optional }) => !optional)
        const { type } = found[0]!
        return {
          name,
          in: 'query',
          description: `${found.map((one) => one.type.name).join(' or ')}; arrays as \`{a,b}\`, composites and JSON as JSON.`,
          required,
          schema: { type: 'string' },
          example: exampleText(type),
        }
      }),
      ...parameterReferences(['ifNoneMatch']),
    ],
    responses: {
      ...success(plan, overloads),
      304: { $ref: '#/components/responses/NotModified' },
      ...failureResponses(withAuthentication(reading, plan.jwt)),
    },
  }
}

function postOperation(plan: FunctionPlan): Json {
  const { overloads, references } = plan
  const bodies = overloads.map((one) => argumentsSchema(one, references))
  const examples = overloads.map((one, index) => [
    overloads.length === 1 ? 'call' : `call_${index + 1}`,
    { summary: signature(one), value: argumentsExample(one) },
  ])
  const idle = overloads.some(({ arguments: all }) => all.every(({ optional }) => optional))
  return {
    ...common(plan, 'call', overloads),
    parameters: parameterReferences(['idempotencyKey']),
    requestBody: {
      required: !idle,
      content: {
        'application/json': {
          schema: bodies.length === 1 ? bodies[0] : { anyOf: bodies },
          examples: Object.fromEntries(examples),
        },
      },
    },
    responses: {
      ...success(plan, overloads),
      ...failureResponses(
        withAuthentication(
          [...reading, 'Conflict', 'PayloadTooLarge', 'UnsupportedMediaType', 'IdempotencyMismatch'],
          plan.jwt,
        ),
      ),
    },
  }
}

/** A single argument without a name is the body itself. */
function argumentsSchema({ arguments: all }: DatabaseFunction, references: TypeReferences): Json {
  const [only] = all
  if (all.length === 1 && only?.name === '') return typeSchema(only.type, references)
  const named = all.filter(({ name }) => name !== '')
  const required = named.filter(({ optional, variadic }) => !optional && !variadic).map(({ name }) => name)
  return {
    type: 'object',
    properties: Object.fromEntries(named.map(({ name, type }) => [name, orNull(typeSchema(type, references))])),
    ...(required.length > 0 ? { required } : {}),
  }
}

function argumentsExample({ arguments: all }: DatabaseFunction): unknown {
  const [only] = all
  if (all.length === 1 && only?.name === '') return exampleOf(only.type)
  return Object.fromEntries(all.filter(({ name }) => name !== '').map(({ name, type }) => [name, exampleOf(type)]))
}

/** A value comes bare, a row as an object, a set as an array of them; nothing as 204. */
function success({ references }: FunctionPlan, overloads: readonly DatabaseFunction[]): Json {
  const answering = overloads.filter(({ returns }) => !returns.void)
  const schemas = new Map(
    answering.map((one) => {
      const schema = resultSchema(one, references)
      return [JSON.stringify(schema), schema]
    }),
  )
  const [first] = answering
  const done = { description: 'Done; the function returns nothing.' }
  if (!first) return { 204: done }
  return {
    200: {
      description: 'What the function returns.',
      headers: headerReferences(['ETag']),
      content: {
        'application/json': {
          schema: schemas.size === 1 ? [...schemas.values()][0] : { anyOf: [...schemas.values()] },
          example: resultExample(first),
        },
      },
    },
    ...(answering.length < overloads.length ? { 204: done } : {}),
  }
}

function resultSchema({ returns }: DatabaseFunction, references: TypeReferences): Json {
  const { type, set, columns } = returns
  const one =
    columns.length === 0
      ? typeSchema(type, references)
      : {
          type: 'object',
          properties: Object.fromEntries(
            columns.map((column) => [column.name, orNull(typeSchema(column.type, references))]),
          ),
        }
  return set ? { type: 'array', items: orNull(one) } : orNull(one)
}

function resultExample({ returns: { type, set, columns } }: DatabaseFunction): unknown {
  const one = columns.length === 0 ? exampleOf(type) : Object.fromEntries(columns.map(exampleEntry))
  return set ? [one] : one
}

function exampleEntry({ name, type }: { readonly name: string; readonly type: DatabaseType }): [string, unknown] {
  return [name, exampleOf(type)]
}
