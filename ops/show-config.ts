import type { ConfigKey } from '../schemas/config/key.ts'
import type { LoadedConfig } from '../schemas/config/load.ts'
import { maskSecret, maskUrl } from '../schemas/config/mask.ts'
import { writeValue } from '../schemas/config/value.ts'
import { type ConfigName, configKeys } from '../schemas/config.ts'

/** The effective values with their sources, secrets masked: a table, or JSON `{key: {value, source}}`. */
export function shownConfig({ values, sources }: LoadedConfig, { json }: { readonly json: boolean }): string {
  const names = Object.keys(configKeys) as ConfigName[]
  const rows = names.map((name) => ({ name, value: shownValue(name, values[name]), source: sources[name] }))
  if (json) {
    return `${JSON.stringify(Object.fromEntries(rows.map(({ name, value, source }) => [name, { value, source }])), null, 2)}\n`
  }
  const [nameWidth, valueWidth] = (['name', 'value'] as const).map((column) => {
    return Math.max(...rows.map((row) => String(row[column] ?? '-').length))
  })
  const lines = rows.map(({ name, value, source }) => {
    return `${name.padEnd(nameWidth ?? 0)}  ${String(value ?? '-').padEnd(valueWidth ?? 0)}  ${source}`
  })
  return `${lines.join('\n')}\n`
}

function shownValue(name: ConfigName, value: unknown): string | number | boolean | null {
  const key: ConfigKey = configKeys[name]
  if (value === undefined) return null
  if (key.secret) return maskSecret()
  return typeof value === 'number' || typeof value === 'boolean' ? value : maskUrl(writeValue(value))
}
