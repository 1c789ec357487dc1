import { DeliverPolicy } from '@nats-io/jetstream'
import type { FastifyInstance, FastifyReply, FastifyRequest } from 'fastify'
import type { Bus } from '../../bus/connect.ts'
import { asking } from '../../bus/publish.ts'
import { logSubject } from '../../bus/subject.ts'
import { Unavailable } from '../../schemas/failure.ts'
import type { LogLine } from '../../schemas/functions/call.ts'
import { eventText, openEventStream } from '../http/sse.ts'
import { LogLines, linesOf, logStream } from './log-lines.ts'
import { functionId, invalid } from './request.ts'
import { allowManagement, type FunctionService } from './service.ts'

const defaultLines = 100
const maxLines = 1_000
const heartbeatMs = 15_000
/** Messages that the bus sends to one client's consumer ahead: it drops a connection on which too much has piled up. */
const maxAhead = 4
const maxUnsentBytes = 1024 * 1024

/** What a function has written: the newest lines, or with `Accept: text/event-stream` each line as it comes. */
export function logRoute(app: FastifyInstance, service: FunctionService): void {
  const lines = new LogLines(service.bus)
  let clients = 0
  app.get<{ Params: { id: string } }>('/scripts/:id/logs', async (request, reply) => {
    await allowManagement(service, request)
    const { id } = service.view.get(functionId(request.params.id))
    if (!/\btext\/event-stream\b/.test(request.headers.accept ?? '')) {
      await service.workers.flushed()
      return { id, logs: (await lines.newest(id, readLimit(request))).map(shown) }
    }
    if (clients >= service.maxLogClients) {
      throw new Unavailable('http/unavailable', 'As many clients as may be are following logs')
    }
    clients++
    try {
      await live(service.bus, id, request, reply)
    } finally {
      clients--
    }
    return reply
  })
}

function readLimit({ url }: FastifyRequest): number {
  const query = new URLSearchParams(url.split('?')[1] ?? '')
  const unknown = [...query.keys()].find((name) => name !== 'limit')
  if (unknown !== undefined) throw invalid(`Unknown parameter "${unknown.slice(0, 100)}": there is limit`)
  const text = query.get('limit') ?? String(defaultLines)
  if (!/^[1-9]\d{0,3}$/.test(text) || Number(text) > maxLines) throw invalid(`limit must be 1 to ${maxLines}`)
  return Number(text)
}

async function live(bus: Bus, id: string, request: FastifyRequest, reply: FastifyReply): Promise<void> {
  const from = /^\d{1,15}$/.exec(String(request.headers['last-event-id'] ?? ''))
  const begin =
    from === null
      ? { deliver_policy: DeliverPolicy.New }
      : { deliver_policy: DeliverPolicy.StartSequence, opt_start_seq: Number(from[0]) + 1 }
  const consumer = await asking(bus, () =>
    bus.jetstream.consumers.get(logStream, { filter_subjects: logSubject('function', id), ...begin }),
  )
  const messages = await asking(bus, () => consumer.consume({ max_messages: maxAhead }))
  const events = openEventStream(reply, { retryMs: 1_000 })
  const beat = setInterval(() => events.beat(), heartbeatMs)
  events.onClose(() => void messages.close())
  try {
    for await (const message of messages) {
      const lines = linesOf(message.data).map((line) => JSON.stringify(shown(line)))
      events.write(lines.map((data) => eventText('log', data, message.seq)).join(''))
      if (events.unsentBytes > maxUnsentBytes) await events.drained()
    }
  } finally {
    clearInterval(beat)
    events.end('')
  }
}

function shown({ at, level, text, invocationId, revision }: LogLine) {
  return { timestamp: new Date(at).toISOString(), level, message: text, invocationId, revision }
}
