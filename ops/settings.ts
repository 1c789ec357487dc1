import { existsSync, readFileSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { environment } from '../schemas/config/environment.ts'
import { type LoadedConfig, loadConfig } from '../schemas/config/load.ts'
import type { Config } from '../schemas/config.ts'
import { lastNatsUrl } from './local/nats-server.ts'
import { OperatorError } from './local/operator-error.ts'

/** The folder that holds package.json. */
export const checkout = resolve(import.meta.dirname, '..')

export interface SplitArguments {
  /** `--some.key=value`: configuration. */
  readonly keys: string[]
  /** The file of `--config=<file>`. */
  readonly file: string | undefined
  /** Commands and options of the program. */
  readonly rest: string[]
}

/** Configuration keys have a dot in their name, options of the program have none; both may stand anywhere. */
export function splitArguments(args: readonly string[]): SplitArguments {
  const isKey = (arg: string) => /^--[^=\s]*\./.test(arg.split('=')[0] ?? '')
  const isFile = (arg: string) => arg.startsWith('--config=')
  return {
    keys: args.filter(isKey),
    file: args.findLast(isFile)?.slice('--config='.length),
    rest: args.filter((arg) => !isKey(arg) && !isFile(arg)),
  }
}

/**
 * Reads the configuration of this process: `application.yml` in the current folder (or the file named), the environment, and
 * the command line.
 *
 * @throws {OperatorError} when the named file cannot be read.
 * @throws {ConfigError} for a wrong value or an unknown key.
 */
export function readSettings(argv: readonly string[], file: string | undefined): LoadedConfig {
  return atOwnBus(loadSettings(argv, file))
}

/** Where nothing else is said, the bus is the one that `busbar up` runs here, as the user it made for the platform. */
function atOwnBus({ values, sources }: LoadedConfig): LoadedConfig {
  const url = sources['app.nats.url'] === 'default' ? lastNatsUrl(natsHome(dataFolder(values))) : undefined
  return url === undefined
    ? { values, sources }
    : { values: Object.freeze({ ...values, 'app.nats.url': url }), sources }
}

function loadSettings(argv: readonly string[], file: string | undefined): LoadedConfig {
  const path = resolve(file ?? 'application.yml')
  if (file === undefined && !existsSync(path)) return loadConfig({ argv, env: environment() })
  let text: string
  try {
    text = readFileSync(path, 'utf8')
  } catch (error) {
    throw new OperatorError(`The configuration file ${path} cannot be read: ${(error as Error).message}`, {
      cause: error,
    })
  }
  return loadConfig({ argv, env: environment(), files: [{ name: basename(path), text }] })
}

/** Where data, logs and fetched programs are kept. */
export function dataFolder(config: Config): string {
  return resolve(checkout, config['busbar.data'])
}

/** Where `busbar up` keeps its nats-server, in the data folder. */
export function natsHome(folder: string): string {
  return join(folder, 'nats')
}

/** Where to look for programs. */
export function searchPath(): string {
  return environment().PATH ?? '/usr/local/bin:/usr/bin:/bin'
}
