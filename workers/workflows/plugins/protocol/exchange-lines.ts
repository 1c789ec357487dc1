import { TaskFailure } from '../../plugin.ts'
import type { ServerPlace } from '../server-properties.ts'
import type { ExchangeRun, Told } from './exchange.ts'
import { openConnection } from './exchange-connection.ts'

/** Sends lines over TCP or TLS, and takes lines for replies. */
export async function exchangeLines(run: ExchangeRun, place: ServerPlace): Promise<Told> {
  const { given, broken, outgoing, inbox } = run
  const { socket, told } = await openConnection(run, place, place.scheme === 'tls')
  try {
    let rest = Buffer.alloc(0)
    const take = (line: Buffer) => inbox.add('', line.at(-1) === 0x0d ? line.subarray(0, -1) : line, {})
    socket.on('data', (chunk) => {
      rest = Buffer.concat([rest, chunk])
      for (let end = rest.indexOf('\n'); end >= 0; end = rest.indexOf('\n')) {
        take(rest.subarray(0, end))
        rest = rest.subarray(end + 1)
      }
      // A line without an end.
      if (rest.length > given.input.maxBytes)
        broken.fail(new TaskFailure('refused', `The replies are more than ${given.input.maxBytes} bytes`))
    })
    socket.once('close', () => {
      if (rest.length > 0) take(rest)
      inbox.end()
    })
    for (const message of outgoing) socket.write(Buffer.concat([message, Buffer.from('\n')]))
    await inbox.wait(broken)
    return told
  } finally {
    socket.destroy()
  }
}
