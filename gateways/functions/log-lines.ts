import type { DirectBatchOptions, StoredMsg } from '@nats-io/jetstream'
import type { Bus } from '../../bus/connect.ts'
import { readPage } from '../../bus/page.ts'
import { asking } from '../../bus/publish.ts'
import { logSubject } from '../../bus/subject.ts'
import type { LogLine } from '../../schemas/functions/call.ts'
import { ReadTurns } from './read-turns.ts'

export const logStream = 'LOGS'
/** The newest lines are looked for in ever longer spans, so that a talkative function is not read from its beginning. */
const spansMs = [60_000, 600_000, 3_600_000, 86_400_000, 7 * 86_400_000]
/** What the bus sends without a pause. */
const pageBytes = 4 * 1024 * 1024

/** Reads what functions have written; few at a time, the others wait. */
export class LogLines {
  readonly #bus: Bus
  readonly #turns = new ReadTurns({ most: 2, mostWaiting: 64 })

  constructor(bus: Bus) {
    this.#bus = bus
  }

  /** The newest lines, the oldest of them first. @throws {Unavailable} when too many wait; {BusUnavailable} */
  newest(functionId: string, limit: number): Promise<readonly LogLine[]> {
    return this.#turns.run(() => this.#read(functionId, limit))
  }

  async #read(functionId: string, limit: number): Promise<readonly LogLine[]> {
    const now = Date.now()
    let lines: readonly LogLine[] = []
    for (const spanMs of spansMs) {
      lines = await this.#since(logSubject('function', functionId), now - spanMs, limit)
      if (lines.length >= limit) break
    }
    return lines
  }

  async #since(subject: string, since: number, limit: number): Promise<readonly LogLine[]> {
    let lines: LogLine[] = []
    let query: { readonly start_time: Date } | { readonly seq: number } = { start_time: new Date(since) }
    for (;;) {
      const wanted: DirectBatchOptions = { ...query, next_by_subj: subject, max_bytes: pageBytes }
      const page: StoredMsg[] = await asking(this.#bus, () => readPage(this.#bus, logStream, wanted))
      const last = page.at(-1)
      if (last === undefined) return lines
      lines = [...lines, ...page.flatMap(({ data }) => linesOf(data))].slice(-limit)
      query = { seq: last.seq + 1 }
    }
  }
}

/** The lines of one message. */
export function linesOf(data: Uint8Array): readonly LogLine[] {
  return JSON.parse(Buffer.from(data).toString('utf8')) as LogLine[]
}
