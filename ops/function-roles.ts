import { setFlagsFromString } from 'node:v8'
import type { SecretKeys } from '../bus/sealed.ts'
import type { Config } from '../schemas/config.ts'
import { openBus } from './bus.ts'
import { becomeBatch } from './local/batch-policy.ts'
import { observe } from './observe.ts'
import { jwtOptions, type RoleContext, type RunningRole } from './role-options.ts'
import { secretKeysOf } from './secret-keys.ts'

/**
 * What calls carry lies outside the collector's heap, but is counted against a limit that follows that heap's size: with the few megabytes of
 * a gateway or a worker, a full collection came every 200 calls of 10 KB and took two thirds of the processor. With this one the limit is
 * seven times what is in use. The nursery stays as large as the start has made it (16 MB): its collections free what lies outside too, and
 * come too late in a larger one.
 */
function relaxCollector(): void {
  setFlagsFromString('--heap-growing-percent=600')
  setFlagsFromString('--semi-space-growth-factor=1')
}

/** The door to functions. */
export async function startFunctions({ config, log }: RoleContext): Promise<RunningRole> {
  relaxCollector()
  await becomeBatch()
  const { startFunctionGateway } = await import('../gateways/functions/server.ts')
  const bus = await openBus(config, log, 'gateway:functions', 'all')
  const aliasPort = config['gateway.functions.alias-port']
  const managementRoles = config['app.functions.management-roles']
  const gateway = await startFunctionGateway({
    bus,
    host: config['server.host'],
    port: config['server.port'] ?? config['gateway.functions.port'],
    ...(aliasPort === undefined ? {} : { aliasPort }),
    corsOrigins: config['app.cors-origins'],
    jwt: jwtOptions(config),
    ...(managementRoles !== undefined && { managementRoles }),
    ...secretKeys(config),
    timeoutMs: config['app.functions.timeout'],
    maxFunctions: config['app.functions.max-scripts'],
    onObservation: observe(log),
  })
  return {
    url: gateway.url,
    async stop() {
      await gateway.stop()
      await bus.close()
    },
  }
}

/** Runs functions; any number of them share the calls. */
export async function startFunctionsWorker({ config, log }: RoleContext): Promise<RunningRole> {
  relaxCollector()
  await becomeBatch()
  const { startFunctionWorker } = await import('../workers/functions/worker.ts')
  const bus = await openBus(config, log, 'worker:functions', 'all')
  const worker = await startFunctionWorker({
    bus,
    ...secretKeys(config),
    timeoutMs: config['app.functions.timeout'],
    hosts: isolateLimits(config),
    kv: { maxBytes: config['app.functions.kv-size'] },
    egress: { allow: config['app.functions.fetch-allow'] ?? [], deny: config['app.functions.fetch-deny'] ?? [] },
    changeStream: config['app.nats.stream-name'],
    source: config['app.changes.source'],
    onObservation: observe(log),
  })
  return {
    async stop() {
      await worker.stop()
      await bus.close()
    },
  }
}

function isolateLimits(config: Config) {
  const megabytes = (bytes: number) => Math.floor(bytes / 1024 ** 2)
  const cpuLimitMs = config['app.functions.cpu-limit']
  return {
    hosts: config['app.functions.hosts'],
    heapMb: megabytes(config['app.functions.memory']),
    maxIsolates: config['app.functions.max-isolates'],
    idleMs: config['app.functions.isolate-idle'],
    hostMemoryMb: megabytes(config['app.functions.host-memory']),
    ...(cpuLimitMs === undefined ? {} : { cpuLimitMs }),
  }
}

function secretKeys(config: Config): { readonly secretKeys?: SecretKeys } {
  const keys = secretKeysOf(config)
  return keys === undefined ? {} : { secretKeys: keys }
}
