import { existsSync, readFileSync, statSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Unavailable } from '../../../schemas/failure.ts'
import type { Instance } from '../../../schemas/provisioning/instance.ts'
import type { Member } from '../../../schemas/provisioning/instance-facts.ts'
import type { KeepPolicy } from '../supervisor/protocol.ts'
import { type InstanceFolders, instanceFolders } from './folders.ts'
import { makeMysqlFolders } from './mysql/create.ts'
import { type MysqlControl, type MysqlNode, type MysqlStartOptions, mysqlArguments } from './mysql/mysql-node.ts'
import { rowsOf, withMysql } from './mysql/mysql-session.ts'
import { keepServer, requireStarting } from './node-control.ts'
import { type LocalPlace, missingEngine } from './place.ts'
import { majorOf, passwordContext } from './postgres-instance.ts'
import { ServerStartFailed } from './postgres-node.ts'
import { superuser } from './postgres-settings.ts'

export interface MysqlMemberControl extends MysqlControl {
  keep(node: MysqlNode, policy: KeepPolicy): Promise<void>
}

/** An instance with MariaDB servers, as the steps of its operations see it. */
export interface MysqlInstance {
  readonly folders: InstanceFolders
  readonly control: MysqlMemberControl
  nodeOf(member: Member): MysqlNode
  /** @throws {Unavailable} */
  primary(): MysqlNode
  readonly replicas: readonly Member[]
  /** Every server, the primary first, with what it is started with. */
  servers(): readonly { readonly node: MysqlNode; readonly start: Pick<MysqlStartOptions, 'settings'> }[]
  password(which: 'master' | 'superuser' | 'pending'): string
}

const startMs = 60_000
const stopMs = 30_000
const stopSignals = { fast: 'SIGTERM', immediate: 'SIGKILL' } as const
const maxLogTailBytes = 16 * 1024

/** @throws {Rejected} `provisioning/engine-missing` when its programs are gone */
export async function openMysqlInstance(place: LocalPlace, instance: Instance): Promise<MysqlInstance> {
  const found = await place.mysql()
  if (found === null) throw missingEngine('MYSQL', 'POST /api/setup/install/MYSQL')
  const folders = instanceFolders(place.home, instance.uid, majorOf(instance.members[0]?.version ?? '0'))
  const password = (which: 'master' | 'superuser' | 'pending') => {
    const envelope = instance.credentials?.[which]
    if (envelope == null) throw new Error(`The instance has no password of the kind ${which}`)
    return place.keys.open(envelope, passwordContext(instance.uid, which === 'superuser' ? 'superuser' : 'master'))
  }
  const nodeOf = ({ name, port }: Member): MysqlNode => {
    const home = join(folders.members, name)
    return {
      binaries: found.binaries,
      dataFolder: join(home, 'data'),
      port,
      superuser: { user: superuser, password: password('superuser') },
      database: instance.databaseName,
      ...(place.account !== undefined && { runAs: place.account }),
      binlogFolder: join(home, 'binlog'),
      parametersFile: join(home, 'parameters.cnf'),
      logFile: join(home, 'server.log'),
      serverId: Number(name.slice(1)),
    }
  }
  const primary = () => {
    const first = instance.members.find(({ name }) => name === instance.primary)
    if (first === undefined) throw new Unavailable('http/unavailable', 'The instance has no primary at the moment')
    return nodeOf(first)
  }
  const replicas = instance.members.filter(({ name }) => name !== instance.primary)
  return {
    folders,
    control: mysqlControl(place, instance.uid, folders),
    nodeOf,
    primary,
    replicas,
    servers: () => [
      { node: primary(), start: {} },
      ...replicas.map((member) => ({ node: nodeOf(member), start: { settings: { read_only: 'ON' } } })),
    ],
    password,
  }
}

function mysqlControl(place: LocalPlace, uid: string, folders: InstanceFolders): MysqlMemberControl {
  const placeOf = (node: MysqlNode) => ({
    key: `${uid}/${basename(dirname(node.dataFolder))}/${basename(node.dataFolder)}`,
    folder: node.dataFolder,
    marker: { file: folders.marker, uid },
    stopSignals,
  })
  const pid = async (node: MysqlNode) => {
    const { key } = placeOf(node)
    return (await (await place.supervisor()).call('list', {})).find((each) => each.key === key)?.pid
  }
  const control: MysqlMemberControl = {
    pid,
    async start(node, options = {}) {
      // Those of an earlier version had no folder for temporary tables.
      makeMysqlFolders(node)
      const logStart = existsSync(node.logFile) ? statSync(node.logFile).size : 0
      const spec = {
        ...placeOf(node),
        command: node.binaries.server,
        args: mysqlArguments(node, options),
        logFile: node.logFile,
        environment: node.binaries.environment,
        ...(node.runAs !== undefined && { runAs: node.runAs }),
      }
      const starting = await place.supervisor()
      await starting.call('start', { spec })
      for (const end = performance.now() + (options.timeoutMs ?? startMs); ; ) {
        options.signal?.throwIfAborted()
        if (await answers(node)) return
        const log = () => readFileSync(node.logFile).subarray(logStart).toString('utf8').slice(-maxLogTailBytes)
        requireStarting(
          (await starting.call('list', {})).find(({ key }) => key === spec.key),
          log,
        )
        if (performance.now() > end) throw new ServerStartFailed('The database server did not start in time', log())
        await sleep(50)
      }
    },
    async stop(node, { mode = 'fast', timeoutMs = stopMs } = {}) {
      await (await place.supervisor()).call('stop', { spec: placeOf(node), mode, timeoutMs })
    },
    async restart(node, options) {
      await control.stop(node)
      await control.start(node, options)
    },
    async keep(node, policy) {
      await keepServer(await place.supervisor(), placeOf(node).key, policy)
    },
  }
  return control
}

/** Whether it is this server that answers; one that refuses the password answers too. */
async function answers(node: MysqlNode): Promise<boolean> {
  try {
    const [row] = await withMysql(
      node,
      (connection) => rowsOf<{ folder: string }>(connection, 'select @@datadir as folder'),
      { database: null },
    )
    return row?.folder.replace(/\/$/, '') === node.dataFolder
  } catch (error) {
    const { cause } = error as { cause?: { code?: string } }
    return cause?.code === 'ER_ACCESS_DENIED_ERROR'
  }
}

/** Running, and looked after from now on; the replicas take no writes. */
export async function startMysql(opened: MysqlInstance, signal: AbortSignal): Promise<void> {
  if (!existsSync(opened.primary().dataFolder)) return
  for (const { node, start } of opened.servers()) {
    if (!existsSync(node.dataFolder)) continue
    await opened.control.start(node, { ...start, signal })
    await opened.control.keep(node, 'restart')
  }
}
