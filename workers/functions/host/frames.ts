import type { Socket } from 'node:net'

/**
 * What a supervisor and an isolate host say to each other over one socket. A frame is
 * `u32 length of the rest | u8 kind | u32 id | u32 length of head | head (UTF-8) | body`.
 */
export const toHost = { setup: 1, call: 2, program: 3, dispose: 4, answer: 5, ping: 6, shed: 7 } as const
export const fromHost = {
  ready: 1,
  needProgram: 2,
  reply: 3,
  fault: 4,
  operation: 5,
  cancel: 6,
  logs: 7,
  pong: 8,
  strike: 9,
  doomed: 10,
} as const

export interface Frame {
  readonly kind: number
  readonly id: number
  readonly head: string
  readonly body: Buffer
}

const fixedBytes = 13
const empty = Buffer.alloc(0)
const firstRoom = 64 * 1024
/** A larger buffer is given back after its use. */
const mostKept = 1024 * 1024
/** A character of UTF-16 is at most three bytes of UTF-8. */
const bytesPerChar = 3
/** In front of the body of a `call` frame: `f64 time-out in ms from now on | u32 length of start`, then start and the request's body. */
const callBytes = 12

/** Collects the frames of one turn of the event loop and writes them at its end, most often as one piece. */
export class FrameWriter {
  readonly #socket: Socket
  #bytes = Buffer.allocUnsafeSlow(firstRoom)
  #at = 0
  #count = 0
  readonly #most: number
  #scheduled = false

  /** `most` frames are written at once. */
  constructor(socket: Socket, most = Number.POSITIVE_INFINITY) {
    this.#socket = socket
    this.#most = most
  }

  send(kind: number, id: number, head = '', body: Uint8Array | string = empty): void {
    const from = this.#begin(head, typeof body === 'string' ? body.length * bytesPerChar : body.length)
    const headBytes = this.#putText(head)
    if (typeof body === 'string') this.#putText(body)
    else this.#put(body)
    this.#end(from, kind, id, headBytes)
  }

  /** A `call` frame; its head is the key of the program. */
  sendCall(id: number, key: string, timeoutMs: number, start: string | Uint8Array, body: Uint8Array): void {
    const from = this.#begin(key, callBytes + start.length * bytesPerChar + body.length)
    const headBytes = this.#putText(key)
    const callAt = this.#at
    this.#at += callBytes
    if (typeof start === 'string') this.#putText(start)
    else this.#put(start)
    const startBytes = this.#at - callAt - callBytes
    this.#bytes.writeDoubleLE(timeoutMs, callAt)
    this.#bytes.writeUInt32LE(startBytes, callAt + 8)
    this.#put(body)
    this.#end(from, toHost.call, id, headBytes)
  }

  flush(): void {
    this.#scheduled = false
    if (this.#at === 0) return
    const message = this.#bytes.subarray(0, this.#at)
    this.#at = 0
    this.#count = 0
    if (this.#socket.destroyed) return
    this.#socket.write(message)
    // What the system has not taken yet is still to be read from where it lies.
    if (this.#socket.writableLength > 0 || this.#bytes.length > mostKept)
      this.#bytes = Buffer.allocUnsafeSlow(firstRoom)
  }

  #begin(head: string, bodyRoom: number): number {
    const needed = this.#at + fixedBytes + head.length * bytesPerChar + bodyRoom
    if (needed > this.#bytes.length) {
      const larger = Buffer.allocUnsafeSlow(Math.max(needed, this.#bytes.length * 2))
      larger.set(this.#bytes.subarray(0, this.#at))
      this.#bytes = larger
    }
    const from = this.#at
    this.#at += fixedBytes
    return from
  }

  #put(bytes: Uint8Array): void {
    this.#bytes.set(bytes, this.#at)
    this.#at += bytes.length
  }

  #putText(text: string): number {
    const written = this.#bytes.write(text, this.#at)
    this.#at += written
    return written
  }

  #end(from: number, kind: number, id: number, headBytes: number): void {
    this.#bytes.writeUInt32LE(this.#at - from - 4, from)
    this.#bytes[from + 4] = kind
    this.#bytes.writeUInt32LE(id, from + 5)
    this.#bytes.writeUInt32LE(headBytes, from + 9)
    this.#count += 1
    if (this.#count >= this.#most) {
      this.flush()
      return
    }
    if (this.#scheduled) return
    this.#scheduled = true
    queueMicrotask(() => this.flush())
  }
}

/** What a `call` frame carries. */
export function readCallBody(body: Buffer): { timeoutMs: number; start: string; request: Buffer } {
  const requestAt = callBytes + body.readUInt32LE(8)
  const start = body.toString('utf8', callBytes, requestAt)
  return { timeoutMs: body.readDoubleLE(), start, request: body.subarray(requestAt) }
}

/**
 * Cuts a stream of bytes into frames; throws when one is larger than `maxBytes`. `passing`: the bytes are there only until a call of `push`
 * returns, and so is a frame's body.
 */
export class FrameReader {
  readonly #onFrame: (frame: Frame) => void
  readonly #maxBytes: number
  readonly #passing: boolean
  #chunks: Buffer[] = []
  #bytes = 0
  #wanted = 4

  constructor(maxBytes: number, onFrame: (frame: Frame) => void, passing = false) {
    this.#maxBytes = maxBytes
    this.#onFrame = onFrame
    this.#passing = passing
  }

  push(chunk: Buffer): void {
    this.#bytes += chunk.length
    if (this.#bytes < this.#wanted) {
      this.#chunks.push(this.#kept(chunk))
      return
    }
    const data = this.#chunks.length === 0 ? chunk : Buffer.concat([...this.#chunks, chunk])
    let at = 0
    this.#wanted = 4
    while (data.length - at >= 4) {
      const length = data.readUInt32LE(at)
      if (length > this.#maxBytes || length < fixedBytes - 4) throw new Error(`A frame of ${length} bytes`)
      if (data.length - at < length + 4) {
        this.#wanted = length + 4
        break
      }
      this.#onFrame(parse(data, at, length + 4))
      at += length + 4
    }
    const rest = data.subarray(at)
    this.#chunks = rest.length === 0 ? [] : [this.#kept(rest)]
    this.#bytes = rest.length
  }

  #kept(bytes: Buffer): Buffer {
    return this.#passing ? Buffer.from(bytes) : bytes
  }
}

function parse(data: Buffer, at: number, bytes: number): Frame {
  const headEnd = at + fixedBytes + data.readUInt32LE(at + 9)
  if (headEnd > at + bytes) throw new Error('A frame whose head is longer than itself')
  return {
    kind: data[at + 4]!,
    id: data.readUInt32LE(at + 5),
    head: data.toString('utf8', at + fixedBytes, headEnd),
    body: data.subarray(headEnd, at + bytes),
  }
}
