import { type IncomingHttpHeaders, type IncomingMessage, request as send } from 'node:http'
import type { Socket } from 'node:net'
import { TaskFailure } from '../../plugin.ts'

export interface SocketRequest {
  readonly method: string
  readonly path: string
  readonly headers?: Readonly<Record<string, string>>
  readonly body?: Uint8Array | string
  /** Gets the body as it comes; it is not kept then. */
  readonly onChunk?: (chunk: Buffer) => void
}

export interface SocketAnswer {
  readonly status: number
  readonly headers: IncomingHttpHeaders
  readonly body: Buffer
}

interface Limits {
  readonly signal: AbortSignal
  /** Default 16 MB. */
  readonly maxBytes?: number
}

const usualBytes = 16 * 1024 ** 2

/**
 * A request over a connection that is there, which ends with it: for servers that `fetch` does not reach.
 * @throws {TaskFailure} `unavailable` when it breaks, `refused` for an answer that is too large; the signal's reason
 */
export async function askOver(
  socket: Socket,
  { method, path, headers = {}, body, onChunk }: SocketRequest,
  { signal, maxBytes = usualBytes }: Limits,
): Promise<SocketAnswer> {
  const length = body === undefined ? {} : { 'content-length': String(Buffer.byteLength(body)) }
  const stop = () => socket.destroy()
  signal.addEventListener('abort', stop, { once: true })
  try {
    const request = send({
      method,
      path,
      headers: { host: 'localhost', connection: 'close', ...headers, ...length },
      createConnection: () => socket,
    })
    const answered = Promise.withResolvers<IncomingMessage>()
    request.once('response', answered.resolve).on('error', answered.reject)
    request.end(body)
    const response = await answered.promise
    const chunks: Buffer[] = []
    let sizeBytes = 0
    for await (const chunk of response as AsyncIterable<Buffer>) {
      if (onChunk !== undefined && response.statusCode === 200) {
        onChunk(chunk)
        continue
      }
      sizeBytes += chunk.length
      if (sizeBytes > maxBytes) throw new TaskFailure('refused', `The answer is larger than ${maxBytes} bytes`)
      chunks.push(chunk)
    }
    return { status: response.statusCode ?? 0, headers: response.headers, body: Buffer.concat(chunks) }
  } catch (error) {
    signal.throwIfAborted()
    if (error instanceof TaskFailure) throw error
    throw new TaskFailure('unavailable', `The connection broke: ${(error as Error).message}`, error)
  } finally {
    signal.removeEventListener('abort', stop)
    socket.destroy()
  }
}
