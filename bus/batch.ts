import { setTimeout as sleep } from 'node:timers/promises'
import { JetStreamApiError } from '@nats-io/jetstream'
import { type Append, type Pending, pendingHeaders, settle } from './append.ts'
import { type Bus, BusUnavailable } from './connect.ts'
import { encodeMessage, messageIdHeader } from './envelope.ts'
import { type Fact, newId } from './message.ts'
import { putAside } from './objects.ts'
import { asking, natsHeaders } from './publish.ts'

const maxBatch = 100

/**
 * Appends decisions of several aggregates of one stream, all or none. Some 4 ms on file storage, whatever the size, and a
 * server takes about 250 a second: for the rare decision that needs it. The stream must have `allow_atomic`. Source: NATS ADR-50.
 *
 * @throws {AppendConflict} naming the first subject that has gone on; {MessageInvalid}; {BusUnavailable}.
 * {TypeError} for no or more than 100 appends, several streams, or one subject twice.
 */
export async function appendBatch(bus: Bus, appends: readonly Append<Fact>[]): Promise<void> {
  const stream = checked(appends)
  const pendings = await Promise.all(
    appends.map(async ({ events, message, ...place }): Promise<Pending> => {
      const encoded = await putAside(bus, encodeMessage(events, message))
      return { ...place, id: encoded.headers[messageIdHeader]!, encoded }
    }),
  )
  await settle(bus, stream, pendings, () => whenAdmitted(bus, () => asking(bus, () => sendBatch(bus, pendings))))
}

/** A server takes only so many batches of a stream at once; one that it does not admit has left nothing behind. */
const tooManyBatches = 10210
/** Of one connection, so that several of them fit in. */
const maxAtOnce = 16
const turns = new WeakMap<Bus, { running: number; readonly waiting: (() => void)[] }>()

async function whenAdmitted<T>(bus: Bus, send: () => Promise<T>): Promise<T> {
  for (const until = Date.now() + bus.timeoutMs; ; ) {
    try {
      return await inTurn(bus, send)
    } catch (error) {
      if (!(error instanceof JetStreamApiError) || error.code !== tooManyBatches) throw error
      if (Date.now() > until) throw new BusUnavailable('The bus takes no more batches now', { cause: error })
    }
    await sleep(5 + Math.random() * 45)
  }
}

async function inTurn<T>(bus: Bus, send: () => Promise<T>): Promise<T> {
  const turn = turns.get(bus) ?? { running: 0, waiting: [] }
  turns.set(bus, turn)
  if (turn.running < maxAtOnce) turn.running++
  else await new Promise<void>((resolve) => turn.waiting.push(resolve))
  try {
    return await send()
  } finally {
    const next = turn.waiting.shift()
    // Whoever waits takes the place.
    if (next !== undefined) next()
    else turn.running--
  }
}

function checked(appends: readonly Append<Fact>[]): string {
  const [first] = appends
  if (first === undefined || appends.length > maxBatch) throw new TypeError(`A batch has 1 to ${maxBatch} appends`)
  if (appends.some(({ stream }) => stream !== first.stream)) throw new TypeError('A batch is for one stream')
  if (new Set(appends.map(({ subject }) => subject)).size < appends.length) {
    throw new TypeError('A batch has one decision a subject')
  }
  return first.stream
}

/** By hand, because the client hides what the server answers to a commit. */
async function sendBatch({ connection, timeoutMs }: Bus, pendings: readonly Pending[]): Promise<void> {
  const batch = newId()
  for (const [index, pending] of pendings.entries()) {
    const last = index === pendings.length - 1
    const headers = natsHeaders({
      ...pendingHeaders(pending),
      'Nats-Batch-Id': batch,
      'Nats-Batch-Sequence': String(index + 1),
      ...(last && { 'Nats-Batch-Commit': '1' }),
    })
    const { subject, encoded } = pending
    if (index > 0 && !last) {
      connection.publish(subject, encoded.body, { headers })
      continue
    }
    // The first is answered at once, so that a stream without batches is found out before the rest is sent.
    const answer = await connection.request(subject, encoded.body, { headers, timeout: timeoutMs })
    if (answer.data.length === 0) continue
    const { error } = answer.json<{ error?: ConstructorParameters<typeof JetStreamApiError>[0] }>()
    if (error !== undefined) throw new JetStreamApiError(error)
  }
}
