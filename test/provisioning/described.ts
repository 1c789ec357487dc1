import { operations } from '../../gateways/provisioning/openapi.ts'
import { schemas } from '../../gateways/provisioning/openapi-schemas.ts'
import type { Call } from './platform.ts'

interface Schema {
  readonly $ref?: string
  readonly anyOf?: readonly Schema[]
  readonly type?: string
  readonly enum?: readonly unknown[]
  readonly items?: Schema
  readonly properties?: Readonly<Record<string, Schema>>
}

interface Described {
  readonly responses: Readonly<
    Record<string, { readonly content?: Readonly<Record<string, { readonly schema?: Schema }>> }>
  >
}

/** Answered by any route: they are described once, where the services are. */
const ofAnyRoute = [400, 404, 405, 413, 503]

/** A client that remembers what its answers have and the API's description does not. */
export function watchedCall(call: Call): { readonly call: Call; readonly problems: ReadonlySet<string> } {
  const problems = new Set<string>()
  return {
    problems,
    async call(method, path, ...more) {
      const answer = await call(method, path, ...more)
      const route = routeOf(method, path.split('?')[0]!)
      const responses = (operations[route] as Described | undefined)?.responses
      const response = responses?.[answer.status]
      if (response === undefined) {
        if (!ofAnyRoute.includes(answer.status)) problems.add(`${route}: ${answer.status} is not described`)
        return answer
      }
      const schema = response.content?.['application/json']?.schema
      if (schema !== undefined)
        for (const problem of mistakes(schema, answer.body, '')) problems.add(`${route}${problem}`)
      return answer
    },
  }
}

function routeOf(method: string, path: string): string {
  const fits = (template: string) => {
    const parts = template.split('/')
    const given = path.split('/')
    return parts.length === given.length && parts.every((part, index) => part === given[index] || /^\{/.test(part))
  }
  const templates = Object.keys(operations).filter((route) => route.startsWith(`${method} `))
  const found = templates.filter((route) => fits(route.slice(method.length + 1)))
  // A word goes before a parameter.
  return found.sort((left, right) => left.split('{').length - right.split('{').length)[0] ?? `${method} ${path}`
}

function mistakes(given: Schema, value: unknown, at: string): readonly string[] {
  const named = given.$ref?.split('/').at(-1) as keyof typeof schemas | undefined
  const schema: Schema = named === undefined ? given : schemas[named]
  if (schema.anyOf !== undefined) {
    return value === null ? [] : mistakes(schema.anyOf.find(({ type }) => type !== 'null')!, value, at)
  }
  if (schema.enum !== undefined && !schema.enum.includes(value)) return [`${at}: ${JSON.stringify(value)}`]
  if (schema.items !== undefined) {
    if (!Array.isArray(value)) return [`${at} is no list`]
    return value.flatMap((each) => mistakes(schema.items!, each, `${at}[]`))
  }
  if (schema.properties !== undefined) return membersMistakes(schema.properties, value, at)
  const kind = Number.isInteger(value) ? ['integer', 'number'] : [value === null ? 'null' : typeof value]
  return schema.type === undefined || kind.includes(schema.type) ? [] : [`${at} is ${kind[0]}, not ${schema.type}`]
}

function membersMistakes(properties: Readonly<Record<string, Schema>>, value: unknown, at: string): readonly string[] {
  if (typeof value !== 'object' || value === null) return [`${at} is no object`]
  return Object.entries(value).flatMap(([name, each]) => {
    const schema = properties[name]
    return schema === undefined ? [`${at}.${name} is not described`] : mistakes(schema, each, `${at}.${name}`)
  })
}
