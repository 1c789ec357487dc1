import { chmodSync, chownSync, readFileSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { join, resolve } from 'node:path'
import { setTimeout as delay } from 'node:timers/promises'
import { endProcess, exited, freePort, spawnServer } from '../../ops/local/child.ts'
import { bringDebianPackages, type UnpackedPackages } from '../../ops/local/debian-packages.ts'
import { makeOwnFolder, unprivilegedAccount } from '../../ops/local/unprivileged.ts'
import { environment } from '../../schemas/config/environment.ts'
import { keepServer, type Owner, type TestServer } from './servers.ts'

interface DebianServer {
  /** Folder of the packages, shared by all tests. */
  readonly name: string
  readonly packages: readonly string[]
  /** Its name, or where it lies below the root of the packages. */
  readonly program: string
  readonly scheme: string
  readonly args: (place: Place) => readonly string[]
  readonly environment?: (place: Place) => Readonly<Record<string, string>>
  /** Written into the folder before the start, under these names. */
  readonly files?: (place: Place) => Readonly<Record<string, string>>
  /** Runs as root when this process does; else as an account without rights. */
  readonly privileged?: boolean
  /** Before the server first starts. */
  readonly prepare?: (place: Place, own: (path: string) => void) => void
}

interface Place {
  /** Of this server, writable by it. */
  readonly folder: string
  readonly port: number
  readonly packages: UnpackedPackages
  /** Whom it runs as. */
  readonly user: string
}

/** A server of Debian on 127.0.0.1, from packages unpacked beside the data: the machine stays as it is. */
export async function testDebianServer(
  t: Owner,
  server: DebianServer,
): Promise<TestServer & { readonly folder: string }> {
  const packages = await bringDebianPackages({ folder: dataFolder(), name: server.name, packages: server.packages })
  let where = ''
  const kept = await keepServer(t, `busbar-${server.name}-`, async (folder, given) => {
    where = folder
    const account = server.privileged === true ? undefined : unprivilegedAccount(folder)
    makeOwnFolder(folder, account)
    chmodSync(folder, 0o755)
    const port = given === 0 ? await freePort() : given
    const place = { folder, port, packages, user: userName(account?.uid ?? process.getuid!()) }
    for (const [name, text] of Object.entries(server.files?.(place) ?? {})) {
      writeFileSync(join(folder, name), text, { mode: 0o600 })
      if (account !== undefined) chownSync(join(folder, name), account.uid, account.gid)
    }
    if (given === 0) server.prepare?.(place, (path) => account && chownSync(path, account.uid, account.gid))
    const child = spawnServer({
      command: server.program.includes('/') ? join(packages.root, server.program) : packages.binary(server.program),
      args: server.args(place),
      logFile: join(folder, 'server.log'),
      cwd: folder,
      deathSignal: 'TERM',
      env: { ...packages.environment, ...server.environment?.(place) },
      ...account,
    })
    while (!(await answers(port))) {
      if (child.exitCode !== null) throw new Error(readFileSync(join(folder, 'server.log'), 'utf8'))
      await delay(20)
    }
    return {
      url: `${server.scheme}://127.0.0.1:${port}`,
      port,
      stop: () => endProcess(child, [['SIGTERM', 3_000], ['SIGKILL', 3_000]]), // biome-ignore format: one step a pair
      async kill(signal: NodeJS.Signals) {
        child.kill(signal)
        await exited(child)
      },
    }
  })
  return { ...kept, folder: where }
}

function userName(uid: number): string {
  const accounts = readFileSync('/etc/passwd', 'utf8').split('\n')
  return accounts.find((line) => line.split(':')[2] === String(uid))?.split(':')[0] ?? 'nobody'
}

function dataFolder(): string {
  return environment().BUSBAR_DATA ?? resolve(import.meta.dirname, '../../.busbar')
}

function answers(port: number): Promise<boolean> {
  return new Promise((done) => {
    const socket = connect(port, '127.0.0.1')
    socket.once('connect', () => done(true)).once('error', () => done(false))
    socket.once('connect', () => socket.destroy())
  })
}
