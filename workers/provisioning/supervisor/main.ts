import { chmodSync, existsSync, readFileSync, rmSync, unlinkSync, writeFileSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { join, resolve } from 'node:path'
import { supervisorSocket } from './place.ts'
import { type Params, type Reply, type Request, readLines, writeLine } from './protocol.ts'
import { Servers } from './servers.ts'

/** Without servers and without anybody who asks for some. */
const idleMs = 30_000
const trimMs = 60_000

const home = resolve(process.argv[2] ?? '.')
const socketPath = supervisorSocket(home)
const lockFile = join(home, 'supervisor.pid')

/** The connection that may start and stop servers; the others wait for it to close. */
let owner: Socket | null = null
const waiting: { readonly socket: Socket; readonly grant: () => void }[] = []
const connections = new Set<Socket>()
const servers = new Servers((ended) => {
  if (owner !== null) writeLine(owner, ended)
})

lock()
const listener = createServer(serve)
listener.once('error', () => end(1))
rmSync(socketPath, { force: true })
listener.listen(socketPath, () => chmodSync(socketPath, 0o600))
for (const signal of ['SIGTERM', 'SIGINT'] as const) process.on(signal, () => void shutdown())
setInterval(() => {
  try {
    servers.trimLogs()
  } catch {
    // A disk that is full has no room for the copy either; the servers say so themselves.
  }
}, trimMs)
let idleSince = performance.now()
setInterval(() => {
  if (servers.size > 0 || connections.size > 0) idleSince = performance.now()
  else if (performance.now() - idleSince > idleMs) end(0)
}, 1_000)

function serve(socket: Socket): void {
  connections.add(socket)
  socket.on('error', () => socket.destroy())
  socket.once('close', () => {
    connections.delete(socket)
    const place = waiting.findIndex((each) => each.socket === socket)
    if (place >= 0) waiting.splice(place, 1)
    if (owner === socket) {
      owner = null
      waiting.shift()?.grant()
    }
  })
  readLines(socket, (value) => void answer(socket, value as Request))
}

async function answer(socket: Socket, { id, call, params }: Request): Promise<void> {
  let reply: Reply
  try {
    reply = { id, result: await called(socket, call, params) }
  } catch (error) {
    reply = { id, error: (error as Error).message }
  }
  writeLine(socket, reply)
}

async function called(socket: Socket, call: Request['call'], params: unknown): Promise<unknown> {
  if (call === 'own') return await own(socket)
  if (call === 'list') return servers.list()
  if (call === 'shutdown') {
    setImmediate(() => void shutdown())
    return null
  }
  if (owner !== socket) throw new Error('Another worker looks after these servers')
  switch (call) {
    case 'start':
      return await servers.start(params as Params<'start'>)
    case 'keep':
      return servers.keep(params as Params<'keep'>)
    case 'stop':
      return await servers.stop(params as Params<'stop'>)
  }
}

function own(socket: Socket): Promise<null> {
  if (owner === null || owner === socket) {
    owner = socket
    return Promise.resolve(null)
  }
  return new Promise((resolve) => {
    const grant = () => {
      owner = socket
      resolve(null)
    }
    waiting.push({ socket, grant })
  })
}

/** One supervisor a place: a second one would give the servers two masters. */
function lock(): void {
  for (let attempt = 0; attempt < 3; attempt++) {
    try {
      writeFileSync(lockFile, me(), { flag: 'wx', mode: 0o600 })
      return
    } catch {
      if (existsSync(lockFile) && isAlive(readFileSync(lockFile, 'utf8'))) process.exit(0)
      rmSync(lockFile, { force: true })
    }
  }
  process.exit(1)
}

/** A number is given again after a while, its start time is not. */
function me(): string {
  return `${process.pid} ${startTime(process.pid)}`
}

function isAlive(written: string): boolean {
  const [pid = '', started] = written.split(' ')
  return /^\d+$/.test(pid) && started !== '' && startTime(Number(pid)) === started
}

function startTime(pid: number): string {
  try {
    const stat = readFileSync(`/proc/${pid}/stat`, 'utf8')
    // The name before it may hold spaces and parentheses. Source: proc(5), field 22.
    return stat.slice(stat.lastIndexOf(')') + 2).split(' ')[19] ?? ''
  } catch {
    return ''
  }
}

let ending = false
async function shutdown(): Promise<void> {
  if (ending) return
  ending = true
  await servers.stopAll()
  end(0)
}

function end(code: number): never {
  for (const path of [socketPath, lockFile]) if (existsSync(path)) unlinkSync(path)
  process.exit(code)
}
