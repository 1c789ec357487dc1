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

/** Collects the frames of one turn of the event loop and writes them at its end, most often as one piece. */
export class FrameWriter {
  readonly #socket: Socket
  #parts: Buffer[] = []
  #scheduled = false

  constructor(socket: Socket) {
    this.#socket = socket
  }

  send(kind: number, id: number, head = '', body: Uint8Array | string = empty): void {
    const headBytes = Buffer.byteLength(head)
    const bodyBytes = typeof body === 'string' ? Buffer.byteLength(body) : body.length
    const frame = Buffer.allocUnsafe(fixedBytes + headBytes + bodyBytes)
    frame.writeUInt32LE(fixedBytes - 4 + headBytes + bodyBytes, 0)
    frame[4] = kind
    frame.writeUInt32LE(id, 5)
    frame.writeUInt32LE(headBytes, 9)
    frame.write(head, fixedBytes)
    if (typeof body === 'string') frame.write(body, fixedBytes + headBytes)
    else frame.set(body, fixedBytes + headBytes)
    this.#parts.push(frame)
    if (this.#scheduled) return
    this.#scheduled = true
    queueMicrotask(() => this.flush())
  }

  flush(): void {
    this.#scheduled = false
    const parts = this.#parts
    if (parts.length === 0) return
    this.#parts = []
    if (this.#socket.destroyed) return
    this.#socket.write(parts.length === 1 ? parts[0]! : Buffer.concat(parts))
  }
}

/** Cuts a stream of bytes into frames. @throws when a frame is larger than `maxBytes` */
export class FrameReader {
  readonly #onFrame: (frame: Frame) => void
  readonly #maxBytes: number
  #chunks: Buffer[] = []
  #bytes = 0
  #wanted = 4

  constructor(maxBytes: number, onFrame: (frame: Frame) => void) {
    this.#maxBytes = maxBytes
    this.#onFrame = onFrame
  }

  push(chunk: Buffer): void {
    this.#chunks.push(chunk)
    this.#bytes += chunk.length
    if (this.#bytes < this.#wanted) return
    const data = this.#chunks.length === 1 ? chunk : Buffer.concat(this.#chunks)
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
    this.#chunks = rest.length === 0 ? [] : [rest]
    this.#bytes = rest.length
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
