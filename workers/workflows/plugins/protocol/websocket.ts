import { definePlugin, TaskFailure, type TaskRun } from '../../plugin.ts'
import { serverPlace } from '../server-properties.ts'
import { Broken, Inbox } from './broker.ts'
import type { ExchangeRun, Told } from './exchange.ts'
import { exchangeDns } from './exchange-dns.ts'
import { exchangeLines } from './exchange-lines.ts'
import { ExchangeInput, ExchangeOutput } from './exchange-properties.ts'
import { exchangeWebsocket } from './exchange-websocket.ts'

const ports = { ws: 80, wss: 443, tcp: 0, tls: 443 }

/** Source: RFC 6455 (WebSocket), RFC 8446 (TLS), RFC 1035 and 4501 (DNS) */
export const websocket = definePlugin({
  id: 'websocket.send',
  name: 'WebSocket',
  category: 'Protocol',
  description:
    'Sends messages over a WebSocket, or lines over TCP or TLS, and waits for the replies that count. Without messages it tells ' +
    'whether a server can be connected to and how its certificate is; of names it looks up records.',
  needs: 'A server that speaks one of these',
  effect: 'once',
  input: ExchangeInput,
  output: ExchangeOutput,
  example: `name: ask-socket
tasks:
  - name: ask
    type: websocket.send
    properties:
      url: ws://localhost:8080/socket
      message: { type: ping }
      match: '"type":"pong"'
`,
  async run(given: TaskRun<ExchangeInput>) {
    const { input, signal } = given
    const inbox = new Inbox(input, await matcherOf(input.match))
    const run: ExchangeRun = { given, broken: new Broken(signal), outgoing: await outgoingOf(given), inbox }
    try {
      const told = await exchange(run)
      const messages = inbox.messages.map(({ payload, encoding }) => ({ payload, encoding }))
      if (input.maxMessages > 0 && (told.messages ?? messages).length === 0)
        throw new TaskFailure(
          'timeout',
          `No reply after ${input.waitMs} ms, or before the server closed the connection`,
        )
      const nothing = { subprotocol: null, closed: null, address: null, connectMs: 0, certificate: null }
      return { ...nothing, messages, ...told }
    } catch (error) {
      signal.throwIfAborted()
      throw error
    }
  },
})

async function exchange(run: ExchangeRun): Promise<Told> {
  const { input } = run.given
  if (/^dns:/i.test(input.url)) return await exchangeDns(run)
  const place = serverPlace(input, ports)
  if (place.port === 0) throw new TaskFailure('refused', 'properties.url needs a port: tcp://host:port')
  const isWebsocket = place.scheme === 'ws' || place.scheme === 'wss'
  return await (isWebsocket ? exchangeWebsocket(run, place) : exchangeLines(run, place))
}

/** Of a syntax whose cost grows with the text alone. */
async function matcherOf(pattern: string | undefined): Promise<(text: string) => boolean> {
  if (pattern === undefined) return () => true
  const { RE2JS } = await import('re2js')
  try {
    const compiled = RE2JS.compile(pattern)
    return (text) => compiled.matcher(text).find()
  } catch (cause) {
    throw new TaskFailure('refused', `properties.match is no pattern: ${(cause as Error).message}`, cause)
  }
}

async function outgoingOf({ input, services }: TaskRun<ExchangeInput>): Promise<readonly Buffer[]> {
  const texts = [...(input.message === undefined ? [] : [input.message]), ...input.messages]
  const outgoing = texts.map((each) => Buffer.from(typeof each === 'string' ? each : JSON.stringify(each)))
  if (input.file !== undefined) outgoing.push(Buffer.from(await services.files.get(input.file)))
  return outgoing
}
