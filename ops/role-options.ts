import type { AuthenticatorOptions } from '../gateways/http/auth.ts'
import type { Config } from '../schemas/config.ts'
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

/** What gateways are told about tokens. */
export function jwtOptions(config: Config): AuthenticatorOptions {
  const given = {
    secret: config['app.jwt.secret'],
    jwksUrl: config['app.jwt.jwks-url'],
    issuer: config['app.jwt.issuer'],
    audience: config['app.jwt.audience'],
    anonymousRole: config['app.jwt.anonymous-role'],
  }
  const set = Object.fromEntries(Object.entries(given).filter(([, value]) => value !== undefined))
  return { ...set, roleClaim: config['app.jwt.role-claim'], required: config['app.jwt.required'] }
}

/** Keys of the gateways' ports. */
export type GatewayPortKey =
  | 'gateway.rest.port'
  | 'gateway.graphql.port'
  | 'gateway.graphql-mysql.port'
  | 'gateway.functions.port'
  | 'gateway.provisioning.port'
  | 'gateway.workflows.port'

/** `server.port` is for the one gateway of a process, its own key for any number of them. */
export function gatewayPort(config: Config, key: GatewayPortKey): number {
  return config['server.port'] ?? config[key]
}
