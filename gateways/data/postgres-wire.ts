import pg from 'pg'
import type { BackendMessage, DatabaseError } from 'pg-protocol/dist/messages.js'
import { Parser } from 'pg-protocol/dist/parser.js'
import type { RawRow } from './statement.ts'

/** What one connection's answers are told to, in the server's order. Nothing here may throw. */
export interface WireReceiver {
  /** Asked as soon as a row's size is known; when it says no, the row's bytes are dropped without being kept. */
  acceptsRow(sizeBytes: number): boolean
  onRow(row: RawRow): void
  onParsed(): void
  onComplete(rowCount: number): void
  onError(error: DatabaseError): void
  /** `transactionStatus` is the protocol's letter: I idle, T in a transaction, E in a failed one. */
  onReady(transactionStatus: string): void
}

const code = {
  parseComplete: 0x31,
  bindComplete: 0x32,
  closeComplete: 0x33,
  commandComplete: 0x43,
  dataRow: 0x44,
  error: 0x45,
  emptyQuery: 0x49,
  ready: 0x5a,
} as const

const headerBytes = 5

/**
 * pg's own connection, except that once `takeOver` is called the answers of statements go to a receiver as raw bytes:
 * no strings, no row objects, no events. Start-up, TLS and authentication stay pg's; rare messages stay pg-protocol's.
 */
export class WireConnection extends pg.Connection {
  #receiver: WireReceiver | null = null
  readonly #parser = new Parser()
  /** The pieces of a message that has not arrived whole, and how many bytes it (or first its header) needs. */
  #held: Buffer[] = []
  #heldBytes = 0
  #wantedBytes = 0
  #dropBytes = 0

  takeOver(receiver: WireReceiver): void {
    this.#receiver = receiver
  }

  /** Called by pg when the socket, or the TLS stream over it, is there. */
  attachListeners(stream: NodeJS.ReadableStream): void {
    stream.on('data', (chunk: Buffer) => this.#receive(chunk))
  }

  #receive(chunk: Buffer): void {
    let offset = Math.min(this.#dropBytes, chunk.length)
    this.#dropBytes -= offset
    if (this.#heldBytes > 0) offset = this.#completeHeld(chunk, offset)
    while (offset < chunk.length) {
      if (chunk.length - offset < headerBytes) {
        this.#hold(chunk, offset, headerBytes)
        return
      }
      const end = offset + 1 + chunk.readUInt32BE(offset + 1)
      if (this.#refusesRow(chunk[offset]!, end - offset)) {
        this.#dropBytes = Math.max(0, end - chunk.length)
      } else if (end > chunk.length) {
        this.#hold(chunk, offset, end - offset)
        return
      } else {
        this.#deliver(chunk, offset, end)
      }
      offset = end
    }
  }

  #refusesRow(messageCode: number, sizeBytes: number): boolean {
    return messageCode === code.dataRow && this.#receiver !== null && !this.#receiver.acceptsRow(sizeBytes)
  }

  #hold(chunk: Buffer, offset: number, wantedBytes: number): void {
    const piece = chunk.subarray(offset)
    this.#held = [piece]
    this.#heldBytes = piece.length
    this.#wantedBytes = wantedBytes
  }

  /** Joins a message cut by chunk borders, copying only its own bytes; returns where the chunk goes on. */
  #completeHeld(chunk: Buffer, from: number): number {
    let offset = from
    while (offset < chunk.length) {
      const piece = chunk.subarray(offset, offset + this.#wantedBytes - this.#heldBytes)
      this.#held.push(piece)
      this.#heldBytes += piece.length
      offset += piece.length
      if (this.#heldBytes < this.#wantedBytes) return offset
      const message = Buffer.concat(this.#held, this.#heldBytes)
      const sizeBytes = 1 + message.readUInt32BE(1)
      if (this.#wantedBytes === headerBytes && sizeBytes > headerBytes) {
        if (this.#refusesRow(message[0]!, sizeBytes)) {
          this.#release()
          const dropped = Math.min(sizeBytes - headerBytes, chunk.length - offset)
          this.#dropBytes = sizeBytes - headerBytes - dropped
          return offset + dropped
        }
        this.#held = [message]
        this.#wantedBytes = sizeBytes
        continue
      }
      this.#release()
      this.#deliver(message, 0, sizeBytes)
      return offset
    }
    return offset
  }

  #release(): void {
    this.#held = []
    this.#heldBytes = 0
  }

  #deliver(bytes: Buffer, start: number, end: number): void {
    const receiver = this.#receiver
    if (receiver === null) {
      this.#parser.parse(bytes.subarray(start, end), (message) => this.#emitAsPg(message))
      return
    }
    switch (bytes[start]) {
      case code.dataRow:
        receiver.onRow(readRow(bytes, start + headerBytes))
        return
      case code.bindComplete:
      case code.closeComplete:
        return
      case code.commandComplete:
        receiver.onComplete(readRowCount(bytes, start + headerBytes, end - 1))
        return
      case code.emptyQuery:
        receiver.onComplete(0)
        return
      case code.ready:
        receiver.onReady(String.fromCharCode(bytes[start + headerBytes]!))
        return
      case code.parseComplete:
        receiver.onParsed()
        return
      case code.error:
        this.#parser.parse(bytes.subarray(start, end), (message) => receiver.onError(message as DatabaseError))
        return
      default:
        this.#parser.parse(bytes.subarray(start, end), (message) => this.#emitAsPg(message))
    }
  }

  #emitAsPg(message: BackendMessage): void {
    this.emit(message.name === 'error' ? 'errorMessage' : message.name, message)
  }
}

/** Views into the received bytes: they live as long as somebody holds them, and hold their chunk (64 KiB at most, or the message). */
function readRow(bytes: Buffer, start: number): RawRow {
  const count = bytes.readInt16BE(start)
  const row: (Buffer | null)[] = []
  let offset = start + 2
  for (let index = 0; index < count; index++) {
    const length = bytes.readInt32BE(offset)
    offset += 4
    if (length < 0) {
      row.push(null)
    } else {
      row.push(bytes.subarray(offset, offset + length))
      offset += length
    }
  }
  return row
}

/** The number that ends a command tag (`INSERT 0 3`, `SELECT 12`), 0 when there is none. */
function readRowCount(bytes: Buffer, start: number, end: number): number {
  let count = 0
  let scale = 1
  for (let index = end - 1; index >= start; index--) {
    const digit = bytes[index]! - 0x30
    if (digit < 0 || digit > 9) break
    count += digit * scale
    scale *= 10
  }
  return count
}
