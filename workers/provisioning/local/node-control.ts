import { existsSync, readFileSync, statSync } from 'node:fs'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import { Unavailable } from '../../../schemas/failure.ts'
import type { Supervisor } from '../supervisor/client.ts'
import type { KeepPolicy, ServerSpec, ServerStatus } from '../supervisor/protocol.ts'
import type { InstanceFolders } from './folders.ts'
import { type NodeControl, type PostgresNode, ServerStartFailed, type StartOptions } from './postgres-node.ts'
import { memberName, platformSettings } from './postgres-settings.ts'
import { standbyPassword } from './standby-access.ts'

export interface MemberControl extends NodeControl {
  /** From now on the supervisor looks after it. */
  keep(node: PostgresNode, policy: KeepPolicy): Promise<void>
  /** At once and the hard way; it does not start again. */
  fence(node: PostgresNode): Promise<void>
  /** As if it had crashed: it is started again, or has a successor. */
  kill(node: PostgresNode): Promise<void>
  /** Undefined: the supervisor does not know it; it was stopped, or the supervisor has just begun. */
  status(node: PostgresNode): Promise<ServerStatus | undefined>
}

const startMs = 60_000
const stopMs = 30_000
const stopSignals = { fast: 'SIGINT', immediate: 'SIGQUIT' } as const
const maxLogTailBytes = 16 * 1024

/** Starts and stops the servers of one instance through the supervisor. */
export function memberControl(
  supervisor: () => Promise<Pick<Supervisor, 'call'>>,
  instance: { readonly uid: string; readonly folders: InstanceFolders },
): MemberControl {
  const keyOf = (node: PostgresNode) => `${instance.uid}/${memberName(node)}/${basename(node.dataFolder)}`
  const place = (node: PostgresNode) => ({
    key: keyOf(node),
    folder: node.dataFolder,
    marker: { file: instance.folders.marker, uid: instance.uid },
    stopSignals,
  })
  const specOf = (node: PostgresNode, settings: Readonly<Record<string, string>>): ServerSpec => {
    const all = { ...platformSettings(node, instance.folders.hba), ...settings }
    return {
      ...place(node),
      command: join(node.binFolder, 'postgres'),
      args: ['-D', node.dataFolder, ...Object.entries(all).flatMap(([name, value]) => ['-c', `${name}=${value}`])],
      pidFile: join(node.dataFolder, 'postmaster.pid'),
      logFile: node.logFile,
      // Here, not in a file. Only one that is to follow has it.
      environment: all.primary_conninfo ? { PGPASSWORD: standbyPassword(node) } : {},
      ...(node.runAs !== undefined && { runAs: node.runAs }),
    }
  }
  const status = async (node: PostgresNode) =>
    (await (await supervisor()).call('list', {})).find(({ key }) => key === keyOf(node))
  const control: MemberControl = {
    status,
    pid: async (node) => (await status(node))?.pid,
    async start(node, { settings = {}, timeoutMs = startMs, signal }: StartOptions = {}) {
      const logStart = sizeOf(node.logFile)
      // Asked of the same one: with another the servers have gone that this one had.
      const starting = await supervisor()
      await starting.call('start', { spec: specOf(node, settings) })
      const found = async () => (await starting.call('list', {})).find(({ key }) => key === keyOf(node))
      await untilReady(node, { timeoutMs, signal, logStart, status: found })
    },
    async stop(node, { mode = 'fast', timeoutMs = stopMs } = {}) {
      await (await supervisor()).call('stop', { spec: place(node), mode, timeoutMs })
    },
    async restart(node, options) {
      await control.stop(node)
      await control.start(node, options)
    },
    async keep(node, policy) {
      await keepServer(await supervisor(), keyOf(node), policy)
    },
    async fence(node) {
      await (await supervisor()).call('stop', { spec: place(node), mode: 'kill', timeoutMs: 0 })
    },
    async kill(node) {
      await (await supervisor()).call('kill', { key: keyOf(node) })
    },
  }
  return control
}

interface Waiting {
  readonly timeoutMs: number
  readonly signal: AbortSignal | undefined
  readonly logStart: number
  readonly status: () => Promise<ServerStatus | undefined>
}

async function untilReady(node: PostgresNode, { timeoutMs, signal, logStart, status }: Waiting): Promise<void> {
  for (const end = performance.now() + timeoutMs; ; ) {
    signal?.throwIfAborted()
    const state = await tryConnect(node)
    if (state === 'ready') return
    const log = () => textFrom(node.logFile, logStart)
    requireStarting(await status(), log)
    if (performance.now() > end) {
      throw new ServerStartFailed('The database server did not accept connections in time', log())
    }
    await sleep(30)
  }
}

/**
 * @throws {ServerStartFailed} when a server that was to start has ended by itself; {Unavailable} when somebody ended it: it can be
 * started again
 */
export function requireStarting(status: ServerStatus | undefined, log: () => string): void {
  if (status?.pid !== undefined) return
  if (status?.ended?.startsWith('SIG')) {
    throw new Unavailable('http/unavailable', `The database server was ended by ${status.ended} while it started`)
  }
  const written = log()
  const taken = /address already in use/i.test(written)
  const why = taken ? 'cannot listen: its port is taken by another program' : 'ended at once'
  throw new ServerStartFailed(`The database server ${why}`, written)
}

/** @throws {Unavailable} when it has ended meanwhile */
export async function keepServer(supervisor: Pick<Supervisor, 'call'>, key: string, policy: KeepPolicy): Promise<void> {
  await supervisor.call('keep', { key, policy }).catch((cause: unknown) => {
    throw new Unavailable('http/unavailable', 'The database server does not run any more', { cause })
  })
}

/** Whether it is this server that answers: the port can belong to another while ours fails to take it. */
async function tryConnect(node: PostgresNode): Promise<'ready' | 'not-yet'> {
  const client = new pg.Client({
    host: node.socketFolder ?? '127.0.0.1',
    port: node.port,
    user: node.superuser.user,
    password: node.superuser.password,
    database: 'postgres',
    connectionTimeoutMillis: 5_000,
  })
  client.on('error', () => undefined)
  try {
    await client.connect()
    const { rows } = await client.query<{ folder: string }>("select current_setting('data_directory') as folder")
    return rows[0]?.folder === node.dataFolder ? 'ready' : 'not-yet'
  } catch {
    return 'not-yet'
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** The end of what was written since. */
function textFrom(path: string, start: number): string {
  return existsSync(path) ? readFileSync(path).subarray(start).toString('utf8').slice(-maxLogTailBytes) : ''
}

function sizeOf(path: string): number {
  return existsSync(path) ? statSync(path).size : 0
}
