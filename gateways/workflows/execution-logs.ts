import { Readable } from 'node:stream'
import { type ConsumerMessages, DeliverPolicy } from '@nats-io/jetstream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import { load } from '../../bus/load.ts'
import { readPage } from '../../bus/page.ts'
import { asking } from '../../bus/publish.ts'
import { logSubject } from '../../bus/subject.ts'
import { Unavailable } from '../../schemas/failure.ts'
import { execution } from '../../schemas/workflows/execution.ts'
import type { ExecutionLogBatch, ExecutionLogLine } from '../../schemas/workflows/execution-log.ts'
import { isEnded } from '../../schemas/workflows/execution-state.ts'
import { invalid } from '../http/request.ts'
import { eventText, openEventStream } from '../http/sse.ts'
import { openSocketStream, requireOrigin } from '../http/websocket.ts'
import { executionPlace, loadExecution } from './execution-commands.ts'
import { queryOf } from './request.ts'
import type { WorkflowService } from './service.ts'

type ById = { Params: { id: string } }

const stream = 'LOGS'
const levels = ['debug', 'info', 'warn', 'error'] as const
const heartbeatMs = 15_000
const maxUnsentBytes = 1024 * 1024
const maxFollowers = 1_000
const maxLines = 100_000
/** Each is up to a megabyte. */
const pageSize = 16
/** How often it is looked whether an execution has ended of which no more lines come. */
const endCheckMs = 500
/** Lines that were written before the end can come a moment after it. */
const stragglersMs = 250
const normalClosure = 1000

interface LineSink {
  readonly unsentBytes: number
  line(line: ExecutionLogLine, sequence: number): void
  beat(): void
  drained(): Promise<void>
  end(): void
  onClose(listener: () => void): void
}

/**
 * The log of an execution: over a WebSocket what there is, then each line as it comes, to the end; the same as server-sent events with
 * `Accept: text/event-stream`; else the lines there are, as JSON or with `?format=text` to download.
 */
export function executionLogRoutes(
  app: FastifyInstance,
  service: WorkflowService,
  corsOrigins: readonly string[],
): void {
  let followers = 0
  const follow = async (request: FastifyRequest<ById>, from: number, sink: LineSink) => {
    followers++
    try {
      await followLines(service, request.params.id, { ...filterOf(request), from }, sink)
    } finally {
      followers--
      sink.end()
    }
  }
  const admit = async (request: FastifyRequest<ById>) => {
    filterOf(request)
    await loadExecution(service.bus, request.params.id)
    if (followers >= maxFollowers) throw new Unavailable('http/unavailable', 'As many clients as may be follow logs')
  }
  app.route<ById>({
    method: 'GET',
    url: '/api/v1/executions/:id/logs',
    config: { role: 'viewer' },
    preValidation: async (request) => {
      if (request.ws) requireOrigin(request, corsOrigins)
      if (request.ws) await admit(request)
    },
    handler: async (request, reply) => {
      if (!/\btext\/event-stream\b/.test(request.headers.accept ?? '')) return await download(service, request, reply)
      await admit(request)
      const last = /^\d{1,15}$/.exec(String(request.headers['last-event-id'] ?? ''))
      await follow(request, last === null ? 1 : Number(last[0]) + 1, eventSink(reply))
      return reply
    },
    wsHandler: (socket, request) => {
      void follow(request as FastifyRequest<ById>, 1, socketSink(socket)).catch(() => socket.terminate())
    },
  })
}

function eventSink(reply: FastifyReply): LineSink {
  const events = openEventStream(reply, { retryMs: 1_000 })
  return {
    get unsentBytes() {
      return events.unsentBytes
    },
    line: (line, sequence) => events.write(eventText('log', JSON.stringify(line), sequence)),
    beat: () => events.beat(),
    drained: () => events.drained(),
    // A browser would connect again otherwise.
    end: () => events.end(eventText('end', '{}')),
    onClose: (listener) => events.onClose(listener),
  }
}

function socketSink(socket: Parameters<typeof openSocketStream>[0]): LineSink {
  const opened = openSocketStream(socket)
  return {
    get unsentBytes() {
      return opened.unsentBytes
    },
    line: (line) => opened.write(JSON.stringify(line)),
    beat: () => opened.beat(),
    drained: () => opened.drained(),
    end: () => socket.close(normalClosure, 'The execution has ended'),
    onClose: (listener) => opened.onClose(listener),
  }
}

interface LineFilter {
  /** The least level. */
  readonly level: number
  readonly task: string | null
}

