import { Compile, type Validator } from 'typebox/compile'
import { durationMistake } from './duration.ts'
import { isMapping, kindOf, suggestion } from './flow-fields.ts'
import { strictSchema, withoutNulls } from './plugin-schema.ts'
import type { Path } from './yaml-source.ts'

type Schema = Readonly<Record<string, unknown>>

export interface PropertyProblem {
  /** From the properties on. */
  readonly path: Path
  readonly message: string
  readonly of: 'key' | 'value'
}

/** A text that is rendered before it is looked at: it may stand for a value of any type. */
export function isTemplate(value: unknown): boolean {
  return typeof value === 'string' && (value.includes('{{') || value.includes('{%') || value.includes('${'))
}

/** As it is written for people: what has a default need not be given. */
export function writtenSchema(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(writtenSchema)
  if (!isMapping(schema)) return schema
  const written = Object.fromEntries(Object.entries(schema).map(([word, value]) => [word, writtenPart(word, value)]))
  if (!Array.isArray(schema.required)) return written
  const properties = isMapping(schema.properties) ? schema.properties : {}
  const required = schema.required.filter((name) => (properties[String(name)] as Schema)?.default === undefined)
  const { required: _, ...rest } = written
  return required.length === 0 ? rest : { ...rest, required }
}

function writtenPart(word: string, value: unknown): unknown {
  return isValueWord(word) ? value : writtenSchema(value)
}

/** Values are not schemas. */
function isValueWord(word: string): boolean {
  return ['default', 'examples', 'enum', 'const'].includes(word)
}

/**
 * What is wrong with the properties of a task before anything is rendered. Each property is checked by itself, so that none hides the
 * mistakes of another.
 */
export function propertyProblems(inputSchema: unknown, given: Schema): readonly PropertyProblem[] {
  if (!isMapping(inputSchema) || !isMapping(inputSchema.properties)) return []
  const { schema, properties, required, additionalProperties } = writtenOf(inputSchema)
  const problems: PropertyProblem[] = []
  for (const name of required) {
    if (given[name] === undefined) problems.push({ path: [], message: `needs ${name}`, of: 'value' })
  }
  for (const [name, value] of Object.entries(withoutNulls(schema, given) as Schema)) {
    const schema = Object.hasOwn(properties, name) ? properties[name] : undefined
    if (schema !== undefined) problems.push(...valueProblems(schema as Schema, value, [name]))
    else if (additionalProperties === false) {
      const message = `is no property of the plugin${suggestion(name, Object.keys(properties))}`
      problems.push({ path: [name], message, of: 'key' })
    }
  }
  return problems
}

interface Written {
  readonly schema: Schema
  readonly properties: Schema
  readonly required: readonly string[]
  readonly additionalProperties: unknown
}

const writtenSchemas = new WeakMap<object, Written>()

/** Kept, so that what is compiled for its parts is kept as well. */
function writtenOf(inputSchema: Schema): Written {
  const known = writtenSchemas.get(inputSchema)
  if (known !== undefined) return known
  const schema = withEnums(writtenSchema(strictSchema(inputSchema))) as Schema
  const { properties, required, additionalProperties } = schema
  const written: Written = {
    schema,
    properties: (properties ?? {}) as Schema,
    required: (required ?? []) as string[],
    additionalProperties,
  }
  writtenSchemas.set(inputSchema, written)
  return written
}

/** A choice between fixed values says one thing when none fits, and not one of each, of which only the first few would be told. */
function withEnums(schema: unknown): unknown {
  if (Array.isArray(schema)) return schema.map(withEnums)
  if (!isMapping(schema)) return schema
  const { anyOf, ...rest } = schema
  const choices = Array.isArray(anyOf) && anyOf.every((each) => isMapping(each) && each.const !== undefined)
  if (choices) return { ...rest, enum: (anyOf as Schema[]).map((each) => each.const) }
  return Object.fromEntries(
    Object.entries(schema).map(([word, value]) => [word, isValueWord(word) ? value : withEnums(value)]),
  )
}

type Fault = ReturnType<Validator['Errors']>[number]

