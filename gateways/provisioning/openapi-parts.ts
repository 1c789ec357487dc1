/** What a route module says of one of its routes. */
export interface Operation {
  readonly summary: string
  readonly parameters?: readonly object[]
  readonly requestBody?: object
  readonly responses: Readonly<Record<string, object>>
}

/** By method and path, `GET /api/provision/{projectId}`. */
export type Operations = Readonly<Record<string, Operation>>

export const text = { type: 'string' }
export const whole = { type: 'integer', minimum: 0 }
export const number = { type: 'number' }
export const flag = { type: 'boolean' }
export const time = { type: 'string', format: 'date-time' }
export const texts = { type: 'object', additionalProperties: text }
export const anyObject = { type: 'object', additionalProperties: true }

export function object(properties: Readonly<Record<string, object>>, required: readonly string[] = []): object {
  return { type: 'object', properties, ...(required.length > 0 && { required }) }
}

export function listOf(items: object): object {
  return { type: 'array', items }
}

export function oneOf(...values: readonly string[]): object {
  return { type: 'string', enum: values }
}

export function nullable(schema: object): object {
  return { anyOf: [schema, { type: 'null' }] }
}

export function ref(name: string): object {
  return { $ref: `#/components/schemas/${name}` }
}

export function query(name: string, description: string, schema: object = text): object {
  return { name, in: 'query', description, schema }
}

export function body(schema: object, required = true): object {
  return { required, content: { 'application/json': { schema } } }
}

export function json(description: string, schema: object): object {
  return { description, content: { 'application/json': { schema } } }
}

/** The failures a route can answer, besides those that any can. */
export function failures(told: Readonly<Record<string, string>>): Readonly<Record<string, object>> {
  return Object.fromEntries(Object.entries(told).map(([status, what]) => [status, json(what, ref('Error'))]))
}

/** What a key is refused with, besides what else has this status. */
export const otherBody = 'The Idempotency-Key was used before with another body'

/** A second request with the same key is answered as the first was. */
export const once = { name: 'Idempotency-Key', in: 'header', schema: { type: 'string', maxLength: 255 } }
export const wait = query('wait', 'Seconds that the answer waits for the end of the operation', {
  type: 'integer',
  minimum: 0,
  maximum: 300,
})
export const none = failures({ 404: 'There is no such instance' })
