import type { ChildProcess } from 'node:child_process'
import { randomBytes } from 'node:crypto'
import { existsSync, mkdirSync, readFileSync, statfsSync, statSync, writeFileSync } from 'node:fs'
import { connect } from 'node:net'
import { availableParallelism, totalmem } from 'node:os'
import { join, resolve } from 'node:path'
import { platformSubjects } from '../../bus/subject.ts'
import { batchCommand } from './batch-policy.ts'
import { endLeftover, endProcess, exited, freePort, spawnServer } from './child.ts'
import { findNats } from './nats-binary.ts'
import { OperatorError } from './operator-error.ts'

export interface NatsOptions {
  /** Folder of this server: its store, configuration and log. Created when missing. */
  readonly dataDir: string
  /** Default 0: a free one. */
  readonly port?: number
  /** Path of nats-server. Default: see findNats. */
  readonly binary?: string
  /**
   * When a stored message is flushed to the disk: `always` before it is acknowledged (default), or every so often (`2m`,
   * `10s`), which is some four times faster and loses that much at a power cut.
   */
  readonly syncInterval?: string
}

export interface NatsServer {
  /** With the platform's user. Also in the file `url` of its folder, for its owner alone. */
  readonly url: string
  /** With a user for other programs, which neither sees nor sends what is the platform's. In the file `apps-url`. */
  readonly appsUrl: string
  readonly port: number
  readonly process: ChildProcess
  /** Flushes and closes its streams; resolves when the process is gone. */
  stop(): Promise<void>
  /** Resolves when the process is gone. */
  kill(signal: NodeJS.Signals): Promise<void>
}

/**
 * Starts nats-server with JetStream on 127.0.0.1.
 *
 * @throws {OperatorError} when the port is in use or the server does not start.
 */
export async function startNats(options: NatsOptions): Promise<NatsServer> {
  const home = resolve(options.dataDir)
  mkdirSync(home, { recursive: true, mode: 0o700 })
  const pidFile = join(home, 'nats.pid')
  if (existsSync(pidFile)) await endLeftover(Number.parseInt(readFileSync(pidFile, 'utf8'), 10), home, 'SIGTERM')
  for (let attempt = 1; ; attempt++) {
    const port = options.port || (await freePort())
    const started = await tryStart(home, port, options)
    if (!('failure' in started)) return started
    const taken = /address already in use/i.test(started.failure)
    // A predecessor can need a moment to let its port go, and a free port can be taken between question and answer.
    if (taken && attempt < (options.port ? 4 : 20)) await new Promise((again) => setTimeout(again, 100))
    else if (taken) throw new OperatorError(`Port ${port} for NATS is in use: stop what uses it or choose another one.`)
    else throw new OperatorError(`nats-server did not start: ${started.failure} (log: ${join(home, 'server.log')})`)
  }
}

async function tryStart(home: string, port: number, options: NatsOptions) {
  const logFile = join(home, 'server.log')
  const logStart = existsSync(logFile) ? statSync(logFile).size : 0
  const configFile = join(home, 'nats.conf')
  writeFileSync(configFile, configuration(home, port, options.syncInterval ?? 'always'), { mode: 0o600 })
  const child = spawnServer({
    command: options.binary ?? findNats(),
    args: ['--config', configFile],
    logFile,
    cwd: home,
    deathSignal: 'TERM',
    wrapper: batchCommand(),
    env: goRuntime(),
  })
  if (!(await answersAsJetStream(child, port))) {
    await endProcess(child, [['SIGKILL', 5000]])
    const log = readFileSync(logFile, 'utf8').slice(logStart)
    return { failure: firstFailure(log) ?? 'the server ended at once' }
  }
  const server: NatsServer = {
    url: keptUrl(home, 'busbar', port),
    appsUrl: keptUrl(home, 'apps', port),
    port,
    process: child,
    stop: () => endProcess(child, [['SIGTERM', 15_000], ['SIGKILL', 5000]]), // biome-ignore format: one step a pair
    async kill(signal) {
      child.kill(signal)
      await exited(child)
    },
  }
  return server
}

/**
 * Settings of Go's runtime. The garbage collector else takes a quarter of what nats-server does for a call of 10 KB: it begins when the memory
 * in use has grown by four times, not once, but goes on as it always does where that would be a large part of the machine. And half of the
 * processors are enough: the others are for whom it serves here, and threads that wake one another for each message take a third of its time.
 * Source: https://go.dev/doc/gc-guide
 */
