import { execFile } from 'node:child_process'
import { chmodSync, existsSync, mkdirSync, mkdtempSync, readdirSync, renameSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { delimiter, join } from 'node:path'
import { promisify } from 'node:util'
import { environment } from '../../schemas/config/environment.ts'
import { OperatorError } from './operator-error.ts'
import { sharedRoot } from './postgres-binaries.ts'
import { canReach, unprivilegedAccount } from './unprivileged.ts'

const run = promisify(execFile)

/** Programs of Debian packages in a folder of ours: the machine's own packages, accounts and services stay as they are. */
export interface UnpackedPackages {
  /** What would be `/`. */
  readonly root: string
  /** @throws {OperatorError} when the packages hold no such program. */
  binary(name: string): string
  /** `PATH` and `LD_LIBRARY_PATH` under which the programs run. */
  readonly environment: { readonly PATH: string; readonly LD_LIBRARY_PATH: string }
}

export interface PackagesWanted {
  /** Data folder; the packages lie in `debian/<name>` under it, or where an unprivileged account can reach them. */
  readonly folder: string
  /** Name of the folder that they share. */
  readonly name: string
  /** Debian's names; what they depend on and the machine does not have comes along. */
  readonly packages: readonly string[]
}

/**
 * Takes packages from the Debian that the machine's own apt sources name and unpacks them; at once when that has been done before.
 *
 * @throws {OperatorError} with what to do, where there is no apt or the download fails.
 */
export async function bringDebianPackages(
  wanted: PackagesWanted,
  tell: (line: string) => void = () => undefined,
): Promise<UnpackedPackages> {
  const root = packagesFolder(wanted)
  if (!existsSync(root)) {
    tell(`fetching ${wanted.packages.join(', ')} from Debian`)
    try {
      await unpack(wanted.packages, root)
    } catch (error) {
      const { stderr = '', message } = error as Error & { stderr?: string }
      const reason = stderr.split('\n').find((line) => line.startsWith('E:')) ?? message.split('\n')[0]
      throw new OperatorError(`Debian's ${wanted.packages.join(', ')} could not be fetched: ${reason}`, {
        cause: error,
      })
    }
  }
  return unpackedIn(root)
}

/** The packages as they were unpacked before, undefined when they were not. */
export function lookForDebianPackages(wanted: Pick<PackagesWanted, 'folder' | 'name'>): UnpackedPackages | undefined {
  const root = packagesFolder(wanted)
  return existsSync(root) ? unpackedIn(root) : undefined
}

function packagesFolder({ folder, name }: Pick<PackagesWanted, 'folder' | 'name'>): string {
  const reachable = canReach(folder, unprivilegedAccount(join(folder, 'debian')))
  return join(reachable ? folder : sharedRoot, 'debian', name)
}

async function unpack(packages: readonly string[], root: string): Promise<void> {
  const work = mkdtempSync(join(tmpdir(), 'busbar-apt-'))
  const parent = join(root, '..')
  mkdirSync(parent, { recursive: true })
  for (const folder of [join(parent, '..'), parent]) chmodSync(folder, 0o755)
  // Unpacked under a name of our own and then renamed: several starts may do it at the same time, and one may be cut off.
  const unfinished = mkdtempSync(`${root}.`)
  try {
    for (const folder of ['lists/partial', 'archives/partial']) mkdirSync(join(work, folder), { recursive: true })
    const options = ['-o', 'Debug::NoLocking=1', '-o', 'APT::Sandbox::User=root', '-o', 'Acquire::Languages=none']
    const places = ['-o', `Dir::State::Lists=${join(work, 'lists')}`, '-o', `Dir::Cache=${work}`, '-o', 'Dir::Cache::archives=archives'] // biome-ignore format: one option a pair
    const apt = (...args: string[]) =>
      run('apt-get', [...options, ...places, '-qq', ...args], {
        env: { ...environment(), DEBIAN_FRONTEND: 'noninteractive' },
        maxBuffer: 64 * 1024 * 1024,
      })
    await apt('update')
    // Those that the machine has already are taken as well: where they lie is then known.
    await apt('install', '--download-only', '--reinstall', '--no-install-recommends', '-y', ...packages)
    for (const file of readdirSync(join(work, 'archives'))) {
      if (file.endsWith('.deb')) await run('dpkg-deb', ['-x', join(work, 'archives', file), unfinished])
    }
    chmodSync(unfinished, 0o755)
    try {
      renameSync(unfinished, root)
    } catch (error) {
      if (!existsSync(root)) throw error
    }
  } finally {
    rmSync(work, { recursive: true, force: true })
    rmSync(unfinished, { recursive: true, force: true })
  }
}

function unpackedIn(root: string): UnpackedPackages {
  const folders = ['usr/sbin', 'usr/bin', 'sbin', 'bin'].map((folder) => join(root, folder)).filter(existsSync)
  const libraries = ['usr/lib', 'lib']
    .flatMap((folder) => [folder, ...multiarch(join(root, folder)).map((name) => join(folder, name))])
    .map((folder) => join(root, folder))
    .filter(existsSync)
  return {
    root,
    binary(name) {
      const found = folders.map((folder) => join(folder, name)).find(existsSync)
      if (found === undefined) throw new OperatorError(`There is no ${name} among the packages in ${root}.`)
      return found
    },
    environment: {
      PATH: [...folders, '/usr/sbin', '/usr/bin', '/sbin', '/bin'].join(delimiter),
      LD_LIBRARY_PATH: libraries.join(delimiter),
    },
  }
}

const multiarch = (folder: string) =>
  existsSync(folder) ? readdirSync(folder).filter((name) => name.includes('-linux-gnu')) : []
