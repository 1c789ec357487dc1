import type { Config } from '../schemas/config.ts'
import {
  startCaptureWorker,
  startGraphql,
  startMysqlCaptureWorker,
  startMysqlGraphql,
  startRest,
} from './data-roles.ts'
import { startFunctions, startFunctionsWorker } from './function-roles.ts'
import { OperatorError } from './local/operator-error.ts'
import { isMysqlWanted } from './mysql-datasource.ts'
import { startProvisioning, startProvisioningWorker } from './provisioning-roles.ts'
import type { GatewayPortKey, RoleContext, RunningRole } from './role-options.ts'
import {
  startWorkflows,
  startWorkflowsProjection,
  startWorkflowsScheduler,
  startWorkflowsWorker,
} from './workflow-roles.ts'

export interface Role {
  readonly name: string
  /** What `busbar up` and `--help` call it. */
  readonly title: string
  /** Its port's key, for a gateway. */
  readonly portKey?: GatewayPortKey
  /** Paths of the table of `busbar up`, after the URL. */
  readonly paths?: readonly { readonly title: string; readonly path: string }[]
  /** Whether it has nothing to do without the bus. */
  readonly needsBus: boolean
  /** Whether `busbar up` runs it; absent: always. */
  readonly isWanted?: (config: Config) => boolean
  start(context: RoleContext): Promise<RunningRole>
}

/** Every role there is, in the order of their start. The one place where roles are wired; a process loads only its own. */
export const roles: readonly Role[] = [
  { name: 'worker:capture', title: 'Change capture', needsBus: true, start: startCaptureWorker },
  {
    name: 'worker:capture-mysql',
    title: 'Change capture of MySQL',
    needsBus: true,
    isWanted: isMysqlWanted,
    start: startMysqlCaptureWorker,
  },
  { name: 'worker:functions', title: 'Function worker', needsBus: true, start: startFunctionsWorker },
  { name: 'worker:workflows', title: 'Workflow worker', needsBus: true, start: startWorkflowsWorker },
  { name: 'worker:scheduler', title: 'Workflow scheduler', needsBus: true, start: startWorkflowsScheduler },
  { name: 'worker:provisioning', title: 'Provisioning worker', needsBus: true, start: startProvisioningWorker },
  { name: 'projection:workflows', title: 'Workflow read models', needsBus: true, start: startWorkflowsProjection },
  {
    name: 'gateway:rest',
    title: 'REST API',
    portKey: 'gateway.rest.port',
    paths: [
      { title: 'tables', path: '/api/v1/' },
      { title: 'try it', path: '/docs' },
      { title: 'GraphQL playground', path: '/' },
    ],
    needsBus: false,
    start: startRest,
  },
  {
    name: 'gateway:graphql',
    title: 'GraphQL API',
    portKey: 'gateway.graphql.port',
    paths: [{ title: 'endpoint', path: '/graphql' }],
    needsBus: false,
    start: startGraphql,
  },
  {
    name: 'gateway:graphql-mysql',
    title: 'GraphQL API on MySQL',
    portKey: 'gateway.graphql-mysql.port',
    paths: [{ title: 'endpoint', path: '/graphql' }],
    needsBus: false,
    isWanted: isMysqlWanted,
    start: startMysqlGraphql,
  },
  {
    name: 'gateway:functions',
    title: 'Function runtime',
    portKey: 'gateway.functions.port',
    paths: [
      { title: 'functions', path: '/scripts' },
      { title: 'OpenAPI', path: '/openapi.json' },
    ],
    needsBus: true,
    start: startFunctions,
  },
  {
    name: 'gateway:provisioning',
    title: 'Provisioning service',
    portKey: 'gateway.provisioning.port',
    paths: [
      { title: 'instances', path: '/api/provision' },
      { title: 'try it', path: '/docs' },
    ],
    needsBus: true,
    start: startProvisioning,
  },
  {
    name: 'gateway:workflows',
    title: 'Workflow engine',
    portKey: 'gateway.workflows.port',
    paths: [
      { title: 'flows', path: '/api/v1/flows' },
      { title: 'try it', path: '/docs' },
    ],
    needsBus: true,
    start: startWorkflows,
  },
]

/** @throws {OperatorError} when there is no such role. */
export function findRole(name: string): Role {
  const role = roles.find((each) => each.name === name)
  if (role !== undefined) return role
  throw new OperatorError(`There is no role ${name}; the roles are ${roles.map((each) => each.name).join(', ')}.`)
}

/** @throws {OperatorError} when several gateways would listen on `server.port`. */
export function requireOwnPorts(config: Config, chosen: readonly Role[]): void {
  const gateways = chosen.filter((role) => role.portKey !== undefined)
  if (config['server.port'] === undefined || gateways.length < 2) return
  const keys = gateways.map((role) => role.portKey).join(', ')
  throw new OperatorError(`server.port is for one gateway, and ${gateways.length} are to run: use ${keys} instead.`)
}
