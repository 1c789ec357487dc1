import { DeliverPolicy, jetstream, jetstreamManager } from '@nats-io/jetstream'
import { connect, type MsgHdrs, type NatsConnection } from '@nats-io/transport-node'
import { addressOf } from '../bus/connect.ts'
import { maskUrl } from '../schemas/config/mask.ts'
import type { Config } from '../schemas/config.ts'
import { onInterrupt } from './interrupt.ts'
import { OperatorError } from './local/operator-error.ts'

export interface TailOptions {
  readonly subject: string
  /** `start`, a sequence, or a time; undefined: only what comes from now on. */
  readonly from?: string
  readonly json: boolean
}

interface Event {
  readonly subject: string
  readonly sequence: number | undefined
  readonly headers: MsgHdrs | undefined
  readonly body: string
}

/**
 * Prints what lies or arrives on the bus until Ctrl-C.
 *
 * @throws {OperatorError} when the bus cannot be reached, or no stream holds the subject.
 */
export async function tailEvents(config: Config, options: TailOptions): Promise<void> {
  const start = options.from === undefined ? undefined : startPoint(options.from)
  const connection = await connectBus(config['app.nats.url'])
  const print = (event: Event) => process.stdout.write(`${options.json ? asJson(event) : asLine(event)}\n`)
  const told = onInterrupt(() => process.exit(130))
  const closed = connection.closed().then((error) => {
    if (error instanceof Error) throw new OperatorError(`The bus went away: ${error.message}`, { cause: error })
  })
  const reading =
    start === undefined
      ? readLive(connection, options.subject, print)
      : readStream(connection, options.subject, start, print)
  await Promise.race([told, closed, reading])
  await connection.close()
}

/** @throws {OperatorError} when nothing answers at the URL. */
export async function connectBus(url: string): Promise<NatsConnection> {
  try {
    return await connect({ ...addressOf(url), timeout: 5000, name: 'busbar-cli' })
  } catch (error) {
    throw new OperatorError(
      `app.nats.url: no bus at ${maskUrl(url)} (${(error as Error).message}); is \`busbar up\` running?`,
      { cause: error },
    )
  }
}

type StartPoint =
  | { readonly deliver_policy: typeof DeliverPolicy.All }
  | { readonly deliver_policy: typeof DeliverPolicy.StartSequence; readonly opt_start_seq: number }
  | { readonly deliver_policy: typeof DeliverPolicy.StartTime; readonly opt_start_time: string }

function startPoint(from: string): StartPoint {
  if (from === 'start') return { deliver_policy: DeliverPolicy.All }
  if (/^[1-9]\d{0,14}$/.test(from)) return { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: Number(from) }
  const time = new Date(from)
  if (Number.isNaN(time.getTime())) {
    throw new OperatorError(
      `--from takes \`start\`, a sequence number or a time such as 2026-01-31T12:00:00Z, not ${JSON.stringify(from)}.`,
    )
  }
  return { deliver_policy: DeliverPolicy.StartTime, opt_start_time: time.toISOString() }
}

async function readLive(connection: NatsConnection, subject: string, print: (event: Event) => void): Promise<void> {
  for await (const message of connection.subscribe(subject)) {
    print({ subject: message.subject, sequence: undefined, headers: message.headers, body: message.string() })
  }
}

async function readStream(
  connection: NatsConnection,
  subject: string,
  start: StartPoint,
  print: (event: Event) => void,
): Promise<void> {
  const manager = await jetstreamManager(connection)
  const streams: string[] = []
  for await (const { config } of manager.streams.list(subject)) streams.push(config.name)
  if (streams.length === 0) throw new OperatorError(`No stream holds ${subject}.`)
  const read = async (stream: string) => {
    const consumer = await jetstream(connection).consumers.get(stream, { filter_subjects: subject, ...start })
    for await (const message of await consumer.consume()) {
      print({ subject: message.subject, sequence: message.seq, headers: message.headers, body: message.string() })
    }
  }
  await Promise.all(streams.map(read))
}

function asLine({ subject, sequence, body }: Event): string {
  return `${sequence === undefined ? '' : `${sequence} `}${subject} ${body}`
}

function asJson({ subject, sequence, headers, body }: Event): string {
  const pairs =
    headers === undefined ? {} : Object.fromEntries([...headers.keys()].map((name) => [name, headers.get(name)]))
  return JSON.stringify({
    subject,
    ...(sequence === undefined ? {} : { sequence }),
    headers: pairs,
    data: parsed(body),
  })
}

/** A body that is not JSON is shown as the text it is. */
function parsed(body: string): unknown {
  try {
    return JSON.parse(body)
  } catch {
    return body
  }
}
