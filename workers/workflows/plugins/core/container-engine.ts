import { connect, type Socket } from 'node:net'
import { TaskFailure } from '../../plugin.ts'
import { askOver, type SocketAnswer, type SocketRequest } from './http-over.ts'

interface AskOptions extends Omit<SocketRequest, 'method' | 'path' | 'headers'> {
  readonly json?: unknown
  readonly maxBytes?: number
  /** Answers that are none of its failures. */
  readonly expected?: readonly number[]
}

/** Docker's engine, or what speaks its API, on its socket. Source: https://docs.docker.com/reference/api/engine/version/v1.41 */
export class ContainerEngine {
  readonly #path: string
  readonly #signal: AbortSignal

  constructor(path: string, signal: AbortSignal) {
    this.#path = path
    this.#signal = signal
  }

  /** @throws {TaskFailure} `refused` when there is no engine, and for its no; `unavailable` for its faults */
  async ask(
    method: string,
    path: string,
    { json, expected = [], maxBytes, ...rest }: AskOptions = {},
  ): Promise<SocketAnswer> {
    const socket = await this.#connect()
    const body = json === undefined ? rest.body : JSON.stringify(json)
    const type = json === undefined ? 'application/x-tar' : 'application/json'
    const answer = await askOver(
      socket,
      {
        ...rest,
        method,
        path: `/v1.41${path}`,
        ...(body !== undefined && { body, headers: { 'content-type': type } }),
      },
      { signal: this.#signal, ...(maxBytes !== undefined && { maxBytes }) },
    )
    const { status } = answer
    if ((status >= 200 && status < 300) || expected.includes(status)) return answer
    const told = messageIn(answer.body)
    const kind = status >= 500 ? 'unavailable' : 'refused'
    throw new TaskFailure(kind, `The container engine answered ${status}: ${told}`)
  }

  /** Brings an image that is not there. */
  async pull(image: string): Promise<void> {
    const last = image.slice(image.lastIndexOf('/') + 1)
    const tag = last.includes(':') || last.includes('@') ? '' : '&tag=latest'
    const { body } = await this.ask('POST', `/images/create?fromImage=${encodeURIComponent(image)}${tag}`)
    // It begins with 200 and may still go wrong.
    const failed = body
      .toString()
      .split('\n')
      .find((line) => line.includes('"error"'))
    if (failed !== undefined)
      throw new TaskFailure('refused', `The image cannot be had: ${messageIn(Buffer.from(failed))}`)
  }

  async #connect(): Promise<Socket> {
    this.#signal.throwIfAborted()
    const socket = connect(this.#path)
    const { promise, resolve, reject } = Promise.withResolvers<void>()
    const stop = () => reject(this.#signal.reason)
    this.#signal.addEventListener('abort', stop, { once: true })
    socket.once('connect', resolve).on('error', reject)
    try {
      await promise
      return socket
    } catch (cause) {
      socket.destroy()
      this.#signal.throwIfAborted()
      const why =
        'There is no container engine on this worker that it may use: app.workflows.containers says where it listens'
      throw new TaskFailure('refused', why, cause)
    } finally {
      this.#signal.removeEventListener('abort', stop)
    }
  }
}

function messageIn(body: Buffer): string {
  try {
    const { message, error } = JSON.parse(body.toString()) as { message?: unknown; error?: unknown }
    return String(message ?? error).slice(0, 500)
  } catch {
    return body.toString().slice(0, 200)
  }
}

/**
 * Takes output and errors apart, which come in one stream.
 * Source: https://docs.docker.com/reference/api/engine/version/v1.41/#tag/Container/operation/ContainerAttach
 */
export function demultiplexer(onOutput: (chunk: Buffer) => void, onError: (chunk: Buffer) => void) {
  let rest = Buffer.alloc(0)
  return (chunk: Buffer) => {
    rest = Buffer.concat([rest, chunk])
    while (rest.length >= 8) {
      const end = 8 + rest.readUInt32BE(4)
      if (rest.length < end) return
      const part = rest.subarray(8, end)
      if (rest[0] === 2) onError(part)
      else onOutput(part)
      rest = rest.subarray(end)
    }
  }
}
