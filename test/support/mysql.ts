import { chmodSync, chownSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { createConnection } from 'mysql2/promise'
import { endProcess, exited, freePort, spawnServer } from '../../ops/local/child.ts'
import { makeOwnFolder, unprivilegedAccount } from '../../ops/local/unprivileged.ts'
import { environment } from '../../schemas/config/environment.ts'
import { testMariadb } from './mariadb.ts'
import { keepServer, type Owner, type TestServer } from './servers.ts'

/** A `mysqld` of MySQL's own to test on; MariaDB when it is not set. */
const program = environment().MYSQL_BIN

export const isRealMysql = program !== undefined

interface Wanted {
  readonly settings?: Readonly<Record<string, string | number>>
}

/** The MySQL that `MYSQL_BIN` names, else a MariaDB; with a binary log that can be read. */
export async function testMysql(t: Owner, { settings = {} }: Wanted = {}): Promise<TestServer> {
  if (program === undefined) return await testMariadb(t, { settings })
  const fast = { innodb_flush_log_at_trx_commit: 2, sync_binlog: 0, ...settings }
  return await keepServer(t, 'busbar-mysql-', async (folder, given) => {
    const account = unprivilegedAccount(folder)
    makeOwnFolder(folder, account)
    chmodSync(folder, 0o755)
    const data = join(folder, 'data')
    const port = given === 0 ? await freePort() : given
    const init = join(folder, 'init.sql')
    const run = (...args: readonly string[]) =>
      spawnServer({
        command: program,
        args: ['--no-defaults', `--datadir=${data}`, ...args],
        logFile: join(folder, 'server.log'),
        cwd: folder,
        deathSignal: 'TERM',
        env: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
        ...account,
      })
    if (given === 0) {
      const root =
        "create user root@'127.0.0.1' identified by 'secret';\ngrant all on *.* to root@'127.0.0.1' with grant option;\n"
      writeFileSync(init, root, { mode: 0o600 })
      if (account !== undefined) chownSync(init, account.uid, account.gid)
      await exited(run('--initialize-insecure', `--init-file=${init}`))
    }
    const child = run(
      ...['--secure-file-priv=', '--skip-name-resolve=ON', '--bind-address=127.0.0.1', '--socket=server.sock'],
      ...['--mysqlx=OFF', '--server-id=1', '--log-bin=binlog', '--binlog-row-image=FULL', '--binlog-row-metadata=FULL'],
      ...['--gtid-mode=ON', '--enforce-gtid-consistency=ON', `--port=${port}`, `--pid-file=${join(data, 'pid')}`],
      ...Object.entries(fast).map(([name, value]) => `--${name.replaceAll('_', '-')}=${value}`),
    )
    const url = `mysql://root:secret@127.0.0.1:${port}`
    while (!(await answers(url))) {
      if (child.exitCode !== null) throw new Error(readFileSync(join(folder, 'server.log'), 'utf8'))
      await delay(50)
    }
    return {
      url,
      port,
      stop: () => endProcess(child, [['SIGTERM', 20_000], ['SIGKILL', 3_000]]), // biome-ignore format: one step a pair
      async kill(signal: NodeJS.Signals) {
        child.kill(signal)
        await exited(child)
      },
    }
  })
}

async function answers(uri: string): Promise<boolean> {
  try {
    const connection = await createConnection({ uri, connectTimeout: 2_000 })
    connection.destroy()
    return true
  } catch {
    return false
  }
}
