import type { Consumer } from '@platformatic/kafka'
import type { BrokerRun, Inbox } from './broker.ts'

/** Where a partition is read on. */
interface Position {
  readonly topic: string
  readonly partition: number
  readonly leader: number
  readonly leaderEpoch: number
  offset: bigint
}

interface Batch {
  readonly firstOffset: bigint
  readonly lastOffsetDelta: number
  readonly attributes: number
  readonly records: readonly {
    readonly offsetDelta: number
    readonly key: Buffer | null
    readonly value: Buffer | null
    readonly headers: readonly (readonly [Buffer | null, Buffer | null])[]
  }[]
}

/** Marks of transactions are no messages. */
const isControl = 0x20
const [earliest, latest] = [-2n, -1n]
/** A fetch that finds nothing takes this long at most. */
const pollMs = 500

/**
 * Messages of a topic, until enough have come or for as long as one waits.
 * @returns the partitions that were read, and up to where
 */
export async function consume(consumer: Consumer, inbox: Inbox, { given, broken }: BrokerRun) {
  const { topic = '', waitMs, maxBytes } = given.input
  const metadata = await consumer.metadata({ topics: [topic], autocreateTopics: false })
  const { id, partitions } = metadata.topics.get(topic)!
  const starts = await startsOf(consumer, given.input, partitions.length)
  const positions: Position[] = starts.map(([partition, offset]) => ({
    topic,
    partition,
    offset,
    leader: partitions[partition]!.leader,
    leaderEpoch: partitions[partition]!.leaderEpoch,
  }))
  const before = new Map(positions.map(({ partition, offset }) => [partition, offset]))
  const ends = performance.now() + waitMs
  const byLeader = [...Map.groupBy(positions, ({ leader }) => leader)]
  for (let left = waitMs; left > 0 && !inbox.isFull && byLeader.length > 0; left = ends - performance.now()) {
    const fetches = byLeader.map(async ([node, wanted]) => {
      const { responses } = await consumer.fetch({
        node,
        topics: [{ topicId: id, partitions: wanted.map((each) => wantedOf(each, maxBytes)) }],
        maxWaitTime: Math.max(1, Math.min(pollMs, Math.floor(left))),
        minBytes: 1,
        maxBytes,
      })
      return responses.flatMap((each) => each.partitions)
    })
    for (const { partitionIndex, records } of (await broken.or(Promise.all(fetches))).flat()) {
      const position = positions.find(({ partition }) => partition === partitionIndex)
      for (const batch of records ?? []) {
        if (position !== undefined && !take(batch as Batch, position, inbox)) await inbox.wait(broken)
      }
    }
  }
  return positions.filter(({ partition, offset }) => before.get(partition) !== offset)
}

const wantedOf = ({ partition, leaderEpoch, offset }: Position, maxBytes: number) => ({
  partition,
  currentLeaderEpoch: leaderEpoch,
  fetchOffset: offset,
  lastFetchedEpoch: -1,
  partitionMaxBytes: maxBytes,
})

/** Each partition, and where to begin: where the group is, else at the one or the other end. */
async function startsOf(
  consumer: Consumer,
  { topic = '', group, fromStart }: BrokerRun['given']['input'],
  count: number,
): Promise<readonly (readonly [number, bigint])[]> {
  const all = Array.from({ length: count }, (_, partition) => partition)
  const own =
    group === undefined
      ? all
      : (consumer.assignments ?? []).flatMap((each) => (each.topic === topic ? each.partitions : []))
  if (own.length === 0) return []
  const edges = await consumer.listOffsets({ topics: [topic], timestamp: fromStart ? earliest : latest })
  const kept =
    group === undefined ? null : await consumer.listCommittedOffsets({ topics: [{ topic, partitions: [...own] }] })
  return own.map((partition) => {
    const committed = kept?.get(topic)?.[partition] ?? -1n
    return [partition, committed >= 0n ? committed : (edges.get(topic)?.[partition] ?? 0n)] as const
  })
}

/** @returns false when there is no more room */
function take({ firstOffset, lastOffsetDelta, attributes, records }: Batch, position: Position, inbox: Inbox): boolean {
  for (const { offsetDelta, key, value, headers } of (attributes & isControl) === 0 ? records : []) {
    const offset = firstOffset + BigInt(offsetDelta)
    if (offset < position.offset) continue
    const told = {
      ...Object.fromEntries(headers.map(([name, text]) => [String(name ?? ''), text?.toString() ?? null])),
      ...(key !== null && { key: key.toString() }),
      partition: position.partition,
      offset: Number(offset),
    }
    if (!inbox.add(position.topic, value ?? Buffer.alloc(0), told)) return false
    position.offset = offset + 1n
  }
  const after = firstOffset + BigInt(lastOffsetDelta) + 1n
  if (after > position.offset) position.offset = after
  return true
}
