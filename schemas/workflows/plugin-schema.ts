import { isMapping } from './flow-fields.ts'

type Schema = Readonly<Record<string, unknown>>

/**
 * A schema of a plugin as manifests show it: every property, nested ones too, has a default. `null` is the default of one that has
 * no other; given, it means the same as not given, so that what is required does not take it.
 */
export function toldSchema(schema: unknown): unknown {
  return mapSchema(schema, (property, isRequired) => {
    if (property.default !== undefined) return property
    if (isRequired || takesNull(property)) return { ...property, default: null }
    const { description, examples, ...rest } = property
    return { anyOf: [rest, { type: 'null' }], default: null, description, examples }
  })
}

/**
 * Of inputs: where names are free, as those of headers and variables are, texts may be written as the numbers and flags that YAML reads them
 * as: `PORT: 8080`.
 */
export function withScalars(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withScalars)
  if (!isMapping(schema)) return schema
  return Object.fromEntries(
    Object.entries(schema).map(([word, value]): [string, unknown] => {
      if (['default', 'examples', 'enum', 'const'].includes(word)) return [word, value]
      if (word === 'additionalProperties') return [word, orScalar(value)]
      if (word !== 'patternProperties' || !isMapping(value)) return [word, withScalars(value)]
      return [word, Object.fromEntries(Object.entries(value).map(([name, each]) => [name, orScalar(each)]))]
    }),
  )
}

/** Texts that must look like something are left alone. */
function orScalar(schema: unknown): unknown {
  const isAnyText = isMapping(schema) && schema.type === 'string' && schema.pattern === undefined
  return isAnyText ? { ...schema, type: ['string', 'number', 'boolean'] } : withScalars(schema)
}

/** The schema that was told: `null` is no value that a property has without saying so itself. */
export function strictSchema(told: unknown): unknown {
  return mapSchema(told, (property, isRequired) => {
    if (property.default !== null) return property
    const { default: _, ...rest } = property
    const [inner, nothing, ...more] = Array.isArray(rest.anyOf) ? (rest.anyOf as Schema[]) : []
    if (isRequired || inner === undefined || nothing?.type !== 'null' || more.length > 0) return rest
    const { anyOf: __, ...said } = rest
    return { ...inner, ...said }
  })
}

/** A value without the `null`s that mean "not given". @param schema as a plugin declares it, or as `strictSchema` gives it */
export function withoutNulls(schema: unknown, value: unknown): unknown {
  if (!isMapping(schema)) return value
  const either = Array.isArray(schema.anyOf) ? schema.anyOf : []
  const chosen = either.reduce<unknown>((given, each) => withoutNulls(each, given), value)
  if (Array.isArray(chosen)) return chosen.map((each) => withoutNulls(schema.items, each))
  if (!isMapping(chosen)) return chosen
  const properties = isMapping(schema.properties) ? schema.properties : {}
  const required = new Set(Array.isArray(schema.required) ? schema.required : [])
  const rest = restOf(schema)
  const kept = Object.entries(chosen).flatMap(([name, given]): [string, unknown][] => {
    const own = Object.hasOwn(properties, name)
    const property = own ? (properties[name] as Schema) : rest
    if (own && given === null && !required.has(name) && isNullable(property as Schema)) return []
    return [[name, withoutNulls(property, given)]]
  })
  return Object.fromEntries(kept)
}

/** Without a default of its own, and without a meaning for null. */
function isNullable(property: Schema): boolean {
  return property.default === undefined && !takesNull(property)
}

/** Of properties without a name of their own. */
function restOf({ additionalProperties, patternProperties }: Schema): unknown {
  return isMapping(patternProperties) ? Object.values(patternProperties)[0] : additionalProperties
}

/** One that says nothing of types takes everything. */
function takesNull({ type, anyOf, enum: values, const: fixed }: Schema): boolean {
  if (Array.isArray(anyOf)) return anyOf.some((each) => isMapping(each) && takesNull(each))
  if (Array.isArray(values)) return values.includes(null)
  if (type !== undefined) return [type].flat().includes('null')
  return fixed === undefined || fixed === null
}

function mapSchema(schema: unknown, change: (property: Schema, isRequired: boolean) => Schema): unknown {
  if (!isMapping(schema)) return schema
  const required = new Set(Array.isArray(schema.required) ? schema.required : [])
  const within = (each: unknown) => mapSchema(each, change)
  const all = (named: unknown, map: (each: unknown, name: string) => unknown) =>
    isMapping(named) ? Object.fromEntries(Object.entries(named).map(([name, each]) => [name, map(each, name)])) : named
  const property = (each: unknown, name: string) => {
    return isMapping(each) ? change(within(each) as Schema, required.has(name)) : each
  }
  return {
    ...schema,
    ...(schema.properties !== undefined && { properties: all(schema.properties, property) }),
    ...(schema.patternProperties !== undefined && { patternProperties: all(schema.patternProperties, within) }),
    ...(isMapping(schema.additionalProperties) && { additionalProperties: within(schema.additionalProperties) }),
    ...(isMapping(schema.items) && { items: within(schema.items) }),
    ...(Array.isArray(schema.anyOf) && { anyOf: schema.anyOf.map(within) }),
  }
}
