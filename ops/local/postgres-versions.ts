import { existsSync, readdirSync, realpathSync } from 'node:fs'
import { delimiter, dirname, join } from 'node:path'
import { findPostgres, postgresVersion, reachableBinaries } from './postgres-binaries.ts'
import type { Account } from './unprivileged.ts'

const debian = '/usr/lib/postgresql'
/** What the provisioning service can look after. */
const leastMajor = 15

/**
 * Every PostgreSQL of the machine that the account can reach: the registry's package, those on the search path, Debian's.
 * `tools`: whether there is a pg_dump for it.
 */
export function findAllPostgres(searchPath: string, account: Account | undefined, more: readonly string[] = []) {
  const folders = [packaged(searchPath), ...searchPath.split(delimiter), ...debianFolders(), ...more].filter(
    (folder) => folder !== undefined && existsSync(join(folder, 'postgres')) && existsSync(join(folder, 'initdb')),
  ) as string[]
  const found = [...new Set(folders.map(ownFolder))].map((folder) => {
    const version = postgresVersion(folder)
    const tools = existsSync(join(folder, 'pg_dump'))
    return { version, major: Number.parseInt(version, 10), tools, binFolder: reachableBinaries(folder, account) }
  })
  const versions = new Set<string>()
  return found.filter(({ version, major }) => {
    const fresh = !versions.has(version) && major >= leastMajor
    versions.add(version)
    return fresh
  })
}

/** Where the program is, not a link to it: what belongs to it lies there. */
function ownFolder(folder: string): string {
  return dirname(realpathSync(join(folder, 'postgres')))
}

function packaged(searchPath: string): string | undefined {
  try {
    return findPostgres(searchPath)
  } catch {
    return undefined
  }
}

function debianFolders(): readonly string[] {
  return existsSync(debian) ? readdirSync(debian).map((version) => join(debian, version, 'bin')) : []
}
