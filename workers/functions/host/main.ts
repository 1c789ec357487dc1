import { Socket } from 'node:net'
import { setFlagsFromString } from 'node:v8'
import type { Setup } from './call.ts'
import { type Frame, FrameReader, FrameWriter, fromHost, toHost } from './frames.ts'
import { SlotsFile } from './running-slots.ts'
import { Tenants } from './tenants.ts'

/**
 * An isolate host: a process that runs the code of some functions and is expected to die of it. It has no environment, no files to write,
 * and nothing open but the socket to its supervisor (descriptor 3) and the file that says whose code runs (4).
 */
const socketFd = 3
const slotsFd = 4
const maxFrameBytes = 256 * 1024 * 1024
const readBytes = 256 * 1024
/** While those go on their way, the next calls run. */
const framesAtOnce = 8
const sweepMs = 50

// Isolates that are made from now on have no SharedArrayBuffer.
setFlagsFromString('--enable-sharedarraybuffer-per-context')

// One buffer for all that is read: each of its own would be the collector's work.
const onread = {
  buffer: Buffer.allocUnsafeSlow(readBytes),
  callback: (bytes: number, buffer: Uint8Array) => {
    reader.push((buffer as Buffer).subarray(0, bytes))
    tenants?.runCalls()
    writer.flush()
    return true
  },
}
const socket = new Socket({ fd: socketFd, readable: true, writable: true, onread })
const writer = new FrameWriter(socket, framesAtOnce)
let tenants: Tenants | null = null

/** No code of a user's has run yet. */
function becomeNobody({ uid, gid }: { readonly uid: number; readonly gid: number }): void {
  process.setgroups?.([])
  process.setgid?.(gid)
  process.setuid?.(uid)
}

function start({ head, body }: Frame): void {
  const setup = JSON.parse(head) as Setup
  if (setup.user !== undefined) becomeNobody(setup.user)
  const slots = new SlotsFile(slotsFd)
  const started = new Tenants({ setup, sandbox: body.toString('utf8'), slots }, writer)
  tenants = started
  setInterval(() => started.sweep(performance.now()), sweepMs)
  writer.send(fromHost.ready, 0)
}

const onFrame = (frame: Frame) => {
  if (frame.kind === toHost.setup) start(frame)
  else if (frame.kind === toHost.call) tenants?.call(frame)
  else if (frame.kind === toHost.program) tenants?.program(frame)
  else if (frame.kind === toHost.answer) tenants?.answer(frame)
  else if (frame.kind === toHost.dispose) tenants?.dispose(frame.head)
  else if (frame.kind === toHost.shed) tenants?.shed()
  else if (frame.kind === toHost.ping) writer.send(fromHost.pong, tenants?.size ?? 0)
}
const reader = new FrameReader(maxFrameBytes, onFrame, true)

// Without its supervisor it has no purpose; threads that run hostile code do not let a process exit in peace.
const end = () => process.kill(process.pid, 'SIGKILL')
socket.on('error', end)
socket.on('close', end)
