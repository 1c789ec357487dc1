import { connect, type Socket } from 'node:net'
import { createHistogram, performance, type RecordableHistogram } from 'node:perf_hooks'

/** What the load process is told. */
export interface LoadTask {
  readonly host: string
  readonly port: number
  /** Whole HTTP requests, sent in turn by each connection, each starting at another place. */
  readonly requests: readonly string[]
  readonly connections: number
  readonly seconds: number
  readonly warmUpSeconds: number
  readonly expectedStatus: number
}

export interface LoadResult {
  readonly requests: number
  readonly seconds: number
  readonly p50Ms: number
  readonly p99Ms: number
  readonly maxMs: number
  /** Answers with another status, and the first of them. */
  readonly wrong: number
  readonly firstWrong: string | null
}

export type LoadAnswer =
  | { readonly kind: 'measured'; readonly result: LoadResult }
  | { readonly kind: 'failed'; readonly message: string }

const headerEnd = Buffer.from('\r\n\r\n')

/** A closed loop: every connection has one request under way, and sends the next when the answer has come. */
async function run(task: LoadTask): Promise<LoadResult> {
  const requests = task.requests.map((request) => Buffer.from(request))
  const state: LoopState = {
    histogram: createHistogram(),
    measuring: false,
    stopping: false,
    wrong: 0,
    firstWrong: null,
  }
  const loops = Array.from({ length: task.connections }, (_, index) => loop(task, requests, index * 7919, state))
  const broken = Promise.all(loops)
  await Promise.race([broken, wait(task.warmUpSeconds)])
  state.measuring = true
  const startedAt = performance.now()
  await Promise.race([broken, wait(task.seconds)])
  const seconds = (performance.now() - startedAt) / 1000
  state.measuring = false
  state.stopping = true
  await broken
  const { histogram, wrong, firstWrong } = state
  const ms = (percentile: number) => histogram.percentile(percentile) / 1000
  return {
    requests: histogram.count,
    seconds,
    p50Ms: ms(50),
    p99Ms: ms(99),
    maxMs: histogram.max / 1000,
    wrong,
    firstWrong,
  }
}

interface LoopState {
  readonly histogram: RecordableHistogram
  measuring: boolean
  stopping: boolean
  wrong: number
  firstWrong: string | null
}

function loop(task: LoadTask, requests: readonly Buffer[], offset: number, state: LoopState): Promise<void> {
  return new Promise((resolve, reject) => {
    const socket: Socket = connect({ host: task.host, port: task.port, noDelay: true })
    let next = offset % requests.length
    let sentAt = 0
    let received: Buffer[] = []
    let receivedBytes = 0
    let wantedBytes = 0
    const send = () => {
      if (state.stopping) {
        socket.end()
        resolve()
        return
      }
      sentAt = performance.now()
      socket.write(requests[next]!)
      next = (next + 1) % requests.length
    }
    socket.on('connect', send)
    socket.on('error', reject)
    socket.on('close', () => (state.stopping ? resolve() : reject(new Error('The server closed a connection'))))
    socket.on('data', (chunk) => {
      received.push(chunk)
      receivedBytes += chunk.length
      if (wantedBytes === 0) {
        const answer = Buffer.concat(received)
        const bodyAt = answer.indexOf(headerEnd)
        if (bodyAt < 0) return
        const head = answer.toString('latin1', 0, bodyAt)
        const length = /\r\ncontent-length: *(\d+)/i.exec(head)?.[1]
        if (length === undefined) {
          reject(new Error(`An answer without Content-Length: ${head}`))
          return
        }
        wantedBytes = bodyAt + headerEnd.length + Number(length)
        if (Number(head.slice(9, 12)) !== task.expectedStatus) {
          state.wrong += 1
          state.firstWrong ??= answer.toString('utf8', 0, 500)
        }
      }
      if (receivedBytes < wantedBytes) return
      received = []
      receivedBytes = 0
      wantedBytes = 0
      if (state.measuring) state.histogram.record(Math.max(1, Math.round((performance.now() - sentAt) * 1000)))
      send()
    })
  })
}

function wait(seconds: number): Promise<void> {
  return new Promise((resolve) => setTimeout(resolve, seconds * 1000))
}

process.on('message', (task: LoadTask) => {
  run(task).then(
    (result) => process.send?.({ kind: 'measured', result } satisfies LoadAnswer),
    (error: Error) => process.send?.({ kind: 'failed', message: error.message } satisfies LoadAnswer),
  )
})
process.on('disconnect', () => process.exit())
process.send?.({ kind: 'ready', url: '' })
