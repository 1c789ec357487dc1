import type { ClientConfig } from 'pg'
import type { AuthOptions } from '../gateways/workflows/auth-accounts.ts'
import { addressReader } from '../gateways/workflows/auth-address.ts'
import type { Config } from '../schemas/config.ts'
import { openBus } from './bus.ts'
import { datasource } from './datasource.ts'
import { OperatorError } from './local/operator-error.ts'
import { observe } from './observe.ts'
import type { RoleContext, RunningRole } from './role-options.ts'
import { secretKeysOf } from './secret-keys.ts'

/** How long the start waits for the tables: another process may be the one that keeps them. */
const projectionStartMs = 10_000

/** The door to flows and executions. */
export async function startWorkflows({ config, log }: RoleContext): Promise<RunningRole> {
  const { startWorkflowGateway } = await import('../gateways/workflows/server.ts')
  requireAuth(config)
  const connection = platformDatabase(config, 'The workflow engine')
  const bus = await openBus(config, log, 'gateway:workflows', 'all')
  const keys = secretKeysOf(config)
  const gateway = await startWorkflowGateway({
    bus,
    host: config['server.host'],
    port: config['server.port'] ?? config['gateway.workflows.port'],
    connection,
    poolSize: config['app.pool-size'],
    statementTimeoutMs: config['app.statement-timeout'],
    maxBodyBytes: config['app.max-body-size'],
    corsOrigins: config['app.cors-origins'],
    ...(keys !== undefined && { secretKeys: keys }),
    auth: authOptions(config),
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

/** Whoever reaches the engine may run what they like. @throws {OperatorError} when others can reach it, and nobody asks who they are */
function requireAuth(config: Config): void {
  const host = config['server.host']
  if (config['app.workflows.auth']) {
    if (secretKeysOf(config) !== undefined) return
    throw new OperatorError(
      'app.workflows.auth=true needs app.secrets.keys or app.secrets.keys-file, which passwords and signing keys are sealed with: set it to <id>:<32 bytes in base64>.',
    )
  }
  if (config['app.workflows.allow-anonymous'] || ['127.0.0.1', '::1', 'localhost'].includes(host)) return
  throw new OperatorError(
    `The workflow engine asks nobody who they are, so it does not listen on ${host}: set app.workflows.auth=true, use server.host=127.0.0.1 behind a proxy that asks, or set app.workflows.allow-anonymous=true.`,
  )
}

function authOptions(config: Config): AuthOptions {
  try {
    return {
      enabled: config['app.workflows.auth'],
      openRegistration: config['app.workflows.open-registration'],
      addressOf: addressReader(config['app.workflows.trusted-proxies']),
    }
  } catch (cause) {
    throw new OperatorError((cause as Error).message, { cause })
  }
}

/** Runs executions; any number of them share the queues. */
export async function startWorkflowsWorker({ config, log }: RoleContext): Promise<RunningRole> {
  const { startWorkflowWorker } = await import('../workers/workflows/worker.ts')
  const keys = secretKeysOf(config)
  const bus = await openBus(config, log, 'worker:workflows', 'all')
  const worker = await startWorkflowWorker({
    bus,
    // One policy for all that runs what users write.
    egress: { allow: config['app.functions.fetch-allow'] ?? [], deny: config['app.functions.fetch-deny'] ?? [] },
    ...(keys !== undefined && { secretKeys: keys }),
    scripts: config['app.workflows.scripts'],
    containers: config['app.workflows.containers'],
    ownPlugins: config['app.workflows.plugins'] ?? [],
    ...(config['app.workflows.worker-groups'] && { groups: config['app.workflows.worker-groups'] }),
    onObservation: observe(log),
  })
  return {
    async stop() {
      await worker.stop()
      await bus.close()
    },
  }
}

/** Starts executions for triggers, and sees to those of which nothing is heard; any number of schedulers share the work. */
export async function startWorkflowsScheduler({ config, log }: RoleContext): Promise<RunningRole> {
  const [{ default: pg }, { startScheduler }, { idleExecutions }] = await Promise.all([
    import('pg'),
    import('../workers/scheduler/scheduler.ts'),
    import('../projections/workflows/executions-read.ts'),
  ])
  const connection = platformDatabase(config, 'The scheduler of the workflow engine')
  const bus = await openBus(config, log, 'worker:scheduler', 'all')
  const tell = observe(log)
  const database = new pg.Pool({ ...connection, application_name: 'busbar worker:scheduler', max: 1 })
  database.on('error', (error) => tell({ type: 'database-connection-lost', error }))
  const scheduler = await startScheduler({
    bus,
    changeStream: config['app.nats.stream-name'],
    source: config['app.changes.source'],
    findIdle: (page) => idleExecutions(database, page),
    onObservation: tell,
  })
  return {
    async stop() {
      await scheduler.stop()
      await database.end()
      await bus.close()
    },
  }
}

/** Keeps the read models of the workflow engine, in one process at a time. */
export async function startWorkflowsProjection({ config, log, signal }: RoleContext): Promise<RunningRole> {
  const { startProjector } = await import('../projections/projector.ts')
  const { workflowProjection } = await import('../projections/workflows/projection.ts')
  const connection = platformDatabase(config, 'The projection of the workflow engine')
  const bus = await openBus(config, log, 'projection:workflows', 'all')
  const tell = observe(log)
  const running = Promise.withResolvers<void>()
  const projector = startProjector({
    bus,
    connection,
    projection: workflowProjection,
    onObservation: (observation) => {
      if (observation.type === 'projection-running') running.resolve()
      tell(observation)
    },
  })
  const timer = setTimeout(running.resolve, projectionStartMs)
  signal.addEventListener('abort', () => running.resolve(), { once: true })
  await running.promise
  clearTimeout(timer)
  return {
    async stop() {
      await projector.stop()
      await bus.close()
    },
  }
}

/** @throws {OperatorError} when none is configured. */
function platformDatabase(config: Config, title: string): ClientConfig {
  const connection = datasource(config, 'platform.datasource')
  if (connection !== undefined) return connection
  throw new OperatorError(`${title} needs a database for its read models: set platform.datasource.url.`)
}
