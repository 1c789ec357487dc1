import type { FileHandle } from 'node:fs/promises'
import type { Client, Connection, Submittable } from 'pg'

/** Writes what a `COPY ... TO STDOUT` sends to a file, row by row as it comes; the server waits for a slow disk. */
export function copyOut(client: Client, sql: string, file: FileHandle): Promise<void> {
  const reader = new CopyReader(sql, file)
  client.query(reader)
  return reader.done
}

const enoughBytes = 4 * 1024 * 1024

class CopyReader implements Submittable {
  readonly done: Promise<void>
  readonly #settled = Promise.withResolvers<void>()
  readonly #sql: string
  readonly #file: FileHandle
  #connection: Connection | undefined
  #work: Promise<unknown> = Promise.resolve()
  #waiting: Buffer[] = []
  #pending = 0
  #failure: unknown

  constructor(sql: string, file: FileHandle) {
    this.#sql = sql
    this.#file = file
    this.done = this.#settled.promise
  }

  submit(connection: Connection): undefined {
    this.#connection = connection
    connection.query(this.#sql)
    return undefined
  }

  handleRowDescription(): void {}
  handleDataRow(): void {}
  handleEmptyQuery(): void {}
  handleCommandComplete(): void {}
  handlePortalSuspended(): void {}

  handleCopyData({ chunk }: { chunk: Buffer }): void {
    // The parser reuses its buffer.
    this.#waiting.push(Buffer.from(chunk))
    this.#pending += chunk.length
    if (this.#pending < enoughBytes) return
    this.#connection?.stream.pause()
    this.#flush()
  }

  handleError(error: Error): void {
    this.#failure ??= error
    void this.#work.then(() => this.#settled.reject(this.#failure))
  }

  handleReadyForQuery(): void {
    this.#flush()
    void this.#work.then(() =>
      this.#failure === undefined ? this.#settled.resolve() : this.#settled.reject(this.#failure),
    )
  }

  #flush(): void {
    const bytes = Buffer.concat(this.#waiting)
    this.#waiting = []
    this.#pending = 0
    this.#work = this.#work
      .then(() => this.#file.write(bytes))
      .catch((error: unknown) => {
        this.#failure ??= error
      })
      .finally(() => this.#connection?.stream.resume())
  }
}
