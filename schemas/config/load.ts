import { closest, distance } from 'fastest-levenshtein'
import { type Document, LineCounter, parseDocument } from 'yaml'
import { type Config, type ConfigName, configKeys, environmentName } from '../config.ts'
import { ConfigError } from './config-error.ts'
import type { ConfigKey } from './key.ts'
import { maskUrl } from './mask.ts'
import { readValue } from './value.ts'

/** Where a value came from, as it is shown: `default`, `application.yml:3`, `environment APP_NATS_URL`, `command line`. */
type Source = string

export interface LoadedConfig {
  readonly values: Config
  readonly sources: Readonly<Record<ConfigName, Source>>
}

export interface ConfigInput {
  /** Only the options with a dot in their name: `--app.nats.url=nats://…`; a flag may stand alone. */
  readonly argv?: readonly string[]
  readonly env?: Readonly<Record<string, string | undefined>>
  /** Files in YAML, later ones go before earlier ones. */
  readonly files?: readonly { readonly name: string; readonly text: string }[]
}

interface Entry {
  readonly source: Source
  readonly written: string | readonly string[]
}

const names = Object.keys(configKeys) as ConfigName[]
/** Keys are found whatever their hyphens and capitals (`app.maxPageSize`), as Spring does it. */
const byLooseName = new Map(names.map((name) => [loose(name), name]))

/**
 * The effective configuration: a default is overridden by a file, a file by the environment, the environment by the command
 * line. Pure: the caller reads files and environment.
 *
 * @throws {ConfigError} for the first wrong value or unknown key.
 */
export function loadConfig({ argv = [], env = {}, files = [] }: ConfigInput): LoadedConfig {
  const entries = new Map<ConfigName, Entry>()
  for (const file of files) readFile(file, env, entries)
  readEnvironment(env, entries)
  for (const option of argv) readOption(option, entries)
  const values: Record<string, unknown> = {}
  const sources: Record<string, Source> = {}
  for (const name of names) {
    const entry = entries.get(name)
    values[name] = entry === undefined ? configKeys[name].default : checked(name, entry)
    sources[name] = entry?.source ?? 'default'
  }
  return Object.freeze({
    values: Object.freeze(values) as Config,
    sources: Object.freeze(sources) as LoadedConfig['sources'],
  })
}

function checked(name: ConfigName, { source, written }: Entry): unknown {
  const key: ConfigKey = configKeys[name]
  const reading = readValue(key, written)
  if ('value' in reading) return reading.value
  const shown = key.secret ? '' : `, not ${JSON.stringify(maskUrl(String(written)).slice(0, 80))}`
  throw new ConfigError(`${name} (${source}) ${reading.reason}${shown}`)
}

function readEnvironment(env: NonNullable<ConfigInput['env']>, entries: Map<ConfigName, Entry>): void {
  for (const name of names) {
    const exact = environmentName(name)
    // Spring drops hyphens instead: APP_NATS_STREAMNAME.
    const dropped = name.replace(/-/g, '').replace(/\./g, '_').toUpperCase()
    const found = [exact, dropped].find((variable) => (env[variable] ?? '') !== '')
    if (found !== undefined) entries.set(name, { source: `environment ${found}`, written: env[found] ?? '' })
  }
}

function readOption(option: string, entries: Map<ConfigName, Entry>): void {
  const [, written = '', value] = /^--([^=]*)(?:=(.*))?$/s.exec(option) ?? []
  const name = known(written, 'command line')
  if (value === undefined && typeof configKeys[name].default !== 'boolean') {
    throw new ConfigError(`${name} (command line) needs a value: --${name}=<value>`)
  }
  entries.set(name, { source: 'command line', written: value ?? 'true' })
}

function known(written: string, source: Source): ConfigName {
  const name = byLooseName.get(loose(written))
  if (name !== undefined) return name
  const near = closest(written, names)
  const hint = distance(written, near) <= Math.max(3, written.length / 3) ? `; perhaps you meant ${near}` : ''
  const shown = written.replace(/\s+/g, ' ').trim().slice(0, 80) || 'an empty key'
  throw new ConfigError(`${shown} (${source}) is not a configuration key${hint}`)
}

function loose(name: string): string {
  return name.toLowerCase().replace(/[-_]/g, '')
}

function readFile(
  file: { readonly name: string; readonly text: string },
  env: NonNullable<ConfigInput['env']>,
  entries: Map<ConfigName, Entry>,
): void {
  const lines = new LineCounter()
  // All scalars stay text, so that a password of digits keeps its zeros and one way of reading serves all sources.
  const document = parseDocument(file.text, { schema: 'failsafe', lineCounter: lines, logLevel: 'error' })
  const [error] = document.errors
  if (error !== undefined) {
    const line = error.linePos?.[0].line ?? 1
    throw new ConfigError(
      `${file.name}:${line} is not YAML: ${error.message.split('\n')[0]?.replace(/ at line.*$/, '')}`,
    )
  }
  const lineOf = (path: readonly string[]) => {
    const node = document.getIn(path, true) as { readonly range?: readonly number[] } | undefined
    return node?.range?.[0] === undefined ? '' : `:${lines.linePos(node.range[0]).line}`
  }
  const root: unknown = resolved(document, file.name) ?? {}
  if (typeof root !== 'object' || root === null || Array.isArray(root)) {
    throw new ConfigError(`${file.name} must hold keys and values, like \`app.max-page-size: 500\``)
  }
  for (const [path, value] of leaves(root as Record<string, unknown>)) {
    const source = `${file.name}${lineOf(path)}`
    const name = known(path.join('.'), source)
    const written = Array.isArray(value) ? value.map(String) : String(value)
    if (written === '' || written === '~' || written === 'null') continue
    entries.set(name, {
      source,
      written: typeof written === 'string' ? fill(written, env) : written.map((part) => fill(part, env)),
    })
  }
}

/** Aliases are followed here: one without its anchor is found only now. */
function resolved(document: Document, name: string): unknown {
  try {
    return document.toJS()
  } catch (error) {
    throw new ConfigError(`${name} is not YAML: ${(error as Error).message.split('\n')[0]}`, { cause: error })
  }
}

function* leaves(
  node: Readonly<Record<string, unknown>>,
  above: readonly string[] = [],
): Generator<[string[], unknown]> {
  for (const [name, value] of Object.entries(node)) {
    const path = [...above, name]
    if (typeof value === 'object' && value !== null && !Array.isArray(value)) {
      yield* leaves(value as Record<string, unknown>, path)
    } else yield [path, value]
  }
}

/** `${NAME}` and `${NAME:default}`, as in files written for Spring. */
function fill(text: string, env: NonNullable<ConfigInput['env']>): string {
  return text.replace(/\$\{([A-Za-z_][A-Za-z0-9_]*)(?::([^}]*))?\}/g, (all, name: string, otherwise?: string) => {
    return env[name] || (otherwise ?? all)
  })
}
