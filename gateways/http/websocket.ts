import websocket from '@fastify/websocket'
import type { FastifyInstance, FastifyRequest } from 'fastify'
import type { WebSocket } from 'ws'
import { Rejected } from '../../schemas/failure.ts'
import { isOwnOrAllowed } from './origins.ts'

/** Close codes. Source: RFC 6455 7.4.1; from 4000 on they are ours, the last digits those of HTTP. */
export const closeCode = {
  goingAway: 1001,
  restarted: 1012,
  tryLater: 1013,
  unauthorized: 4401,
  forbidden: 4403,
  gone: 4410,
} as const

/** A WebSocket that is sent to. */
export interface SocketStream {
  /** Bytes given and not yet taken by the connection. */
  readonly unsentBytes: number
  /** One text message. */
  write(message: Buffer | string): void
  /** Pings; a peer that has answered neither of the two pings before is cut off. */
  beat(): void
  /** Sends a last message and closes, whether the client takes it or not. */
  end(message: string, code: number, reason: string): void
  /** Resolves when the client has taken everything, or is gone. */
  drained(): Promise<void>
  /** The client is gone; also when it is already. */
  onClose(listener: () => void): void
}

const lingerMs = 2_000
const maxUnanswered = 2
const maxReasonBytes = 123

/** Makes WebSocket routes possible; call once for an app, before its routes. */
export async function registerWebSockets(
  app: FastifyInstance,
  { maxPayloadBytes }: { readonly maxPayloadBytes: number },
): Promise<void> {
  await app.register(websocket, {
    options: { maxPayload: maxPayloadBytes, perMessageDeflate: false },
    // What ws does not understand, it closes itself.
    errorHandler: (_error, socket) => socket.terminate(),
  })
}

export function openSocketStream(socket: WebSocket): SocketStream {
  const text = { binary: false, compress: false }
  let unanswered = 0
  socket.on('pong', () => {
    unanswered = 0
  })
  return {
    get unsentBytes() {
      return socket.bufferedAmount
    },
    write(message) {
      if (socket.readyState === socket.OPEN) socket.send(message, text)
    },
    beat() {
      if (unanswered >= maxUnanswered) return socket.terminate()
      unanswered += 1
      if (socket.readyState === socket.OPEN) socket.ping()
    },
    end(message, code, reason) {
      if (socket.readyState !== socket.OPEN) return socket.terminate()
      const timer = setTimeout(() => socket.terminate(), lingerMs)
      socket.once('close', () => clearTimeout(timer))
      socket.send(message, text)
      socket.close(
        code,
        Buffer.from(reason)
          .subarray(0, maxReasonBytes)
          .toString('utf8')
          .replace(/\uFFFD+$/, ''),
      )
    },
    async drained() {
      if (socket.readyState !== socket.OPEN) return
      await new Promise<void>((resolve) => {
        socket.once('close', resolve)
        // The only thing ws tells when it is sent without sending the client a message.
        socket.pong('', false, () => {
          socket.off('close', resolve)
          resolve()
        })
      })
    },
    onClose(listener) {
      if (socket.readyState === socket.CLOSED) listener()
      else socket.once('close', listener)
    },
  }
}

/**
 * Browsers open WebSockets from any page without asking, so that the server has to look where a page comes from.
 * @throws {Rejected} `http/forbidden` for a page of an origin that may not call.
 */
export function requireOrigin({ headers }: FastifyRequest, allowed: readonly string[]): void {
  const { origin } = headers
  if (isOwnOrAllowed(headers, allowed)) return
  throw new Rejected('http/forbidden', 'Pages of this origin may not open change streams', { details: { origin } })
}
