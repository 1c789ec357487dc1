import { spawn } from 'node:child_process'
import { closeSync, mkdirSync, openSync } from 'node:fs'
import { connect, type Socket } from 'node:net'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { Unavailable } from '../../../schemas/failure.ts'
import { supervisorSocket } from './place.ts'
import {
  type Params,
  type Reply,
  type Result,
  readLines,
  type ServerEnded,
  type SupervisorCall,
  writeLine,
} from './protocol.ts'

/** In the middle of a call, whether it was done is not known; all calls can be made again. */
const lostSupervisor = () => new Unavailable('http/unavailable', 'The supervisor of the database servers went away')

/** A connection to the supervisor of a place, as the owner of its servers. */
export interface Supervisor {
  /** @throws {Unavailable}; {Error} with what the supervisor says */
  call<Call extends SupervisorCall>(call: Call, params: Params<Call>): Promise<Result<Call>>
  /** Resolves when the connection is gone. */
  readonly lost: Promise<void>
  close(): void
}

const startMs = 10_000

/**
 * Connects to the supervisor, which is started when there is none, and waits until no other worker owns the servers.
 * @throws {Unavailable}
 */
export async function openSupervisor(
  home: string,
  { onEnded, signal }: { readonly onEnded: (ended: ServerEnded) => void; readonly signal: AbortSignal },
): Promise<Supervisor> {
  for (const end = performance.now() + startMs; ; ) {
    signal.throwIfAborted()
    const socket = await reach(home)
    if (socket !== null) return await owning(socket, onEnded, signal)
    if (performance.now() > end)
      throw new Unavailable('http/unavailable', 'The supervisor of the database servers does not start')
    startSupervisor(home)
    for (let tries = 0; tries < 20 && !(await isThere(home)); tries++) await sleep(50)
  }
}

/** Stops the servers of a place and its supervisor; does nothing when none runs. */
export async function shutDownSupervisor(home: string): Promise<void> {
  const socket = await reach(home)
  if (socket === null) return
  const { call, lost } = calling(socket, () => undefined)
  await call('shutdown', {}).catch(() => undefined)
  await lost
}

async function isThere(home: string): Promise<boolean> {
  const socket = await reach(home)
  socket?.destroy()
  return socket !== null
}

function reach(home: string): Promise<Socket | null> {
  return new Promise((resolve) => {
    const socket = connect(supervisorSocket(home))
    socket.once('connect', () => resolve(socket)).once('error', () => resolve(null))
  })
}

/** In a session of its own: it outlives the worker. */
function startSupervisor(home: string): void {
  mkdirSync(home, { recursive: true })
  const log = openSync(join(home, 'supervisor.log'), 'a', 0o600)
  try {
    const child = spawn(process.execPath, [join(import.meta.dirname, 'main.ts'), home], {
      detached: true,
      stdio: ['ignore', log, log],
      cwd: home,
      // Nothing of the worker's environment: it holds keys.
      env: { PATH: '/usr/bin:/bin', LC_ALL: 'C' },
    })
    child.once('error', () => undefined)
    child.unref()
  } finally {
    closeSync(log)
  }
}

async function owning(socket: Socket, onEnded: (ended: ServerEnded) => void, signal: AbortSignal): Promise<Supervisor> {
  const supervisor = calling(socket, onEnded)
  const stop = () => socket.destroy()
  signal.addEventListener('abort', stop, { once: true })
  try {
    await supervisor.call('own', {})
    return supervisor
  } finally {
    signal.removeEventListener('abort', stop)
  }
}

function calling(socket: Socket, onEnded: (ended: ServerEnded) => void): Supervisor {
  const open = new Map<number, PromiseWithResolvers<unknown>>()
  const lost = Promise.withResolvers<void>()
  let last = 0
  socket.on('error', () => socket.destroy())
  socket.once('close', () => {
    for (const { reject } of open.values()) reject(lostSupervisor())
    open.clear()
    lost.resolve()
  })
  readLines(socket, (value) => {
    const reply = value as Reply
    if ('event' in reply) return onEnded(reply)
    const call = open.get(reply.id)
    open.delete(reply.id)
    if ('error' in reply) call?.reject(new Error(reply.error))
    else call?.resolve(reply.result)
  })
  return {
    call<Call extends SupervisorCall>(call: Call, params: Params<Call>) {
      if (socket.destroyed) return Promise.reject(lostSupervisor())
      const id = ++last
      const answer = Promise.withResolvers<unknown>()
      open.set(id, answer)
      writeLine(socket, { id, call, params })
      return answer.promise as Promise<Result<Call>>
    },
    lost: lost.promise,
    close: () => socket.destroy(),
  }
}
