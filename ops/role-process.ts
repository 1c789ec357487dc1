import { type ChildProcess, fork } from 'node:child_process'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { environment } from '../schemas/config/environment.ts'
import { writeValue } from '../schemas/config/value.ts'
import { type Config, type ConfigName, configKeys, environmentName } from '../schemas/config.ts'
import { endProcess, exited } from './local/child.ts'
import { OperatorError } from './local/operator-error.ts'
import type { LogFile } from './log-file.ts'
import type { RoleMessage } from './run.ts'
import type { Running, Service } from './supervise.ts'

export interface RoleProcessOptions {
  readonly name: string
  readonly config: Config
  readonly logFile: LogFile
  /** Told about warnings and errors of the role, one line each. */
  readonly tell: (line: string) => void
}

/** A role in a process of its own: a fault of one role ends no other. */
export function roleProcess(options: RoleProcessOptions): Service {
  return { name: options.name, start: () => startRole(options) }
}

async function startRole({ name, config, logFile, tell }: RoleProcessOptions): Promise<Running> {
  const child = fork(join(import.meta.dirname, 'cli.ts'), ['run', name], {
    // A session of its own: Ctrl-C reaches us alone, and we stop the roles in order.
    detached: true,
    stdio: ['ignore', 'pipe', 'pipe', 'ipc'],
    env: asEnvironment(config),
    execArgv: [],
  })
  const errors: string[] = []
  forward(child, name, { logFile, tell, errors })
  const ended = exited(child).then(() => (child.signalCode === null ? `exit code ${child.exitCode}` : child.signalCode))
  const message = await firstMessage(child, ended)
  if (message === undefined) throw new Error(`${name} ended at once: ${errors.join('\n') || (await ended)}`)
  if (message.kind === 'failed') {
    await exited(child)
    throw new OperatorError(message.message)
  }
  return {
    ...(message.url === undefined ? {} : { url: message.url }),
    ended,
    stop: () => endProcess(child, [['SIGTERM', 20_000], ['SIGKILL', 5000]]), // biome-ignore format: one step a pair
    kill: () => endProcess(child, [['SIGKILL', 5000]]),
  }
}

/** All effective values, so that the role sees exactly what `up` decided; also what it decided to leave out. */
function asEnvironment(config: Config): Record<string, string | undefined> {
  const names = Object.keys(configKeys) as ConfigName[]
  const values = names.map((name) => {
    return [environmentName(name), config[name] === undefined ? undefined : writeValue(config[name])] as const
  })
  return { ...environment(), ...Object.fromEntries(values) }
}

function firstMessage(child: ChildProcess, ended: Promise<unknown>): Promise<RoleMessage | undefined> {
  return new Promise((resolve, reject) => {
    child.once('message', (message) => resolve(message as RoleMessage))
    child.once('error', reject)
    void ended.then(() => resolve(undefined))
  })
}

interface Outlets {
  readonly logFile: LogFile
  readonly tell: (line: string) => void
  readonly errors: string[]
}

function forward(child: ChildProcess, name: string, { logFile, tell, errors }: Outlets): void {
  if (child.stdout !== null) {
    createInterface({ input: child.stdout }).on('line', (line) => {
      logFile.write(line)
      const note = worthTelling(line)
      if (note !== undefined) tell(`${name}: ${note}`)
    })
  }
  if (child.stderr !== null) {
    createInterface({ input: child.stderr }).on('line', (line) => {
      logFile.write(line)
      if (errors.length < 20) errors.push(line)
    })
  }
}

/** Warnings and errors, in the words of the log line. */
function worthTelling(line: string): string | undefined {
  if (!/"level":"(warn|error|fatal)"/.test(line)) return undefined
  try {
    const { level, msg, err, error, reason } = JSON.parse(line) as Record<string, unknown>
    const detail = reason ?? ((err ?? error) as { message?: unknown } | undefined)?.message
    return `${level}: ${msg}${detail === undefined ? '' : ` (${String(detail).split('\n')[0]})`}`
  } catch {
    return undefined
  }
}
