import { AsyncLocalStorage } from 'node:async_hooks'
import { subscribe } from 'node:diagnostics_channel'
import type { Socket } from 'node:net'

const owners = new AsyncLocalStorage<Set<Socket>>()

subscribe('net.client.socket', (message) => {
  const sockets = owners.getStore()
  if (sockets === undefined) return
  const { socket } = message as { readonly socket: Socket }
  sockets.add(socket)
  socket.once('close', () => sockets.delete(socket))
})

/** The connections that a library makes by itself and does not let go of in time. */
export class OwnSockets {
  readonly #sockets = new Set<Socket>()

  /** What is connected to within, now or later, is known. */
  within<Result>(work: () => Result): Result {
    return owners.run(this.#sockets, work)
  }

  destroy(): void {
    for (const socket of this.#sockets) socket.destroy()
  }
}
