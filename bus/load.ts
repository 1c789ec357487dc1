import type { DirectBatchOptions, StoredMsg } from '@nats-io/jetstream'
import type { Bus } from './connect.ts'
import { type Aggregate, decodeMessage, type EventSet, type Fact, type HeaderReader, type Message } from './message.ts'
import { fetchBody } from './objects.ts'
import { asking } from './publish.ts'

export interface Place {
  readonly stream: string
  /** One aggregate. */
  readonly subject: string
}

export interface Loaded<State> {
  readonly state: State
  /** The stream sequence of the subject's last message; 0 when there is none. */
  readonly sequence: number
  /** The id of that message. */
  readonly id: string | null
}

/**
 * The state of an aggregate: one read when its last message carries it, else all its messages folded.
 *
 * @throws {BusUnavailable}; {MessageInvalid} and {ObjectDamaged} when what is stored cannot be read.
 */
export async function load<State, F extends Fact>(
  bus: Bus,
  aggregate: Aggregate<State, F>,
  { stream, subject }: Place,
): Promise<Loaded<State>> {
  const last = await lastMessage(bus, stream, subject)
  if (last === null) return { state: aggregate.initial, sequence: 0, id: null }
  const message = await readMessage(bus, aggregate.events, last)
  const carried = carriedState(aggregate, message)
  const state = carried === null ? await foldAll(bus, aggregate, stream, last) : carried.state
  return { state, sequence: last.seq, id: message.id }
}

/** One message of a stream; null when it is not there. @throws as `load`. */
export async function loadMessage<F extends Fact>(
  bus: Bus,
  events: EventSet<F>,
  stream: string,
  sequence: number,
): Promise<Message<F> | null> {
  const stored = await asking(bus, () => bus.manager.direct.getMessage(stream, { seq: sequence }))
  return stored === null ? null : await readMessage(bus, events, stored)
}

/** What is delivered or read from a stream, decoded; its body is fetched from the object store when it lies there. */
export async function readMessage<F extends Fact>(
  bus: Bus,
  events: EventSet<F>,
  { header, headers, data }: Pick<StoredMsg, 'data'> & { header?: HeaderReader; headers?: HeaderReader | undefined },
): Promise<Message<F>> {
  const found = header ?? headers ?? { get: () => '' }
  return decodeMessage(events, found, await fetchBody(bus, found, data))
}

/** The state that a message carries, if this program can believe it. */
export function carriedState<State, F extends Fact>(
  aggregate: Aggregate<State, F>,
  { state }: Message,
): { state: State } | null {
  return state?.version === (aggregate.stateVersion ?? 1) ? { state: state.data as State } : null
}

const pageSize = 256

async function foldAll<State, F extends Fact>(
  bus: Bus,
  aggregate: Aggregate<State, F>,
  stream: string,
  last: StoredMsg,
): Promise<State> {
  let state = aggregate.initial
  let sequence = 0
  while (sequence < last.seq) {
    const query = { seq: sequence + 1, next_by_subj: last.subject, batch: pageSize }
    const page = await asking(bus, () => readPage(bus, stream, query))
    if (page.length === 0) break
    for (const stored of page) {
      sequence = stored.seq
      if (sequence > last.seq) break
      const message = await readMessage(bus, aggregate.events, stored)
      const carried = carriedState(aggregate, message)
      state = carried === null ? message.facts.reduce(aggregate.evolve, state) : carried.state
    }
  }
  return state
}

/** The next messages of a stream or subject, none at its end. Not for more than 1,000. */
export async function readPage(bus: Bus, stream: string, query: DirectBatchOptions): Promise<StoredMsg[]> {
  const page: StoredMsg[] = []
  try {
    for await (const stored of await bus.manager.direct.getBatch(stream, query)) page.push(stored)
  } catch (error) {
    if (!isNothingFound(error)) throw error
  }
  return page
}

/** What a read of several messages says when there is none. */
export function isNothingFound(error: unknown): boolean {
  // The client does not export the class.
  return error instanceof Error && error.name === 'JetStreamStatusError' && 'code' in error && error.code === 404
}

/** The last message of a subject, in one read; null when there is none. */
export function lastMessage(bus: Bus, stream: string, subject: string): Promise<StoredMsg | null> {
  return asking(bus, () => bus.manager.direct.getMessage(stream, { last_by_subj: subject }))
}
