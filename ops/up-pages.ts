import type { LoadedConfig } from '../schemas/config/load.ts'
import type { Config } from '../schemas/config.ts'

/**
 * What pages in a browser may expect of a platform on one machine, where the operator has not said otherwise: the playground finds the
 * GraphQL API beside itself, and an API that only this machine reaches answers only this machine's pages.
 */
export function pageDefaults({ values, sources }: LoadedConfig): Partial<Config> {
  const local = ['127.0.0.1', '::1', 'localhost'].includes(values['server.host'])
  return {
    ...(sources['gateway.graphql.url'] === 'default' ? { 'gateway.graphql.url': 'auto' } : {}),
    ...(local && sources['app.cors-origins'] === 'default' ? { 'app.cors-origins': ['loopback'] } : {}),
  }
}