function filterOf(request: FastifyRequest): LineFilter & { readonly text: boolean } {
  const { level = 'debug', task = null, format = 'json' } = queryOf(request, ['level', 'task', 'format'])
  const least = (levels as readonly string[]).indexOf(level)
  if (least < 0) throw invalid('level', `must be one of ${levels.join(', ')}`)
  if (format !== 'json' && format !== 'text') throw invalid('format', 'must be json or text')
  return { level: least, task, text: format === 'text' }
}

function matches({ level, task }: LineFilter, line: ExecutionLogLine): boolean {
  return levels.indexOf(line.level) >= level && (task === null || line.taskName === task)
}

/** Page by page, since all of it may be more than the memory holds. */
async function download(service: WorkflowService, request: FastifyRequest<ById>, reply: FastifyReply) {
  const filter = filterOf(request)
  const { id } = request.params
  await loadExecution(service.bus, id)
  const pages = linePages(service, id, filter)
  if (!filter.text) return reply.type('application/json; charset=utf-8').send(Readable.from(jsonOf(pages)))
  return reply
    .type('text/plain; charset=utf-8')
    .header('Content-Disposition', `attachment; filename="${id.replace(/[^A-Za-z0-9-]/g, '_')}.log"`)
    .send(Readable.from(textOf(pages)))
}

type Pages = AsyncGenerator<readonly ExecutionLogLine[]>

async function* linePages({ bus }: WorkflowService, id: string, filter: LineFilter): Pages {
  let left = maxLines
  for (let sequence = 1; left > 0; ) {
    const query = { seq: sequence, next_by_subj: logSubject('execution', id), batch: pageSize }
    const page = await asking(bus, () => readPage(bus, stream, query))
    if (page.length === 0) return
    for (const { data } of page) {
      const lines = linesOf(data)
        .filter((line) => matches(filter, line))
        .slice(0, left)
      left -= lines.length
      if (lines.length > 0) yield lines
    }
    sequence = page.at(-1)!.seq + 1
  }
}

async function* jsonOf(pages: Pages): AsyncGenerator<string> {
  let before = '['
  for await (const lines of pages) {
    yield `${before}${lines.map((line) => JSON.stringify(line)).join(',')}`
    before = ','
  }
  yield before === '[' ? '[]' : ']'
}

async function* textOf(pages: Pages): AsyncGenerator<string> {
  for await (const lines of pages) yield lines.map((line) => `${textLine(line)}\n`).join('')
}

function textLine({ timestamp, level, taskName, message }: ExecutionLogLine): string {
  return `${timestamp} ${level.toUpperCase().padEnd(5)} [${taskName}] ${message.replaceAll('\n', '\n  ')}`
}

async function followLines(
  service: WorkflowService,
  id: string,
  filter: LineFilter & { readonly from: number },
  sink: LineSink,
): Promise<void> {
  const { bus } = service
  const consumer = await asking(bus, () =>
    bus.jetstream.consumers.get(stream, {
      filter_subjects: logSubject('execution', id),
      deliver_policy: DeliverPolicy.StartSequence,
      opt_start_seq: filter.from,
    }),
  )
  const messages = await asking(bus, () => consumer.consume())
  sink.onClose(() => void messages.close())
  const beat = setInterval(() => sink.beat(), heartbeatMs)
  const ending = new EndWatch(service, id, messages)
  try {
    for await (const message of messages) {
      for (const line of linesOf(message.data)) if (matches(filter, line)) sink.line(line, message.seq)
      ending.heard()
      if (sink.unsentBytes > maxUnsentBytes) await sink.drained()
    }
  } finally {
    clearInterval(beat)
    ending.stop()
  }
}

/** Closes the messages once the execution has ended and no more of them come. */
class EndWatch {
  readonly #timer: NodeJS.Timeout
  #heardAt = performance.now()

  constructor({ bus }: WorkflowService, id: string, messages: ConsumerMessages) {
    const look = async () => {
      if (performance.now() - this.#heardAt < stragglersMs) return
      const { state } = await load(bus, execution, executionPlace(id))
      if (isEnded(state.stage) && performance.now() - this.#heardAt >= stragglersMs) await messages.close()
    }
    // A bus that is away is asked again.
    this.#timer = setInterval(() => void look().catch(() => undefined), endCheckMs)
  }

  heard(): void {
    this.#heardAt = performance.now()
  }

  stop(): void {
    clearInterval(this.#timer)
  }
}

function linesOf(data: Uint8Array): readonly ExecutionLogLine[] {
  return (JSON.parse(Buffer.from(data).toString('utf8')) as ExecutionLogBatch).lines
}
