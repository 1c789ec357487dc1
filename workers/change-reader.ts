import type { Bus } from '../bus/connect.ts'
import { type ConsumeObservation, consume } from '../bus/consume.ts'
import type { Delivery } from '../bus/handle.ts'
import { sourceSubjects } from '../bus/subject.ts'
import { changeHeader } from '../schemas/data/change.ts'

export interface ChangeReaderOptions {
  /** `app.nats.stream-name`. */
  readonly changeStream: string
  /** `app.changes.source`. */
  readonly source: string
  readonly consumer: string
  /** @param table what the subjects of the table's changes begin with, see `tableSubject` */
  readonly handle: (table: string, delivery: Delivery) => Promise<void>
  readonly onObservation: (observation: ConsumeObservation) => void
}

export interface ChangeReader {
  /** Somebody wants changes; a reader that is new begins with those from a time on, epoch ms. */
  begin(since: number): void
  /** When the signal was aborted. */
  ended(): Promise<void>
}

/** Reads the row changes of a source with all other copies together, once somebody wants some. */
export function changeReader(bus: Bus, options: ChangeReaderOptions, signal: AbortSignal): ChangeReader {
  const { changeStream, source, consumer, handle, onObservation } = options
  let reading: Promise<void> | null = null
  return {
    begin(since) {
      if (reading !== null || signal.aborted) return
      const read = {
        stream: changeStream,
        consumer,
        subjects: [sourceSubjects(source)],
        from: { since },
        handle: (delivery: Delivery) => handle(delivery.subject.slice(0, delivery.subject.lastIndexOf('.')), delivery),
        onObservation,
      }
      reading = consume(bus, read, signal)
    },
    async ended() {
      await reading
    },
  }
}

/** What names a change, however often and in whatever stream it is delivered. */
export function changePlace({ headers, sequence }: Pick<Delivery, 'headers' | 'sequence'>): readonly string[] {
  const place = [changeHeader.origin, changeHeader.lsn, changeHeader.index].map((name) => headers.get(name))
  return place.includes('') ? [String(sequence)] : place
}
