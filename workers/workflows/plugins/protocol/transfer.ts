import { TaskFailure, type TaskRun } from '../../plugin.ts'
import type { ServerPlace } from '../server-properties.ts'
import type { TransferInput } from './transfer-properties.ts'

/** A connection to a server that holds files, whatever it speaks. Paths are as the server has them. */
export interface FileServer {
  list(path: string): Promise<readonly FileEntry[]>
  /** @throws {TaskFailure} `refused` when it is larger than `maxBytes` */
  get(path: string, maxBytes: number): Promise<Buffer>
  put(path: string, bytes: Buffer): Promise<void>
  delete(path: string): Promise<void>
  rename(from: string, to: string): Promise<void>
  makeFolder(path: string): Promise<void>
  deleteFolder(path: string): Promise<void>
  /** All files as a `.tar.gz`; of servers that keep versions. @throws {TaskFailure} `refused` when they are more than `maxBytes` */
  clone?(maxBytes: number): Promise<Buffer>
  /** Puts and deletes (null) files as one version. */
  commit?(files: ReadonlyMap<string, Uint8Array | null>): Promise<void>
  /** The version that was read or made. */
  version?(): string | null
  /** Runs a command; of servers one can log in to. */
  command?(text: string, maxBytes: number): Promise<CommandResult>
  /** Lets go of every connection; never throws. */
  close(): void | Promise<void>
}

export interface FileEntry {
  readonly name: string
  readonly kind: 'file' | 'folder' | 'link' | 'other'
  readonly sizeBytes: number | null
  /** RFC 3339; null where the server does not say. */
  readonly modifiedAt: string | null
}

export interface CommandResult {
  /** Null when a signal ended it. */
  readonly exitCode: number | null
  readonly stdout: string
  readonly stderr: string
}

export interface TransferRun {
  readonly given: TaskRun<TransferInput>
  readonly place: ServerPlace
}

/** Chunks put together within a bound. */
export class BoundedBytes {
  readonly #chunks: Buffer[] = []
  readonly #maxBytes: number
  #sizeBytes = 0

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes
  }

  /** @throws {TaskFailure} `refused` for what is too much */
  add(chunk: Uint8Array): void {
    this.#sizeBytes += chunk.length
    if (this.#sizeBytes > this.#maxBytes)
      throw new TaskFailure('refused', `What the server sends is larger than ${this.#maxBytes} bytes`)
    this.#chunks.push(Buffer.from(chunk))
  }

  get bytes(): Buffer {
    return Buffer.concat(this.#chunks)
  }
}

/** Beside the file: it takes its place once it is whole. */
export function partOf(path: string, idempotencyKey: string): string {
  const key = Buffer.from(idempotencyKey).toString('hex').slice(-16)
  return `${path}.${key}.part`
}
