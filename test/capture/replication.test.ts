import { createServer, type Server, type Socket } from 'node:net'
import t, { type Test } from 'tap'
import { replicate } from '../../workers/capture/postgres-replication.ts'

const authenticated = Buffer.from([0x52, 0, 0, 0, 8, 0, 0, 0, 0])
const ready = Buffer.from([0x5a, 0, 0, 0, 5, 0x49])

/** What a server says to a backend's client when the backend is terminated. */
function terminated(): Buffer {
  const fields = Buffer.from('SFATAL\0C57P01\0Mterminating connection due to administrator command\0\0')
  const head = Buffer.alloc(5)
  head.write('E', 0)
  head.writeInt32BE(fields.length + 4, 1)
  return Buffer.concat([head, fields])
}

async function listening(t: Test, greet: (socket: Socket) => void): Promise<number> {
  const server: Server = createServer((socket) => {
    socket.on('error', () => undefined)
    socket.once('data', () => greet(socket))
  })
  await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
  t.teardown(() => server.close())
  return (server.address() as { port: number }).port
}

for (const [when, greet] of [
  ['behind the greeting', (socket: Socket) => socket.end(Buffer.concat([authenticated, ready, terminated()]))],
  ['in the middle of the greeting', (socket: Socket) => socket.end(authenticated)],
  [
    'with a reset',
    (socket: Socket) => {
      socket.write(Buffer.concat([authenticated, ready]))
      setImmediate(() => socket.resetAndDestroy())
    },
  ],
] as const) {
  t.test(`a connection that ends ${when} is a failure and no more`, async (t) => {
    const port = await listening(t, greet)
    const replication = replicate({
      connection: { host: '127.0.0.1', port, user: 'u', database: 'd' },
      slotName: 's',
      publicationNames: ['p'],
      handle: () => undefined,
      durableLsn: () => 0n,
      onCaughtUp: () => undefined,
      onStart: () => undefined,
      signal: new AbortController().signal,
    })
    await t.rejects(replication)
    // What comes late would end the process.
    await new Promise((resolve) => setTimeout(resolve, 50))
  })
}
