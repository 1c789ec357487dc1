import { Compile, type Validator } from 'typebox/compile'
import { Value as Values } from 'typebox/value'
import { withoutNulls } from '../../schemas/workflows/plugin-schema.ts'
import { type Plugin, TaskFailure } from './plugin.ts'

const validators = new WeakMap<Plugin, Validator>()

/** What a plugin gets: defaults filled in, texts of numbers made numbers. @throws {TaskFailure} `refused` naming the property */
export function checkedInput(plugin: Plugin, rendered: unknown): unknown {
  const schema = plugin.input
  const validator = validators.get(plugin) ?? Compile(schema)
  validators.set(plugin, validator)
  const given = withoutNulls(schema, structuredClone(rendered))
  // Templates often make texts of numbers.
  const input = Values.Convert(schema, Values.Default(schema, given))
  if (validator.Check(input)) return input
  // That a property may not be there is told of what it is in as well, with its name.
  const [first] = validator.Errors(input).filter(({ keyword }) => keyword !== 'boolean')
  const place = `properties${(first?.instancePath ?? '').replaceAll('/', '.')}`
  if (first?.keyword === 'additionalProperties') {
    const [name = ''] =
      (first.params as { readonly additionalProperties?: readonly string[] }).additionalProperties ?? []
    throw new TaskFailure('refused', `${place}.${name.slice(0, 100)} is no property of the plugin`)
  }
  throw new TaskFailure('refused', `${place} ${first?.message ?? 'does not fit the plugin'}`)
}
