import { execFile } from 'node:child_process'
import { chmodSync, chownSync, existsSync, mkdirSync, rmSync, writeFileSync } from 'node:fs'
import { rename } from 'node:fs/promises'
import { dirname } from 'node:path'
import { promisify } from 'node:util'
import { tied } from '../../supervisor/tied.ts'
import { CareFailure } from '../care-failure.ts'
import { syncFolder } from '../durable-files.ts'
import { inClosedServer, unfinishedNode } from './closed-server.ts'
import { type MysqlControl, type MysqlNode, temporaryFolder } from './mysql-node.ts'
import { withMysql } from './mysql-session.ts'
import { nativeVerifier } from './passwords.ts'

export interface MysqlUser {
  readonly user: string
  readonly password: string
}

/** Makes the folders and the parameters file of a node, 0700 and 0600 of the server's account. Idempotent. */
export function makeMysqlFolders(node: MysqlNode): void {
  for (const folder of [dirname(node.dataFolder), node.binlogFolder, temporaryFolder(node)]) {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    if (node.runAs !== undefined) chownSync(folder, node.runAs.uid, node.runAs.gid)
  }
  chmodSync(node.binlogFolder, 0o700)
  if (!existsSync(node.parametersFile)) writeFileSync(node.parametersFile, '[mysqld]\n', { mode: 0o600 })
  if (node.runAs !== undefined) chownSync(node.parametersFile, node.runAs.uid, node.runAs.gid)
}

/**
 * Makes a node's data: beside its place, with the platform's superuser, the instance's database and its owner, then renamed.
 * The node is stopped at the end. A repetition after a kill begins anew; when the data is there, nothing is done.
 *
 * @throws {CareFailure} `failed` when the installation does not make it, `unavailable` when somebody ended it; {ServerStartFailed}.
 */
export async function createMysql(control: MysqlControl, node: MysqlNode, owner: MysqlUser): Promise<void> {
  if (existsSync(node.dataFolder)) return
  makeMysqlFolders(node)
  const working = unfinishedNode(node)
  await control.stop(working, { mode: 'immediate' })
  rmSync(working.dataFolder, { recursive: true, force: true })
  await installData(working)
  // Nothing of this is for a recovery or a replica: they begin with a copy of the result.
  await inClosedServer(control, working, { settings: { skip_log_bin: null } }, (closed) => setUp(closed, owner))
  await rename(working.dataFolder, node.dataFolder)
  await syncFolder(dirname(node.dataFolder))
}

async function installData(node: MysqlNode): Promise<void> {
  const { binaries } = node
  mkdirSync(node.dataFolder, { mode: 0o700 })
  if (node.runAs !== undefined) chownSync(node.dataFolder, node.runAs.uid, node.runAs.gid)
  try {
    await promisify(execFile)(
      ...tied(binaries.install, [
        '--no-defaults',
        `--basedir=${binaries.baseFolder}`,
        `--datadir=${node.dataFolder}`,
        `--plugin-dir=${binaries.pluginFolder}`,
        '--auth-root-authentication-method=normal',
        '--skip-test-db',
        '--skip-name-resolve',
      ]),
      // Whoever finds the folder after a kill finds the script's children there too, which outlive it.
      {
        cwd: node.dataFolder,
        env: { LC_ALL: 'C', TZ: 'UTC', TMPDIR: temporaryFolder(node), ...binaries.environment },
        ...node.runAs,
      },
    )
  } catch (error) {
    throw new CareFailure(wasKilled(error) ? 'unavailable' : 'failed', 'MariaDB could not make its data folder.', {
      cause: error,
    })
  }
}

/** The script, or by its shell's word the server that it runs. */
function wasKilled(error: unknown): boolean {
  const { signal, stderr = '' } = error as { readonly signal?: string | null; readonly stderr?: string }
  return signal != null || /^(Killed|Terminated)$/m.test(stderr)
}

async function setUp(closed: MysqlNode, owner: MysqlUser): Promise<void> {
  await withMysql(
    closed,
    async (connection) => {
      await connection.query('flush privileges')
      const { user, password } = closed.superuser
      for (const host of ['127.0.0.1', 'localhost']) {
        await connection.query('create or replace user ?@? identified via mysql_native_password using ?', [
          user,
          host,
          nativeVerifier(password),
        ])
        await connection.query('grant all on *.* to ?@? with grant option', [user, host])
      }
      // Without them nobody gets in but by a password.
      await connection.query("delete from mysql.global_priv where user in ('root', '', 'mysql')")
      await connection.query('flush privileges')
      await connection.query('create database if not exists ?? character set utf8mb4', [closed.database])
      await connection.query('create or replace user ?@? identified via mysql_native_password using ?', [
        owner.user,
        '%',
        nativeVerifier(owner.password),
      ])
      await connection.query('grant all on ??.* to ?@?', [closed.database, owner.user, '%'])
      await connection.query('grant process on *.* to ?@?', [owner.user, '%'])
    },
    { database: null },
  )
}
