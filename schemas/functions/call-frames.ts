/**
 * How calls and their answers travel between gateways and workers: many in a message, because what a message costs (a system call on each
 * side, the server's bookkeeping) is more than what a call costs. Bodies and heads pass as the bytes they are; a worker reads of a call no
 * more than it needs. Numbers are little-endian.
 *
 * A message on `call.<gateway>.<slot>` (CALLS) is `u32 batch` and frames of calls. A message on `answers.<gateway>` (core NATS) is one byte
 * that says what it has: 0 for frames of answers, 1 for the `u32` ids of calls that a worker holds.
 *
 * Frame of a call: `u32 bytes of the rest | u32 id | f64 deadline | u16 bytes of target | u32 bytes of start | target | start | body`.
 * Frame of an answer: `u32 bytes of the rest | u32 id | u32 bytes of head | head | body`.
 */

/** A call as it comes to a worker. */
export interface CallFrame {
  /** Of its gateway's own counting. */
  readonly id: number
  /** Epoch ms: nobody waits for the answer any more. */
  readonly deadlineAt: number
  /** A `CallTarget` as JSON: the same text for all calls of one revision. */
  readonly target: string
  /** What the handler is told of the request: a `CallStart` as JSON. */
  readonly start: Uint8Array
  readonly body: Uint8Array
}

export interface AnswerFrame {
  readonly id: number
  /** A `CallReply` as JSON; empty for status 200 and JSON. */
  readonly head: string
  readonly body: Uint8Array
}

const callBytes = 22
const answerBytes = 12
const batchBytes = 4
const firstRoom = 64 * 1024
const answerMark = 0
const noteMark = 1
/** A character of UTF-16 is at most three bytes of UTF-8. */
const bytesPerChar = 3

/** Kept for the next writer: large buffers are what the collector of a process that does little else has most to do with. */
const spare: Buffer[] = []
const maxSpare = 8
const maxSpareBytes = 512 * 1024

/** Bytes that grow. */
abstract class FrameWriter {
  protected bytes: Buffer = spare.pop() ?? Buffer.allocUnsafeSlow(firstRoom)
  protected at: number
  #count = 0

  constructor(at: number) {
    this.at = at
  }

  get count(): number {
    return this.#count
  }

  get size(): number {
    return this.at
  }

  /** The message; the writer is of no use any more. */
  end(): Uint8Array {
    const message = Buffer.from(this.bytes.subarray(0, this.at))
    if (spare.length < maxSpare && this.bytes.length <= maxSpareBytes) spare.push(this.bytes)
    return message
  }

  protected begin(room: number): void {
    this.#count += 1
    if (this.at + room <= this.bytes.length) return
    const larger = Buffer.allocUnsafeSlow(Math.max(this.at + room, this.bytes.length * 2))
    larger.set(this.bytes.subarray(0, this.at))
    this.bytes = larger
  }

  protected put(bytes: Uint8Array): void {
    this.bytes.set(bytes, this.at)
    this.at += bytes.length
  }

  /** Answers how many bytes it took. */
  protected putText(text: string): number {
    const written = this.bytes.write(text, this.at)
    this.at += written
    return written
  }
}

/** Makes one message of calls. */
export class CallWriter extends FrameWriter {
  constructor(batch: number) {
    super(batchBytes)
    this.bytes.writeUInt32LE(batch)
  }

  add(id: number, deadlineAt: number, target: string, start: string, body: Uint8Array): void {
    this.begin(callBytes + bytesPerChar * (target.length + start.length) + body.length)
    const from = this.at
    this.at += callBytes
    const targetBytes = this.putText(target)
    const startBytes = this.putText(start)
    this.put(body)
    const { bytes } = this
    bytes.writeUInt32LE(this.at - from - 4, from)
    bytes.writeUInt32LE(id, from + 4)
    bytes.writeDoubleLE(deadlineAt, from + 8)
    bytes.writeUInt16LE(targetBytes, from + 16)
    bytes.writeUInt32LE(startBytes, from + 18)
  }
}

/** Makes one message of answers. */
export class AnswerWriter extends FrameWriter {
  constructor() {
    super(1)
    this.bytes[0] = answerMark
  }

  add(id: number, head: string, body: Uint8Array): void {
    this.begin(answerBytes + bytesPerChar * head.length + body.length)
    const from = this.at
    this.at += answerBytes
    const headBytes = this.putText(head)
    this.put(body)
    const { bytes } = this
    bytes.writeUInt32LE(this.at - from - 4, from)
    bytes.writeUInt32LE(id, from + 4)
    bytes.writeUInt32LE(headBytes, from + 8)
  }
}

/** A message that says which calls a worker holds. */
export function noteMessage(ids: readonly number[]): Uint8Array {
  const bytes = Buffer.alloc(1 + 4 * ids.length)
  bytes[0] = noteMark
  for (const [index, id] of ids.entries()) bytes.writeUInt32LE(id, 1 + 4 * index)
  return bytes
}

/** The number of a message's batch; null for what is no message of calls. */
export function batchOf(message: Uint8Array): number | null {
  return message.length < batchBytes ? null : bufferOf(message).readUInt32LE()
}

/** @throws {RangeError} for what is no message of calls */
export function readCalls(message: Uint8Array): readonly CallFrame[] {
  const bytes = bufferOf(message)
  const calls: CallFrame[] = []
  for (let at = batchBytes; at < bytes.length; ) {
    const end = at + 4 + bytes.readUInt32LE(at)
    const targetAt = at + callBytes
    const startAt = targetAt + bytes.readUInt16LE(at + 16)
    const bodyAt = startAt + bytes.readUInt32LE(at + 18)
    refuseCut(bodyAt, end, bytes.length)
    calls.push({
      id: bytes.readUInt32LE(at + 4),
      deadlineAt: bytes.readDoubleLE(at + 8),
      target: bytes.toString('utf8', targetAt, startAt),
      start: bytes.subarray(startAt, bodyAt),
      body: bytes.subarray(bodyAt, end),
    })
    at = end
  }
  return calls
}

/** Hands out what a message on `answers.<gateway>` has. @throws {RangeError} for what is none */
export function readAnswers(
  message: Uint8Array,
  { onAnswer, onNote }: { onAnswer: (answer: AnswerFrame) => void; onNote: (id: number) => void },
): void {
  const bytes = bufferOf(message)
  if (bytes[0] === noteMark) {
    for (let at = 1; at < bytes.length; at += 4) onNote(bytes.readUInt32LE(at))
    return
  }
  for (let at = 1; at < bytes.length; ) {
    const end = at + 4 + bytes.readUInt32LE(at)
    const headAt = at + answerBytes
    const bodyAt = headAt + bytes.readUInt32LE(at + 8)
    refuseCut(bodyAt, end, bytes.length)
    const head = bodyAt === headAt ? '' : bytes.toString('utf8', headAt, bodyAt)
    onAnswer({ id: bytes.readUInt32LE(at + 4), head, body: bytes.subarray(bodyAt, end) })
    at = end
  }
}

function refuseCut(bodyAt: number, end: number, bytes: number): void {
  if (bodyAt > end || end > bytes) throw new RangeError('A frame that is longer than its message')
}

function bufferOf(bytes: Uint8Array): Buffer {
  return Buffer.isBuffer(bytes) ? bytes : Buffer.from(bytes.buffer, bytes.byteOffset, bytes.byteLength)
}
