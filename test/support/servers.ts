import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join, resolve } from 'node:path'
import type { Test } from 'tap'
import { findNats } from '../../ops/local/nats-binary.ts'
import { type NatsServer, startNats } from '../../ops/local/nats-server.ts'
import { startPostgres } from '../../ops/local/postgres-server.ts'
import { environment } from '../../schemas/config/environment.ts'

export interface TestServer {
  /** Stays the same over restarts. */
  readonly url: string
  readonly port: number
  /** Its folder. */
  readonly dataDir: string
  /** Ends the server the hard way (default SIGKILL); resolves when it is gone. */
  kill(signal?: NodeJS.Signals): Promise<void>
  /** Stops the server if it still runs and starts it on the same folder and port. */
  restart(): Promise<void>
}

/** Enough of tap's test object to hang the end on. */
export type Owner = Pick<Test, 'teardown'>

/** A PostgreSQL with an empty data folder. Its disk writes are not flushed: a killed server keeps its data, a power cut not. */
export async function testPostgres(
  t: Owner,
  { settings = {} }: { readonly settings?: Readonly<Record<string, string | number>> } = {},
): Promise<TestServer> {
  const fast = { fsync: 'off', full_page_writes: 'off', ...settings }
  return keepServer(t, 'busbar-pg-', (dataDir, port) =>
    startPostgres({ dataDir, port, settings: fast, password: 'secret' }),
  )
}

/** A nats-server with an empty JetStream store; flushes lazily unless `syncInterval` says `always`. */
export async function testNats(
  t: Owner,
  { syncInterval = '2m' }: { readonly syncInterval?: string } = {},
): Promise<TestServer> {
  const binary = testNatsBinary()
  return keepServer(t, 'busbar-nats-', (dataDir, port) => startNats({ dataDir, port, binary, syncInterval }))
}

/** The nats-server of the machine, or the one fetched into the data folder. */
export function testNatsBinary(): string {
  const { PATH = '', BUSBAR_DATA } = environment()
  const dataFolder = BUSBAR_DATA ?? resolve(import.meta.dirname, '../../.busbar')
  return findNats({ searchPath: PATH, binFolder: join(dataFolder, 'bin') })
}

export async function keepServer<S extends Pick<NatsServer, 'url' | 'port' | 'stop' | 'kill'>>(
  t: Owner,
  prefix: string,
  start: (dataDir: string, port: number) => Promise<S>,
): Promise<TestServer> {
  const dataDir = mkdtempSync(join(tmpdir(), prefix))
  let server = await start(dataDir, 0)
  t.teardown(async () => {
    await server.kill('SIGQUIT')
    rmSync(dataDir, { recursive: true, force: true, maxRetries: 20, retryDelay: 50 })
  })
  const { url, port } = server
  return {
    url,
    port,
    dataDir,
    kill: (signal = 'SIGKILL') => server.kill(signal),
    async restart() {
      await server.stop()
      server = await start(dataDir, port)
    },
  }
}
