import { once } from 'node:events'
import { createWriteStream } from 'node:fs'
import { join } from 'node:path'
import { finished } from 'node:stream/promises'
import type { Client, Connection, Submittable } from 'pg'
import { CareFailure } from '../care-failure.ts'
import { type ByteTarget, untar } from './untar.ts'

export interface StreamedBackup {
  /** Log position the backup begins at, and the timeline. */
  readonly beginLsn: string
  readonly timeline: number
  /** Log position at which the copy is consistent. */
  readonly endLsn: string
}

export interface StreamOptions {
  readonly label: string
  /** Existing, empty folder. */
  readonly into: string
  readonly signal?: AbortSignal | undefined
  /** Called with the bytes received so far. */
  readonly onProgress?: ((bytes: number) => void) | undefined
}

/**
 * Copies a running server's data folder through the replication protocol, with the server's own manifest (SHA-256 of every
 * file) and the write-ahead log that makes the copy consistent: it can be started without any archive. Needs no client tool.
 *
 * The session must be a walsender (`replication: true`). PostgreSQL 15 or newer.
 *
 * Source: https://www.postgresql.org/docs/current/protocol-replication.html (BASE_BACKUP)
 */
export async function streamBaseBackup(client: Client, options: StreamOptions): Promise<StreamedBackup> {
  // A temporary slot, gone with the session, keeps the log of the copy from being recycled before it is sent.
  await client.query(
    `CREATE_REPLICATION_SLOT "busbar_backup_${process.pid}_${Date.now()}" TEMPORARY PHYSICAL RESERVE_WAL`,
  )
  const label = options.label.replaceAll("'", "''")
  const command = `BASE_BACKUP (LABEL '${label}', CHECKPOINT 'fast', WAL true, WAIT false, MANIFEST 'yes', MANIFEST_CHECKSUMS 'SHA256')`
  const reader = new BackupReader(command, options)
  client.query(reader)
  return reader.result
}

/** Takes the answer of BASE_BACKUP from the connection: three result sets around one copy stream of typed messages. */
class BackupReader implements Submittable {
  readonly result: Promise<StreamedBackup>
  readonly #command: string
  readonly #options: StreamOptions
  readonly #settled = Promise.withResolvers<StreamedBackup>()
  readonly #rows: string[][] = []
  #connection: Connection | undefined
  #target: ByteTarget | undefined
  #work: Promise<void> = Promise.resolve()
  #pending = 0
  #bytes = 0
  #failure: unknown
  readonly #abort = () => this.#fail(this.#options.signal?.reason)

  constructor(command: string, options: StreamOptions) {
    this.#command = command
    this.#options = options
    this.result = this.#settled.promise
  }

  submit(connection: Connection): undefined {
    this.#connection = connection
    this.#options.signal?.addEventListener('abort', this.#abort, { once: true })
    connection.query(this.#command)
    return undefined
  }

  handleRowDescription(): void {}
  handleEmptyQuery(): void {}
  handleCommandComplete(): void {}
  handlePortalSuspended(): void {}

  handleDataRow({ fields }: { fields: (string | Buffer | null)[] }): void {
    this.#rows.push(fields.map(String))
  }

  handleCopyData({ chunk }: { chunk: Buffer }): void {
    if (this.#failure !== undefined) return
    // The parser reuses its buffer.
    const message = Buffer.from(chunk)
    this.#bytes += message.length
    this.#pending += message.length
    if (this.#pending > 8 * 1024 * 1024) this.#connection?.stream.pause()
    this.#work = this.#work.then(async () => {
      if (this.#failure === undefined) await this.#take(message)
      this.#pending -= message.length
      this.#connection?.stream.resume()
      this.#options.onProgress?.(this.#bytes)
    })
    this.#work = this.#work.catch((error: unknown) => this.#fail(error))
  }

  handleError(error: Error): void {
    this.#fail(error)
  }

  handleReadyForQuery(): void {
    this.#work.then(async () => {
      await this.#target?.end()
      this.#finish()
    }).catch((error: unknown) => this.#fail(error)) // biome-ignore format: one chain
  }

  async #take(message: Buffer): Promise<void> {
    const body = message.subarray(1)
    switch (String.fromCharCode(message[0] ?? 0)) {
      case 'n': {
        await this.#target?.end()
        const [, tablespace = ''] = body.toString('utf8').split('\0')
        if (tablespace !== '') throw new CareFailure('refused', 'An instance with tablespaces of its own cannot be backed up.', { status: 422 }) // biome-ignore format: one sentence
        this.#target = untar(this.#options.into)
        return
      }
      case 'm':
        await this.#target?.end()
        this.#target = file(join(this.#options.into, 'backup_manifest'))
        return
      case 'd':
        await this.#target?.write(body)
        return
      default:
        return
    }
  }

  #finish(): void {
    if (this.#failure !== undefined) return
    this.#options.signal?.removeEventListener('abort', this.#abort)
    const begin = this.#rows[0]
    const end = this.#rows.at(-1)
    if (begin === undefined || end === undefined || this.#target === undefined) {
      this.#fail(new CareFailure('failed', 'The server ended the backup early.'))
    } else this.#settled.resolve({ beginLsn: begin[0]!, timeline: Number(begin[1]), endLsn: end[0]! })
  }

  #fail(error: unknown): void {
    if (this.#failure !== undefined) return
    this.#failure = error ?? new CareFailure('failed', 'The backup was interrupted.')
    this.#options.signal?.removeEventListener('abort', this.#abort)
    // Nothing more of this stream is wanted: the server notices the closed connection at its next write.
    this.#connection?.stream.destroy()
    // Only when the last write is done may the caller remove what was written.
    const rest = this.#work.then(() => this.#target?.drop()).catch(() => undefined)
    void rest.then(() => this.#settled.reject(this.#failure))
  }
}

function file(path: string): ByteTarget {
  const stream = createWriteStream(path, { flags: 'wx', mode: 0o600 })
  stream.on('error', () => undefined)
  return {
    async write(bytes) {
      if (!stream.write(bytes)) await once(stream, 'drain')
    },
    async end() {
      if (stream.writableEnded) return
      stream.end()
      await finished(stream)
    },
    async drop() {
      stream.destroy()
    },
  }
}
