import type { LoadedConfig } from '../schemas/config/load.ts'
import type { Config } from '../schemas/config.ts'

/**
 * What pages in a browser may expect of a platform on one machine, where the operator has not said otherwise: the playground finds the
 * GraphQL API beside itself, functions reach this machine, flows run scripts on it, and an API that only this machine reaches answers only this machine's pages.
 */
export function pageDefaults({ values, sources }: LoadedConfig): Partial<Config> {
  const local = ['127.0.0.1', '::1', 'localhost'].includes(values['server.host'])
  const ownPort = sources['gateway.functions.port'] === 'default' && sources['server.port'] === 'default'
  return {
    // The port under which the function runtime is forwarded out of a cluster.
    ...(ownPort && sources['gateway.functions.alias-port'] === 'default'
      ? { 'gateway.functions.alias-port': 24_006 }
      : {}),
    // Work on one machine: functions reach the other APIs of it.
    ...(local && sources['app.functions.fetch-allow'] === 'default'
      ? { 'app.functions.fetch-allow': ['loopback'] }
      : {}),
    ...(local && sources['app.workflows.scripts'] === 'default' ? { 'app.workflows.scripts': true } : {}),
    ...(sources['gateway.graphql.url'] === 'default' ? { 'gateway.graphql.url': 'auto' } : {}),
    ...(local && sources['app.cors-origins'] === 'default' ? { 'app.cors-origins': ['loopback'] } : {}),
  }
}
