import { resolve } from 'node:path'
import { bringMariadb } from '../../ops/local/mariadb-binaries.ts'
import { startMariadb } from '../../ops/local/mariadb-server.ts'
import { environment } from '../../schemas/config/environment.ts'
import { keepServer, type Owner, type TestServer } from './servers.ts'

/** A MariaDB with no databases of its own: the machine's, else Debian's. Its disk writes are not flushed: a killed server keeps its data, a power cut not. */
export async function testMariadb(
  t: Owner,
  { settings = {} }: { readonly settings?: Readonly<Record<string, string | number>> } = {},
): Promise<TestServer> {
  const { PATH: searchPath = '', BUSBAR_DATA } = environment()
  const folder = BUSBAR_DATA ?? resolve(import.meta.dirname, '../../.busbar')
  const binaries = await bringMariadb({ searchPath, folder })
  const fast = { innodb_flush_log_at_trx_commit: 2, sync_binlog: 0, innodb_buffer_pool_size: '64M', ...settings }
  return keepServer(t, 'busbar-mariadb-', (dataDir, port) =>
    startMariadb({ dataDir, port, binaries, settings: fast, password: 'secret' }),
  )
}
