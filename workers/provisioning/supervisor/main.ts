import { chmodSync, rmSync } from 'node:fs'
import { createServer, type Socket } from 'node:net'
import { join, resolve } from 'node:path'
import { takeLock } from './lock.ts'
import { supervisorSocket } from './place.ts'
import { type Params, type Reply, type Request, readLines, writeLine } from './protocol.ts'
import { Servers } from './servers.ts'

/** Without servers and without anybody who asks for some. */
const idleMs = 30_000
const trimMs = 60_000

const home = resolve(process.argv[2] ?? '.')
const socketPath = supervisorSocket(home)

/** The connection that may start and stop servers; the others wait for it to close. */
let owner: Socket | null = null
const waiting: { readonly socket: Socket; readonly grant: () => void }[] = []
const connections = new Set<Socket>()
const servers = new Servers((ended) => {
  if (owner !== null) writeLine(owner, ended)
})

const lock = await takeLock(join(home, 'supervisor.pid'))
if (lock === null) process.exit(0)
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
  if (ending) throw new Error('The supervisor ends')
  switch (call) {
    case 'start':
      return await servers.start(params as Params<'start'>)
    case 'keep':
      return servers.keep(params as Params<'keep'>)
    case 'stop':
      return await servers.stop(params as Params<'stop'>)
    case 'kill':
      return servers.kill(params as Params<'kill'>)
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

let ending = false
async function shutdown(): Promise<void> {
  if (ending) return
  ending = true
  await servers.stopAll()
  end(0)
}

function end(code: number): never {
  // Whoever has the lock now has the socket too.
  if (lock?.isOurs() === true) {
    rmSync(socketPath, { force: true })
    lock.release()
  }
  process.exit(code)
}
