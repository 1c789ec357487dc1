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
  const [first] = validator.Errors(input)
  const place = `properties${(first?.instancePath ?? '').replaceAll('/', '.')}`
  throw new TaskFailure('refused', `${place} ${first?.message ?? 'does not fit the plugin'}`)
}
