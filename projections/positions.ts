import type pg from 'pg'
import type { Bus } from '../bus/connect.ts'
import { asking } from '../bus/publish.ts'
import { projectedSubject } from '../bus/subject.ts'
import { type Projection, schemaOf } from './projector.ts'

/** How far a projection is, as it announces it. */
export interface Positions {
  /** Waits until the tables hold what the stream had at the sequence; false when that takes too long. */
  passed(stream: string, sequence: number, timeoutMs: number): Promise<boolean>
  close(): void
}

/** What a projection announces can get lost; after this it is asked. */
const lostMs = 250

/** Listens to a projection, so that whoever has written can wait until it can be read. */
export function openPositions(bus: Bus, database: pg.Pool, projection: Projection): Positions {
  const positions = new Map<string, number>()
  const waiting = new Set<{
    readonly stream: string
    readonly sequence: number
    readonly end: (came: boolean) => void
  }>()
  const reach = (stream: string, sequence: number) => {
    // A rebuilt projection begins anew.
    positions.set(stream, sequence)
    for (const each of [...waiting]) if (each.stream === stream && each.sequence <= sequence) each.end(true)
  }
  // It may have been said before anybody listened, or got lost.
  const ask = (stream: string) =>
    void current(database, projection, stream).then(
      (known) => known !== null && known > (positions.get(stream) ?? 0) && reach(stream, known),
      () => undefined,
    )
  const subscription = bus.connection.subscribe(projectedSubject(projection.name), {
    callback: (error, message) => {
      if (error !== null) return
      const { stream, sequence } = message.json<{ stream: string; sequence: number }>()
      reach(stream, sequence)
    },
  })
  return {
    async passed(stream, sequence, timeoutMs) {
      if ((positions.get(stream) ?? 0) >= sequence) return true
      const came = new Promise<boolean>((resolve) => {
        const each = {
          stream,
          sequence,
          end(result: boolean) {
            clearTimeout(timer)
            clearTimeout(look)
            waiting.delete(each)
            resolve(result)
          },
        }
        const timer = setTimeout(each.end, timeoutMs, false)
        const look = setTimeout(ask, positions.has(stream) ? lostMs : 0, stream)
        waiting.add(each)
      })
      return await came
    },
    close() {
      subscription.unsubscribe()
      for (const each of [...waiting]) each.end(false)
    },
  }
}

export interface Lag {
  readonly stream: string
  /** That are not folded yet. */
  readonly messages: number
  /** Age of the first of them; 0 when there is none. */
  readonly seconds: number
}

/** How far the tables of a projection are behind its streams. @throws when the database or the bus is away, or the tables are not there. */
export async function projectionLag(
  { bus, database, now }: { readonly bus: Bus; readonly database: pg.Pool; readonly now: () => number },
  projection: Projection,
): Promise<readonly Lag[]> {
  return await Promise.all(
    projection.streams.map(async (stream) => {
      const sequence = (await current(database, projection, stream)) ?? 0
      const { state } = await asking(bus, () => bus.manager.streams.info(stream))
      const caughtUp = { stream, messages: 0, seconds: 0 }
      if (state.last_seq <= sequence) return caughtUp
      const query = { seq: sequence + 1, next_by_subj: '>' }
      const next = await asking(bus, () => bus.manager.direct.getMessage(stream, query))
      // The last ones were taken away.
      if (next === null) return caughtUp
      const seconds = Math.max(0, (now() - next.time.getTime()) / 1_000)
      return { stream, messages: state.last_seq - next.seq + 1, seconds }
    }),
  )
}

async function current(database: pg.Pool, projection: Projection, stream: string): Promise<number | null> {
  const text = `select sequence from ${schemaOf(projection)}.checkpoint where stream = $1`
  const { rows } = await database.query(text, [stream])
  return rows[0] === undefined ? null : Number(rows[0].sequence)
}
