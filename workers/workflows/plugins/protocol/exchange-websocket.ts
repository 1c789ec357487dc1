import type { IncomingMessage } from 'node:http'
import type { Socket } from 'node:net'
import type { ClientOptions, RawData, WebSocket } from 'ws'
import { TaskFailure } from '../../plugin.ts'
import type { ServerPlace } from '../server-properties.ts'
import type { ExchangeRun, Told } from './exchange.ts'
import { openConnection } from './exchange-connection.ts'

/** Sends messages over a WebSocket, and takes messages for replies. Source: RFC 6455 */
export async function exchangeWebsocket(run: ExchangeRun, place: ServerPlace): Promise<Told> {
  const { broken, outgoing, inbox, given } = run
  const { socket, told } = await openConnection(run, place, place.scheme === 'wss')
  let closed: Told['closed'] = null
  let websocket: WebSocket | null = null
  try {
    websocket = await shakeHands(run, place, socket)
    websocket.on('close', (code, reason) => {
      closed = { code, reason: reason.toString('utf8') }
      inbox.end()
    })
    const isBinary = (at: number) => given.input.file !== undefined && at === outgoing.length - 1
    for (const [at, message] of outgoing.entries()) {
      const payload = isBinary(at) ? message : message.toString('utf8')
      await broken.or(asking((done) => websocket!.send(payload, done)))
    }
    await inbox.wait(broken)
    return { ...told, closed, subprotocol: websocket.protocol === '' ? null : websocket.protocol }
  } finally {
    if (websocket !== null) await goodbye(websocket)
    socket.destroy()
  }
}

const handshakeMs = 10_000

async function shakeHands(
  { given, broken, inbox }: ExchangeRun,
  place: ServerPlace,
  socket: Socket,
): Promise<WebSocket> {
  const { WebSocket } = await import('ws')
  const { input, idempotencyKey } = given
  const url = new URL(input.url)
  url.username = ''
  url.password = ''
  const made = Promise.withResolvers<void>()
  const options: ClientOptions = {
    createConnection: () => socket,
    headers: { 'User-Agent': 'busbar', 'Idempotency-Key': idempotencyKey, ...input.headers },
    ...(place.user !== '' && { auth: `${place.user}:${place.password}` }),
    handshakeTimeout: handshakeMs,
    maxPayload: input.maxBytes,
    perMessageDeflate: false,
    followRedirects: false,
  }
  const websocket = madeOf(() => new WebSocket(url, input.subprotocols, options))
  websocket.once('open', made.resolve)
  // Before the handshake is over messages may already be there.
  websocket.on('message', (data) => inbox.add('', bytesOf(data), {}))
  websocket.on('error', (error) => {
    made.reject(failureOf(error))
    broken.fail(failureOf(error))
  })
  websocket.once('unexpected-response', (_request, { statusCode = 0 }: IncomingMessage) => {
    const kind = statusCode === 429 || statusCode >= 500 ? 'unavailable' : 'refused'
    made.reject(new TaskFailure(kind, `The server answered ${statusCode} in place of a WebSocket`))
  })
  try {
    await broken.or(made.promise)
    return websocket
  } catch (error) {
    websocket.terminate()
    throw error
  }
}

/** Headers may be such that no request can have them. */
function madeOf(make: () => WebSocket): WebSocket {
  try {
    return make()
  } catch (error) {
    throw failureOf(error)
  }
}

function bytesOf(data: RawData): Buffer {
  return Array.isArray(data) ? Buffer.concat(data) : Buffer.from(data as Buffer)
}

const goodbyeMs = 200

/** Closes it in good form, unless the server takes its time. */
async function goodbye(websocket: WebSocket): Promise<void> {
  if (websocket.readyState === websocket.OPEN) {
    const closed = new Promise((resolve) => websocket.once('close', resolve))
    websocket.close(1000)
    await Promise.race([closed, new Promise((resolve) => setTimeout(resolve, goodbyeMs))])
  }
  websocket.terminate()
}

function asking(start: (done: (error?: Error) => void) => void): Promise<void> {
  return new Promise((resolve, reject) => start((error) => (error ? reject(failureOf(error)) : resolve())))
}

function failureOf(error: unknown): TaskFailure {
  if (error instanceof TaskFailure) return error
  const { code = '', message } = error as { code?: string; message: string }
  if (code === 'WS_ERR_UNSUPPORTED_MESSAGE_LENGTH')
    return new TaskFailure('refused', 'A reply is larger than maxBytes', error)
  if (/timed out/.test(message)) return new TaskFailure('timeout', 'The server does not answer', error)
  if (/^E[A-Z]+$/.test(code) || /hang up|closed/.test(message))
    return new TaskFailure('unavailable', `The connection broke: ${code || message}`, error)
  return new TaskFailure('refused', message, error)
}
