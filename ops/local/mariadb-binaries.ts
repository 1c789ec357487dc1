import { existsSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { bringDebianPackages, lookForDebianPackages, type UnpackedPackages } from './debian-packages.ts'

export interface MariadbBinaries {
  readonly server: string
  /** The script that makes a data folder. */
  readonly install: string
  /** Folder with the programs of clients: `mariadb`, `mariadb-dump`, `mariadb-binlog`, `mariadb-backup`. */
  readonly clientFolder: string
  /** What the programs take as `--basedir`. */
  readonly baseFolder: string
  readonly pluginFolder: string
  /** Variables under which the programs run. */
  readonly environment: Readonly<Record<string, string>>
}

const packages = ['mariadb-server-core', 'mariadb-client-core', 'mariadb-client', 'mariadb-backup']

/** The MariaDB on the search path, else the one that was fetched into the data folder; undefined when there is neither. */
export function lookForMariadb({
  searchPath,
  folder,
}: {
  readonly searchPath: string
  readonly folder: string
}): MariadbBinaries | undefined {
  return installed(searchPath) ?? unpacked(lookForDebianPackages({ folder, name: 'mariadb' }))
}

/**
 * As {@link lookForMariadb}, and fetches Debian's when there is none.
 *
 * @throws {OperatorError} where that cannot be done
 */
export async function bringMariadb(
  { searchPath, folder }: { readonly searchPath: string; readonly folder: string },
  tell?: (line: string) => void,
): Promise<MariadbBinaries> {
  const found =
    installed(searchPath) ?? unpacked(await bringDebianPackages({ folder, name: 'mariadb', packages }, tell))
  return found as MariadbBinaries
}

function installed(searchPath: string): MariadbBinaries | undefined {
  const folders = [...searchPath.split(delimiter), '/usr/sbin', '/usr/bin']
  const server = folders.map((folder) => join(folder, 'mariadbd')).find(existsSync)
  const install = folders.map((folder) => join(folder, 'mariadb-install-db')).find(existsSync)
  if (server === undefined || install === undefined) return undefined
  const baseFolder = dirname(dirname(server))
  return {
    server,
    install,
    clientFolder: dirname(install),
    baseFolder,
    pluginFolder: join(baseFolder, 'lib/mysql/plugin'),
    environment: { PATH: '/usr/sbin:/usr/bin:/sbin:/bin' },
  }
}

function unpacked(found: UnpackedPackages | undefined): MariadbBinaries | undefined {
  if (found === undefined) return undefined
  const install = found.binary('mariadb-install-db')
  return {
    server: found.binary('mariadbd'),
    install,
    clientFolder: dirname(install),
    baseFolder: join(found.root, 'usr'),
    pluginFolder: join(found.root, 'usr/lib/mysql/plugin'),
    environment: found.environment,
  }
}
