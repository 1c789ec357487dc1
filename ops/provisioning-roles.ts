import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { chmodSync, mkdirSync } from 'node:fs'
import { join } from 'node:path'
import type { Config } from '../schemas/config.ts'
import { openBus } from './bus.ts'
import { bringMariadb, lookForMariadb, type MariadbBinaries } from './local/mariadb-binaries.ts'
import { OperatorError } from './local/operator-error.ts'
import { sharedRoot } from './local/postgres-binaries.ts'
import { findAllPostgres } from './local/postgres-versions.ts'
import { canReach, unprivilegedAccount } from './local/unprivileged.ts'
import { observe } from './observe.ts'
import { jwtOptions, type RoleContext, type RunningRole } from './role-options.ts'
import { secretKeysOf } from './secret-keys.ts'
import { dataFolder, searchPath } from './settings.ts'

/** The door to database instances. */
export async function startProvisioning({ config, log }: RoleContext): Promise<RunningRole> {
  const { startProvisioningGateway } = await import('../gateways/provisioning/server.ts')
  requireGuard(config)
  const bus = await openBus(config, log, 'gateway:provisioning', 'all')
  const keys = secretKeysOf(config)
  const gateway = await startProvisioningGateway({
    bus,
    host: config['server.host'],
    port: config['server.port'] ?? config['gateway.provisioning.port'],
    maxBodyBytes: config['app.max-body-size'],
    corsOrigins: config['app.cors-origins'],
    jwt: jwtOptions(config),
    maxInstances: config['app.provisioning.max-instances'],
    ...(keys !== undefined && { secretKeys: keys }),
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

/** Whoever reaches it may read passwords and delete databases. @throws {OperatorError} for an address that others can reach */
function requireGuard(config: Config): void {
  const host = config['server.host']
  const guarded = config['app.jwt.secret'] !== undefined || config['app.jwt.jwks-url'] !== undefined
  const anyone = config['app.provisioning.allow-anonymous']
  if (guarded || anyone || ['127.0.0.1', '::1', 'localhost'].includes(host)) return
  throw new OperatorError(
    `The provisioning service asks nobody who they are, so it does not listen on ${host}: set app.jwt.secret or app.jwt.jwks-url, use server.host=127.0.0.1, or set app.provisioning.allow-anonymous=true.`,
  )
}

/** Makes and keeps database servers on this machine. */
export async function startProvisioningWorker({ config, log }: RoleContext): Promise<RunningRole> {
  const [worker, local] = await Promise.all([
    import('../workers/provisioning/worker.ts'),
    import('../workers/provisioning/local/open-local.ts'),
  ])
  const bus = await openBus(config, log, 'worker:provisioning', 'all')
  const home = provisioningHome(dataFolder(config))
  const account = unprivilegedAccount(join(home, 'instances'))
  const [from, to] = config['app.provisioning.ports'].split('-').map(Number) as [number, number]
  const mariadbPlace = { searchPath: searchPath(), folder: dataFolder(config) }
  const options = {
    home,
    account,
    secretKeys: secretKeysOf(config),
    ports: { from, to },
    postgres: async () => findAllPostgres(searchPath(), account),
    mysql: async () => mariadbOf(lookForMariadb(mariadbPlace)),
    installMysql: async () => {
      await bringMariadb(mariadbPlace, (line) => log.info({ line }, 'mariadb-fetched'))
    },
  }
  const running = await worker.startProvisioningWorker({
    bus,
    driver: async (view) => local.openLocalDriver(options, view),
    onObservation: observe(log),
  })
  return {
    async stop() {
      await running.stop()
      await bus.close()
    },
  }
}

function mariadbOf(binaries: MariadbBinaries | undefined) {
  if (binaries === undefined) return null
  const told = execFileSync(binaries.server, ['--version'], { encoding: 'utf8', env: { ...binaries.environment } })
  return { version: /\d+\.\d+\.\d+/.exec(told)?.[0] ?? '0', binaries }
}

/** Ends the servers of this machine's instances and what looks after them; the next start brings them back. */
export async function stopProvisionedServers(config: Config): Promise<void> {
  const { shutDownSupervisor } = await import('../workers/provisioning/supervisor/client.ts')
  await shutDownSupervisor(provisioningHome(dataFolder(config)))
}

/** Inside the data folder, or, for root whose servers may not enter it, in a folder of its own that they can reach. */
function provisioningHome(folder: string): string {
  const inside = join(folder, 'provisioning')
  if (canReach(folder, unprivilegedAccount(join(inside, 'instances')))) return inside
  mkdirSync(sharedRoot, { recursive: true })
  chmodSync(sharedRoot, 0o755)
  return join(sharedRoot, `provisioning-${createHash('sha256').update(folder).digest('hex').slice(0, 12)}`)
}
