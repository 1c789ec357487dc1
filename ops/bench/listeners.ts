import { createHistogram } from 'node:perf_hooks'
import { type Listener, listen } from './sse-client.ts'

/** What the process is told: `listen` opens the clients, `report` asks what they have got since. */
export type ListenersTask =
  | { readonly kind: 'listen'; readonly url: string; readonly token: string; readonly clients: number }
  | { readonly kind: 'report' }

export type ListenersAnswer =
  | { readonly kind: 'listening' }
  | {
      readonly kind: 'report'
      /** Events of the client that has the fewest and of the one that has the most. */
      readonly fewest: number
      readonly most: number
      readonly outOfOrder: number
      readonly closed: number
      /** From the insert leaving the writer to the client, over all clients and events since the last report. */
      readonly p50Ms: number
      readonly p99Ms: number
      readonly maxMs: number
    }
  | { readonly kind: 'failed'; readonly message: string }

/** Many change stream clients, in a process of their own so that the writer's clock is not disturbed. */
const listeners: Listener[] = []
const counts: number[] = []
const histogram = createHistogram()
let outOfOrder = 0
let closed = 0

async function open({ url, token, clients }: Extract<ListenersTask, { kind: 'listen' }>): Promise<void> {
  const batch = 100
  for (let index = 0; index < clients; index += batch) {
    const size = Math.min(batch, clients - index)
    listeners.push(...(await Promise.all(Array.from({ length: size }, (_, offset) => one(url, token, index + offset)))))
  }
}

function one(url: string, token: string, index: number): Promise<Listener> {
  let lastId = 0
  counts[index] = 0
  return listen(url, token, {
    onRow({ id, sent_ns }) {
      if (id <= lastId) outOfOrder += 1
      lastId = id
      counts[index]! += 1
      const waitedNs = process.hrtime.bigint() - BigInt(sent_ns)
      histogram.record(waitedNs > 1n ? waitedNs : 1n)
    },
    onEnd: () => {
      closed += 1
    },
  })
}

function report(): ListenersAnswer {
  const ms = (ns: number) => Math.round(ns / 10_000) / 100
  const latency = { p50Ms: ms(histogram.percentile(50)), p99Ms: ms(histogram.percentile(99)), maxMs: ms(histogram.max) }
  let fewest = Number.POSITIVE_INFINITY
  let most = 0
  for (const count of counts) {
    fewest = Math.min(fewest, count)
    most = Math.max(most, count)
  }
  counts.fill(0)
  histogram.reset()
  return { kind: 'report', fewest, most, outOfOrder, closed, ...latency }
}

process.on('message', (task: ListenersTask) => {
  const answer = (message: ListenersAnswer) => process.send?.(message)
  if (task.kind === 'report') answer(report())
  else {
    open(task).then(
      () => answer({ kind: 'listening' }),
      (error: Error) => answer({ kind: 'failed', message: error.message }),
    )
  }
})
process.on('disconnect', () => process.exit())
process.send?.({ kind: 'ready', url: '' })
