import { type ChildProcess, spawn } from 'node:child_process'
import { randomUUID } from 'node:crypto'
import { closeSync, existsSync, ftruncateSync, openSync, readFileSync, readSync, unlinkSync } from 'node:fs'
import { createRequire } from 'node:module'
import type { Socket } from 'node:net'
import { constants, setPriority, tmpdir } from 'node:os'
import { dirname, join, resolve, sep } from 'node:path'
import type { Setup } from './host/call.ts'
import { type Frame, FrameReader, FrameWriter, fromHost, toHost } from './host/frames.ts'
import { ownSlot, slotCount, tenantSlot } from './host/running-slots.ts'

export interface HostProcessOptions {
  readonly setup: Setup
  /** The script that makes the sandbox. */
  readonly sandbox: string
  /** Others come first. */
  readonly background: boolean
  readonly onFrame: (host: HostProcess, frame: Frame) => void
  readonly onExit: (host: HostProcess, exit: HostExit) => void
}

export interface HostExit {
  /** Why the supervisor ended it; null when it ended by itself or by another's hand. */
  readonly killed: KillReason | null
  readonly signal: NodeJS.Signals | null
  readonly code: number | null
  /** The calls whose code ran in the end. */
  readonly running: readonly number[]
  /** That of them which held the process's own thread; 0 when none did. */
  readonly holder: number
  /** Key of the isolate that the process's own thread has worked for last; null when it has for none. */
  readonly lastKey: string | null
  /** The end of what it wrote to standard error. */
  readonly lastWords: string
}

export type KillReason = 'unresponsive' | 'memory' | 'doomed' | 'relieved' | 'stopped'

/** Frames of a compromised host must not take this process's memory. */
const maxFrameBytes = 64 * 1024 * 1024
const maxUnanswered = 4
/** It does nothing else yet, and the machine may be busy. */
const maxUnansweredAtStart = 60
const lastWordsChars = 2_000
/** Of isolates; the oldest are forgotten. */
const maxKeys = 10_000

/** One isolate host as its supervisor sees it. */
export class HostProcess {
  readonly ready: Promise<void>
  /** The process has ended. */
  readonly gone: Promise<void>
  readonly #child: ChildProcess
  readonly #socket: Socket
  readonly #writer: FrameWriter
  readonly #slots: number
  readonly #options: HostProcessOptions
  readonly #tellGone: () => void
  #isReady = false
  #unanswered = 0
  #killed: KillReason | null = null
  #ended = false
  #isolates = 0
  #lastWords = ''
  /** What runs in the isolates that it has opened, by their number. */
  readonly #keys = new Map<number, string>()

  constructor(options: HostProcessOptions) {
    this.#options = options
    this.#slots = openSlots()
    this.#child = spawnHost(this.#slots)
    this.#socket = this.#child.stdio[3] as Socket
    this.#writer = new FrameWriter(this.#socket)
    const { promise, resolve: tellReady, reject } = Promise.withResolvers<void>()
    this.ready = promise
    promise.catch(() => undefined)
    const ending = Promise.withResolvers<void>()
    this.gone = ending.promise
    this.#tellGone = ending.resolve
    const reader = new FrameReader(maxFrameBytes, (frame) => {
      if (frame.kind === fromHost.ready) tellReady()
      else if (frame.kind === fromHost.pong) this.#pong(frame.id)
      else {
        if (frame.kind === fromHost.needProgram) this.#opened(frame.id, frame.head)
        options.onFrame(this, frame)
      }
    })
    this.#socket.on('data', (chunk: Buffer) => this.#read(reader, chunk))
    // Its exit says why; without its socket it is of no use.
    this.#socket.on('error', () => undefined)
    this.#socket.on('close', () => this.#child.kill('SIGKILL'))
    this.#child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      this.#lastWords = (this.#lastWords + text).slice(-lastWordsChars)
    })
    this.#child.once('error', reject)
    // Behind the last of what it said.
    this.#child.once('close', (code, signal) => {
      reject(new Error(`An isolate host ended before it was ready (${signal ?? code}): ${this.#lastWords}`))
      this.#exit(code, signal)
    })
    this.send(toHost.setup, 0, JSON.stringify(options.setup), options.sandbox)
    if (options.background && this.#child.pid !== undefined) lowerPriority(this.#child.pid)
  }

  get pid(): number {
    return this.#child.pid ?? 0
  }

  get ended(): boolean {
    return this.#ended || this.#killed !== null
  }

  get isolates(): number {
    return this.#isolates
  }

  send(kind: number, id: number, head?: string, body?: Uint8Array | string): void {
    if (!this.#ended) this.#writer.send(kind, id, head, body)
  }

  sendCall(id: number, key: string, timeoutMs: number, start: string | Uint8Array, body: Uint8Array): void {
    if (!this.#ended) this.#writer.sendCall(id, key, timeoutMs, start, body)
  }

  kill(reason: KillReason): void {
    if (this.ended) return
    this.#killed = reason
    this.#child.kill('SIGKILL')
  }

  /** Asks for a sign of life; ends the process when it has owed four of them. */
  ping(): void {
    if (this.ended) return
    if (this.#unanswered >= (this.#isReady ? maxUnanswered : maxUnansweredAtStart)) {
      this.kill('unresponsive')
      return
    }
    this.#unanswered += 1
    this.send(toHost.ping, 0)
  }

  /** Resident memory; 0 where it cannot be told. */
  memoryMb(): number {
    try {
      const pages = Number(readFileSync(`/proc/${this.pid}/statm`, 'latin1').split(' ')[1])
      return (pages * pageBytes) / 1024 ** 2
    } catch {
      return 0
    }
  }

  #read(reader: FrameReader, chunk: Buffer): void {
    try {
      reader.push(chunk)
    } catch {
      // It says what no host of ours says.
      this.kill('unresponsive')
    }
  }

  #opened(tenant: number, key: string): void {
    this.#keys.set(tenant, key)
    if (this.#keys.size > maxKeys) this.#keys.delete(this.#keys.keys().next().value!)
  }

  #pong(isolates: number): void {
    this.#isReady = true
    this.#unanswered = 0
    this.#isolates = isolates
  }

  #exit(code: number | null, signal: NodeJS.Signals | null): void {
    if (this.#ended) return
    this.#ended = true
    const bytes = Buffer.alloc(slotCount * 4)
    readSync(this.#slots, bytes, 0, bytes.length, 0)
    closeSync(this.#slots)
    const ids = Array.from({ length: slotCount }, (_, slot) => bytes.readUInt32LE(slot * 4))
    this.#socket.destroy()
    const running = ids.filter((id, slot) => id !== 0 && slot !== tenantSlot)
    const lastKey = this.#keys.get(ids[tenantSlot] ?? 0) ?? null
    const lastWords = this.#lastWords
    this.#tellGone()
    this.#options.onExit(this, {
      killed: this.#killed,
      signal,
      code,
      running,
      holder: ids[ownSlot] ?? 0,
      lastKey,
      lastWords,
    })
  }
}