const validators = new WeakMap<object, Validator>()

function valueProblems(schema: Schema, value: unknown, path: Path): readonly PropertyProblem[] {
  if (isTemplate(value)) return []
  const validator = validators.get(schema) ?? Compile(schema as Parameters<typeof Compile>[0])
  validators.set(schema, validator)
  if (validator.Check(value)) return formatProblems(schema, value, path)
  const faults = validator.Errors(value)
  // Where one of several is enough, what each of them says is less than that none fits.
  const unions = faults.filter(({ keyword }) => keyword === 'anyOf' || keyword === 'oneOf')
  const within = ({ instancePath, schemaPath }: Fault) => {
    return unions.some(
      (union) => schemaPath.startsWith(`${union.schemaPath}/`) && instancePath.startsWith(union.instancePath),
    )
  }
  return faults
    .filter((fault) => fault.keyword !== 'boolean' && !within(fault) && !isRenderedLater(fault, value))
    .map((fault) => problemOf(fault, schema, { path, value }))
}

/** What JSON Schema has no word for. */
function formatProblems(schema: Schema, value: unknown, path: Path): readonly PropertyProblem[] {
  const message = schema['x-format'] === 'duration' ? durationMistake(value) : null
  return message === null ? [] : [{ path, message, of: 'value' }]
}

/** Templates stand for any type. */
function isRenderedLater({ keyword, instancePath }: Fault, root: unknown): boolean {
  if (['required', 'additionalProperties', 'unevaluatedProperties'].includes(keyword)) return false
  return holdsTemplate(at(root, instancePath))
}

function holdsTemplate(value: unknown): boolean {
  if (typeof value === 'object' && value !== null) return Object.values(value).some(holdsTemplate)
  return isTemplate(value)
}

function problemOf(
  { keyword, instancePath, schemaPath, params, message }: Fault,
  schema: Schema,
  { path, value }: { readonly path: Path; readonly value: unknown },
): PropertyProblem {
  const place = [...path, ...steps(value, instancePath)]
  const found = at(value, instancePath)
  const detail = params as { readonly requiredProperties?: string[]; readonly additionalProperties?: string[] }
  if (keyword === 'required')
    return { path: place, message: `needs ${detail.requiredProperties?.join(', ')}`, of: 'value' }
  if (keyword === 'additionalProperties') {
    const [first = ''] = detail.additionalProperties ?? []
    return { path: [...place, first], message: 'is no property here', of: 'key' }
  }
  if (keyword === 'type') return { path: place, message: `${message}, not ${kindOf(found)}`, of: 'value' }
  const choices = keyword === 'enum' ? literalsOf(schemaAt(schema, schemaPath)) : []
  if (choices.length === 0) {
    return {
      path: place,
      message: keyword === 'anyOf' ? `must not be ${kindOf(found)} like this` : message,
      of: 'value',
    }
  }
  const near = typeof found === 'string' ? suggestion(found, choices) : ''
  return { path: place, message: `must be one of ${choices.join(', ')}${near}`, of: 'value' }
}

/** Of a choice between fixed values. */
function literalsOf(schema: unknown): readonly string[] {
  return isMapping(schema) && Array.isArray(schema.enum) ? schema.enum.map(String) : []
}

function schemaAt(schema: unknown, pointer: string): unknown {
  return at(schema, pointer.replace(/^#/, ''))
}

function at(root: unknown, pointer: string): unknown {
  return pointerSteps(pointer).reduce<unknown>((value, step) => (value as Schema | undefined)?.[step], root)
}

/** With numbers where a list is gone into. */
function steps(root: unknown, pointer: string): Path {
  let value = root
  return pointerSteps(pointer).map((step) => {
    const place = Array.isArray(value) ? Number(step) : step
    value = (value as Schema | undefined)?.[step]
    return place
  })
}

function pointerSteps(pointer: string): readonly string[] {
  return pointer === ''
    ? []
    : pointer
        .slice(1)
        .split('/')
        .map((step) => step.replaceAll('~1', '/').replaceAll('~0', '~'))
}
