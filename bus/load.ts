import type { StoredMsg } from '@nats-io/jetstream'
import type { Bus } from './connect.ts'
import { decodeMessage, type HeaderReader } from './envelope.ts'
import { type Aggregate, type EventSet, evolved, type Fact, type Message, type Trail } from './message.ts'
import { fetchBody } from './objects.ts'
import { readPage } from './page.ts'
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
  /** For the next message, see `carrying`. */
  readonly trail: Trail
}

/**
 * The state of an aggregate: one read when its last message carries it, else what has come since the one that did.
 *
 * @param known what it was before: then only what has come since is read
 * @throws {BusUnavailable}; {MessageInvalid} and {ObjectDamaged} when what is stored cannot be read.
 */
export async function load<State, F extends Fact>(
  bus: Bus,
  aggregate: Aggregate<State, F>,
  { stream, subject }: Place,
  known?: Loaded<State>,
): Promise<Loaded<State>> {
  const last = await lastMessage(bus, stream, subject)
  if (last === null) return { ...initially(aggregate), id: null }
  if (known?.sequence === last.seq) return known
  const message = await readMessage(bus, aggregate.events, last)
  const { id, trail } = message
  const carried = carriedState(aggregate, message)
  if (carried !== null) return { state: carried.state, sequence: last.seq, id, trail: trailFrom(last.seq) }
  const isAhead = known !== undefined && known.sequence >= (trail?.base ?? 0) && known.sequence < last.seq
  const start = isAhead ? known : await baseOf(bus, aggregate, stream, trail?.base ?? 0)
  return { id, ...(await foldFrom(bus, aggregate, stream, { start, last, trail })) }
}

/** Of the message after one that carries the state. */
export function trailFrom(sequence: number): Trail {
  return { base: sequence, bytes: 0, sizeBytes: 0 }
}

type Start<State> = Pick<Loaded<State>, 'state' | 'sequence' | 'trail'>

function initially<State, F extends Fact>({ initial }: Aggregate<State, F>): Start<State> {
  return { state: initial, sequence: 0, trail: trailFrom(0) }
}

/** The beginning, when the state there is none that this program can believe. */
async function baseOf<State, F extends Fact>(
  bus: Bus,
  aggregate: Aggregate<State, F>,
  stream: string,
  base: number,
): Promise<Start<State>> {
  const message = base === 0 ? null : await loadMessage(bus, aggregate.events, stream, base)
  const carried = message && carriedState(aggregate, message)
  return carried === null ? initially(aggregate) : { state: carried.state, sequence: base, trail: trailFrom(base) }
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

interface Stretch<State> {
  readonly start: Start<State>
  readonly last: StoredMsg
  /** As the last message tells it. */
  readonly trail: Trail | undefined
}

async function foldFrom<State, F extends Fact>(
  bus: Bus,
  aggregate: Aggregate<State, F>,
  stream: string,
  { start, last, trail: told }: Stretch<State>,
): Promise<Start<State>> {
  let { state, sequence, trail } = start
  while (sequence < last.seq) {
    const query = { seq: sequence + 1, next_by_subj: last.subject, batch: pageSize }
    const page = await asking(bus, () => readPage(bus, stream, query))
    if (page.length === 0) break
    let facts: F[] = []
    let { bytes } = trail
    for (const stored of page) {
      if (stored.seq > last.seq) break
      sequence = stored.seq
      const message = await readMessage(bus, aggregate.events, stored)
      const carried = carriedState(aggregate, message)
      if (carried === null) {
        facts.push(...message.facts)
        bytes += stored.data.length
      } else {
        facts = []
        bytes = 0
        state = carried.state
        trail = trailFrom(sequence)
      }
    }
    state = evolved(aggregate, state, facts)
    trail = { ...trail, bytes }
    if (page.at(-1)!.seq >= last.seq) break
  }
  return { state, sequence: last.seq, trail: told?.base === trail.base ? told : trail }
}

/** The last message of a subject, in one read; null when there is none. */
export function lastMessage(bus: Bus, stream: string, subject: string): Promise<StoredMsg | null> {
  return asking(bus, () => bus.manager.direct.getMessage(stream, { last_by_subj: subject }))
}