/** Linux on the machines that Node 24 runs on; elsewhere there is no /proc. */
const pageBytes = 4096

/** A file without a name that both processes hold. */
function openSlots(): number {
  const path = join(tmpdir(), `busbar-host-${randomUUID()}`)
  const fd = openSync(path, 'wx+', 0o600)
  unlinkSync(path)
  ftruncateSync(fd, slotCount * 4)
  return fd
}

const here = import.meta.dirname
const setpriv = '/usr/bin/setpriv'
/**
 * Sets limits that the system knows, then becomes the program: no core files, no file larger (in blocks of 512 bytes) than that of the
 * slots. Whatever has been put into the environment on the way (by an agent that wraps what is spawned) is dropped. Memory is watched instead: V8 sets aside half a gigabyte of address space an isolate, which every such limit counts.
 */
const limiting = `ulimit -c 0 2>/dev/null; ulimit -f ${(slotCount * 4) / 512} 2>/dev/null; ulimit -n 64 2>/dev/null; exec /usr/bin/env -i "$@"`

function spawnHost(slots: number): ChildProcess {
  const tied = process.platform === 'linux' && existsSync(setpriv)
  const tie = tied ? [setpriv, '--pdeathsig', 'KILL', '--no-new-privs', '--'] : []
  const command = [...tie, process.execPath, ...nodeFlags(), join(here, 'host/main.ts')]
  return spawn('/bin/sh', ['-c', limiting, 'sh', ...command], {
    cwd: '/',
    env: {},
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe', 'pipe', slots],
  })
}

/** What a host may read: its own program and packages, and nothing else of the checkout, where settings and secrets may lie. */
export function hostReadable(): readonly string[] {
  const root = resolve(here, '../..')
  const addon = createRequire(import.meta.url).resolve('isolated-vm/package.json')
  // Packages may be links to another place.
  const packages = new Set([join(root, 'node_modules'), dirname(dirname(addon))])
  const folders = [...packages, join(here, 'host'), join(here, 'sandbox')]
  return [
    ...folders.map((folder) => `${folder}${sep}*`),
    // Says that its files are modules.
    join(root, 'package.json'),
    // The addon's loader looks whether it is there.
    '/etc/alpine-release',
  ]
}

function nodeFlags(): string[] {
  return [
    '--no-node-snapshot',
    '--permission',
    '--allow-addons',
    ...hostReadable().map((path) => `--allow-fs-read=${path}`),
    '--disable-warning=SecurityWarning',
    '--disable-warning=ExperimentalWarning',
  ]
}

function lowerPriority(pid: number): void {
  try {
    setPriority(pid, constants.priority.PRIORITY_LOW)
  } catch {
    // It may have ended.
  }
}
