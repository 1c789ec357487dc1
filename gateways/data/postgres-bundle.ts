import type { Parameter } from './statement.ts'

const initialBytes = 64 * 1024
const keptBytes = 1024 * 1024

/** Most parameters one Bind message can carry. */
export const maxParameters = 65_535

/**
 * Writes the messages of one round trip (Close, Parse, Bind, Execute, Sync) behind each other, so that they leave in one
 * socket write. Everything is in text format. Source: PostgreSQL manual, "Message Formats".
 */
export class BundleWriter {
  #bytes = Buffer.allocUnsafe(initialBytes)
  #offset = 0

  parse(name: string, text: string): void {
    const start = this.#open(0x50, name.length + text.length * 3 + 16)
    this.#cString(name)
    this.#cString(text)
    this.#int16(0)
    this.#seal(start)
  }

  closeStatement(name: string): void {
    const start = this.#open(0x43, name.length * 3 + 16)
    this.#bytes[this.#offset++] = 0x53
    this.#cString(name)
    this.#seal(start)
  }

  bind(name: string, parameters: readonly Parameter[]): void {
    const start = this.#open(0x42, name.length * 3 + 32)
    this.#bytes[this.#offset++] = 0
    this.#cString(name)
    this.#int16(0)
    this.#int16(parameters.length)
    for (const parameter of parameters) this.#parameter(parameter)
    this.#reserve(2)
    this.#int16(0)
    this.#seal(start)
  }

  /** Of the unnamed portal, without a row limit. */
  execute(): void {
    const start = this.#open(0x45, 16)
    this.#bytes[this.#offset++] = 0
    this.#int32(0)
    this.#seal(start)
  }

  sync(): void {
    this.#seal(this.#open(0x53, 0))
  }

  /** The bytes written since the last `take`, as a buffer of their own. */
  take(): Buffer {
    const bundle = Buffer.from(this.#bytes.subarray(0, this.#offset))
    this.#offset = 0
    if (this.#bytes.length > keptBytes) this.#bytes = Buffer.allocUnsafe(initialBytes)
    return bundle
  }

  #parameter(parameter: Parameter): void {
    if (parameter === null) {
      this.#reserve(4)
      this.#int32(-1)
      return
    }
    this.#reserve(4 + parameter.length * 3)
    const written = this.#bytes.write(parameter, this.#offset + 4, 'utf8')
    this.#int32(written)
    this.#offset += written
  }

  #open(messageCode: number, bodyBytes: number): number {
    this.#reserve(5 + bodyBytes)
    this.#bytes[this.#offset] = messageCode
    this.#offset += 5
    return this.#offset - 4
  }

  #seal(lengthOffset: number): void {
    this.#bytes.writeInt32BE(this.#offset - lengthOffset, lengthOffset)
  }

  #cString(text: string): void {
    this.#offset += this.#bytes.write(text, this.#offset, 'utf8')
    this.#bytes[this.#offset++] = 0
  }

  #int16(value: number): void {
    this.#offset = this.#bytes.writeUInt16BE(value, this.#offset)
  }

  #int32(value: number): void {
    this.#offset = this.#bytes.writeInt32BE(value, this.#offset)
  }

  #reserve(sizeBytes: number): void {
    if (this.#bytes.length - this.#offset >= sizeBytes) return
    const grown = Buffer.allocUnsafe(this.#bytes.length * 2 + sizeBytes)
    this.#bytes.copy(grown, 0, 0, this.#offset)
    this.#bytes = grown
  }
}
