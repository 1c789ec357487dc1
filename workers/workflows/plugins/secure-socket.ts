import type { Socket } from 'node:net'
import { type ConnectionOptions, connect } from 'node:tls'
import { TaskFailure } from '../plugin.ts'

const handshakeMs = 10_000

/**
 * TLS over a connection that is there already; the connection goes with it.
 * @throws {TaskFailure} `refused` for a certificate that is not right, `unavailable` or `timeout` for a server that says nothing
 */
export async function secureSocket(socket: Socket, options: ConnectionOptions): Promise<Socket> {
  const secure = connect({ ...options, socket })
  const { promise, resolve, reject } = Promise.withResolvers<void>()
  secure.once('secureConnect', resolve)
  // Stays: an error after somebody has let go of the connection is of interest to nobody.
  secure.on('error', (error) => reject(new TaskFailure('refused', `TLS is not possible: ${error.message}`, error)))
  secure.once('close', () => reject(new TaskFailure('unavailable', 'The server closed the connection')))
  const late = () => reject(new TaskFailure('timeout', `TLS is not agreed on after ${handshakeMs} ms`))
  const timer = setTimeout(late, handshakeMs)
  // Nobody above the one or the other has to know of both.
  secure.once('close', () => socket.destroy())
  socket.once('close', () => secure.destroy())
  try {
    await promise
    return secure
  } catch (error) {
    secure.destroy()
    socket.destroy()
    throw error
  } finally {
    clearTimeout(timer)
  }
}
