import type { Bus } from '../../bus/connect.ts'
import { type CounterObservation, openCounters } from '../../bus/counters.ts'
import { type Collection, KvConflict, openCollection } from '../../bus/kv.ts'
import { functionsBucket } from '../../bus/topology.ts'
import { callsCounter, LastCall, lastCallCollection } from '../../schemas/functions/last-call.ts'

/** Counts calls, in batches. What is not flushed is lost with the process. */
export interface CallTallies {
  /** A call begins now. */
  count(functionId: string, revision: number): void
  /** @throws {BusUnavailable}; what could not be written is kept for the next time. */
  flush(): Promise<void>
  /** @throws {BusUnavailable} */
  close(): Promise<void>
}

const flushMs = 1_000

interface Tally {
  readonly revision: number
  /** Not given to the counters yet. */
  calls: number
  at: number
}

/** @throws {BusUnavailable} */
export async function callTallies(
  bus: Bus,
  onObservation: (observation: CounterObservation) => void,
): Promise<CallTallies> {
  // Flushed by the timer below, together with the times.
  const counters = openCounters(bus, { flushMs: 2 ** 31 - 1 })
  const lastCalls = await openCollection(bus, { name: lastCallCollection, schema: LastCall, bucket: functionsBucket })
  let called = new Map<string, Tally>()
  const countIn = (functionId: string, tally: Tally) => {
    if (tally.calls > 0) counters.add(callsCounter(functionId, tally.revision), tally.calls)
    tally.calls = 0
  }
  /** Sums that could not be written wait in the counters. */
  let failed = false
  let flushing: Promise<void> = Promise.resolve()
  const write = async () => {
    const batch = called
    called = new Map()
    for (const [functionId, tally] of batch) countIn(functionId, tally)
    const times = [...batch].map(async ([functionId, tally]) => {
      try {
        await keepLatest(lastCalls, functionId, { revision: tally.revision, at: tally.at })
      } catch (error) {
        if (!called.has(functionId)) called.set(functionId, tally)
        throw error
      }
    })
    const failure = (await Promise.allSettled([counters.flush(), ...times])).find(({ status }) => status === 'rejected')
    failed = failure !== undefined
    if (failure !== undefined) throw (failure as PromiseRejectedResult).reason
  }
  const flush = (): Promise<void> => {
    flushing = flushing.catch(() => undefined).then(write)
    return flushing
  }
  const timer = setInterval(() => {
    if (called.size === 0 && !failed) return
    flush().catch((error: unknown) => onObservation({ type: 'counters-not-flushed', waiting: called.size, error }))
  }, flushMs)
  return {
    count(functionId, revision) {
      const tally = called.get(functionId)
      if (tally?.revision === revision) {
        tally.calls += 1
        tally.at = Date.now()
        return
      }
      if (tally !== undefined) countIn(functionId, tally)
      called.set(functionId, { revision, calls: 1, at: Date.now() })
    },
    flush,
    async close() {
      clearInterval(timer)
      await flush()
      await counters.close()
    },
  }
}

/** The later one of ours and what other workers have written. */
async function keepLatest(calls: Collection<LastCall>, functionId: string, last: LastCall): Promise<void> {
  for (;;) {
    const found = await calls.get(functionId)
    if (found !== null && !isLater(last, found.value)) return
    try {
      if (found === null) await calls.create(functionId, last)
      else await calls.update(functionId, last, found.revision)
      return
    } catch (error) {
      if (!(error instanceof KvConflict)) throw error
    }
  }
}

function isLater(one: LastCall, other: LastCall): boolean {
  return one.revision > other.revision || (one.revision === other.revision && one.at > other.at)
}
