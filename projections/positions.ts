import type pg from 'pg'
import type { Bus } from '../bus/connect.ts'
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

async function current(database: pg.Pool, projection: Projection, stream: string): Promise<number | null> {
  const text = `select sequence from ${schemaOf(projection)}.checkpoint where stream = $1`
  const { rows } = await database.query(text, [stream])
  return rows[0] === undefined ? null : Number(rows[0].sequence)
}
