/** What a route module says of one of its routes. */
export interface Operation {
  readonly summary: string
  readonly parameters?: readonly object[]
  readonly requestBody?: object
  readonly responses: Readonly<Record<string, object>>
}

/** By method and path, `GET /api/v1/flows/{id}`. */
export type Operations = Readonly<Record<string, Operation>>

export const text = { type: 'string' }
export const whole = { type: 'integer', minimum: 0 }
export const flag = { type: 'boolean' }
export const time = { type: 'string', format: 'date-time' }
export const anyObject = { type: 'object', additionalProperties: true }

export function object(properties: Readonly<Record<string, object>>, required: readonly string[] = []): object {
  return { type: 'object', properties, ...(required.length > 0 && { required }) }
}

export function ref(name: string): object {
  return { $ref: `#/components/schemas/${name}` }
}

export function nullable(schema: object): object {
  return { anyOf: [schema, { type: 'null' }] }
}

export function body(schema: object, { required = true, types = ['application/json'] } = {}): object {
  return {
    required,
    content: Object.fromEntries(types.map((type) => [type, { schema: type.endsWith('json') ? schema : text }])),
  }
}

export function query(name: string, description: string, schema: object = text): object {
  return { name, in: 'query', description, schema }
}

/** Of every list. */
export const page = [
  query('limit', 'How many at most', { type: 'integer', minimum: 1, maximum: 1_000, default: 100 }),
  query('cursor', 'Where the page before ended: from its `Link` header'),
]

export function json(description: string, schema: object, headers?: object): object {
  return { description, content: { 'application/json': { schema } }, ...(headers !== undefined && { headers }) }
}

export function list(description: string, items: object): object {
  return json(
    description,
    { type: 'array', items },
    {
      'X-Total-Count': { description: 'How many there are on all pages', schema: whole },
      Link: { description: 'The next page, `rel="next"`', schema: text },
    },
  )
}

/** The failures a route can answer, besides those that any can. */
export function failures(told: Readonly<Record<string, string>>): Readonly<Record<string, object>> {
  return Object.fromEntries(
    Object.entries(told).map(([status, description]) => [status, json(description, ref('Error'))]),
  )
}