function goRuntime(): Readonly<Record<string, string>> {
  return {
    GOGC: '400',
    GOMEMLIMIT: String(Math.max(leastMemoryLimit, Math.floor(totalmem() / 4))),
    GOMAXPROCS: String(Math.max(1, Math.floor(availableParallelism() / 2))),
  }
}

const leastMemoryLimit = 1024 ** 3

/** Row changes can be large: 8 MB is the most that NATS advises for one message. */
function configuration(home: string, port: number, syncInterval: string): string {
  const users = [
    { user: 'busbar', password: passwordOf(home, 'busbar') },
    { user: 'apps', password: passwordOf(home, 'apps'), permissions: appsRights },
  ]
  return [
    `listen: "127.0.0.1:${port}"`,
    `server_name: "busbar-${port}"`,
    `pid_file: ${JSON.stringify(join(home, 'nats.pid'))}`,
    'max_payload: 8MB',
    'logtime_utc: true',
    'jetstream {',
    `  store_dir: ${JSON.stringify(join(home, 'store'))}`,
    `  sync_interval: ${JSON.stringify(syncInterval)}`,
    `  max_file: ${roomFor(home)}`,
    '}',
    'authorization {',
    '  users: [',
    ...users.map((user) => `    ${JSON.stringify(user)}`),
    '  ]',
    '}',
    '',
  ].join('\n')
}

const leastRoom = 32 * 1024 ** 3

/** Bytes. By itself nats-server refuses streams that together might outgrow three quarters of what is free now, on a small disk at the first start. */
function roomFor(home: string): number {
  const { bavail, bsize } = statfsSync(home)
  return Math.max(leastRoom, Math.floor(bavail * bsize * 0.75))
}

type NatsUser = 'busbar' | 'apps'

const urlFiles = { busbar: 'url', apps: 'apps-url' } satisfies Record<NatsUser, string>
const privileged = [...platformSubjects, '$JS.>', '$KV.>', '$O.>', '$SYS.>', '_INBOX.>']
/** Apps have the inboxes of their requests under another name: in those of everybody else come the answers of the platform. */
const appsRights = { publish: { deny: privileged }, subscribe: { deny: privileged } }

/** Made at the first start, then kept. */
function passwordOf(home: string, user: NatsUser): string {
  const file = join(home, `${user}.password`)
  if (!existsSync(file)) writeFileSync(file, `${randomBytes(24).toString('base64url')}\n`, { mode: 0o600 })
  return readFileSync(file, 'utf8').trim()
}

/** Of a server that is up; kept for those who come later. */
function keptUrl(home: string, user: NatsUser, port: number): string {
  const url = `nats://${user}:${passwordOf(home, user)}@127.0.0.1:${port}`
  writeFileSync(join(home, urlFiles[user]), `${url}\n`, { mode: 0o600 })
  return url
}

/** Where the server of a folder was last, with the platform's user; undefined when there was none, or it is not ours to know. */
export function lastNatsUrl(dataDir: string): string | undefined {
  try {
    return readFileSync(join(dataDir, urlFiles.busbar), 'utf8').trim()
  } catch {
    return undefined
  }
}

/**
 * A NATS server speaks first: its INFO line says whether JetStream is on. The line is believed only from our own child,
 * which is known by its name.
 */
async function answersAsJetStream(child: ChildProcess, port: number): Promise<boolean> {
  let failed = false
  child.once('error', () => {
    failed = true
  })
  while (!failed && child.exitCode === null && child.signalCode === null) {
    const info = await greeting(port)
    if (info.includes(`"server_name":"busbar-${port}"`) && info.includes('"jetstream":true')) {
      // A server of the same name can hold the port while ours is still failing to bind it.
      await new Promise((settled) => setTimeout(settled, 20))
      return child.exitCode === null
    }
    await new Promise((again) => setTimeout(again, 20))
  }
  return false
}

function greeting(port: number): Promise<string> {
  return new Promise((resolve) => {
    const socket = connect(port, '127.0.0.1')
    socket.setTimeout(1000, () => socket.destroy())
    socket.once('data', (chunk) => {
      resolve(chunk.toString())
      socket.destroy()
    })
    socket.once('error', () => resolve(''))
    socket.once('close', () => resolve(''))
  })
}

function firstFailure(log: string): string | undefined {
  const line = log.split('\n').find((entry) => /\[FTL\]|\[ERR\]|nats-server: /.test(entry))
  return line?.replace(/^.*?(\[FTL\]|\[ERR\]|nats-server:)\s*/, '').trim()
}
