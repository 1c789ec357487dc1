import type { Config } from '../schemas/config.ts'
import { OperatorError } from './local/operator-error.ts'
import type { Log } from './log.ts'

export interface RoleContext {
  readonly config: Config
  readonly log: Log
  /** Aborted when the process is told to stop. */
  readonly signal: AbortSignal
}

export interface RunningRole {
  /** Where it can be reached, for a gateway. */
  readonly url?: string
  /** Stops taking work, finishes or hands back what is in flight, closes. */
  stop(): Promise<void>
}

export interface Role {
  readonly name: string
  /** What `busbar up` and `--help` call it. */
  readonly title: string
  /** Its port's key, for a gateway. */
  readonly portKey?: 'gateway.rest.port'
  /** Paths of the table of `busbar up`, after the URL. */
  readonly paths?: readonly { readonly title: string; readonly path: string }[]
  /** Whether it has nothing to do without the bus. */
  readonly needsBus: boolean
  start(context: RoleContext): Promise<RunningRole>
}

/** Every role there is, in the order of their start. The one place where roles are wired; a process loads only its own. */
export const roles: readonly Role[] = [
  {
    name: 'worker:capture',
    title: 'Change capture',
    needsBus: true,
    start: async (context) => (await load('../workers/capture/capture.ts', 'startCapture'))(context),
  },
  {
    name: 'gateway:rest',
    title: 'REST API',
    portKey: 'gateway.rest.port',
    paths: [
      { title: 'tables', path: '/api/v1/' },
      { title: 'try it', path: '/docs' },
    ],
    needsBus: false,
    start: async (context) => (await load('../gateways/rest/server.ts', 'startRestGateway'))(context),
  },
]

async function load(path: string, name: string): Promise<Role['start']> {
  const loaded = (await import(path)) as Readonly<Record<string, Role['start']>>
  const start = loaded[name]
  if (start === undefined) throw new Error(`${path} has no ${name}`)
  return start
}

/** @throws {OperatorError} when there is no such role. */
export function findRole(name: string): Role {
  const role = roles.find((each) => each.name === name)
  if (role !== undefined) return role
  throw new OperatorError(`There is no role ${name}; the roles are ${roles.map((each) => each.name).join(', ')}.`)
}

/** `server.port` is for the one gateway of a process, its own key for any number of them. */
export function gatewayPort(config: Config, key: NonNullable<Role['portKey']>): number {
  return config['server.port'] ?? config[key]
}

/** @throws {OperatorError} when several gateways would listen on `server.port`. */
export function requireOwnPorts(config: Config, chosen: readonly Role[]): void {
  const gateways = chosen.filter((role) => role.portKey !== undefined)
  if (config['server.port'] === undefined || gateways.length < 2) return
  const keys = gateways.map((role) => role.portKey).join(', ')
  throw new OperatorError(`server.port is for one gateway, and ${gateways.length} are to run: use ${keys} instead.`)
}
