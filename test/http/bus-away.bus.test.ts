import { setTimeout as sleep } from 'node:timers/promises'
import t from 'tap'
import { Type } from 'typebox'
import { append } from '../../bus/append.ts'
import { connectBus } from '../../bus/connect.ts'
import { defineEvent, defineEvents, newId } from '../../bus/message.ts'
import { eventSubject } from '../../bus/subject.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { createHttpServer } from '../../gateways/http/server.ts'
import { testNats } from '../support/servers.ts'

const Noted = defineEvent('test.note.noted', Type.Object({ text: Type.String() }))
const events = defineEvents(Noted)
const stream = 'EVT_WORKFLOWS'

t.test('while the bus is away writes are 503 with Retry-After, and whatever was acknowledged is stored', async (t) => {
  const server = await testNats(t, { syncInterval: 'always' })
  const bus = await connectBus({ url: server.url, name: 'test', timeoutMs: 1_000 })
  t.teardown(() => bus.close())
  await reconcileStreams(bus, streamSpecs())
  const faults: unknown[] = []
  const app = await createHttpServer({
    maxBodyBytes: 1000,
    corsOrigins: ['*'],
    onFault: ({ error }) => faults.push(error),
  })
  t.teardown(() => app.close())
  app.post('/notes/:id', async (request, reply) => {
    const { id } = request.params as { readonly id: string }
    const message = { id: newId(), facts: [Noted.of({ text: id })] }
    await append(bus, { stream, subject: eventSubject('workflows', 'note', id), expectedSequence: 0, events, message })
    return reply.code(201).send({ id })
  })
  const post = (id: string) => app.inject({ method: 'POST', url: `/notes/${id}` })

  const acknowledged: string[] = []
  let refused = 0
  const writeUntil = async (done: () => boolean) => {
    for (let n = 0; !done(); n++) {
      const id = `n${acknowledged.length}-${refused}-${n}`
      const { statusCode, headers, body } = await post(id)
      if (statusCode === 201) acknowledged.push(id)
      else {
        refused += 1
        // A refusal takes no time: without a pause the connection could not come back.
        await sleep(10)
        t.match(
          { statusCode, headers, body: JSON.parse(body) },
          {
            statusCode: 503,
            headers: { 'retry-after': /^\d+$/ },
            body: { code: 'http/unavailable', requestId: String },
          },
        )
      }
    }
  }
  const before = () => acknowledged.length >= 20
  await writeUntil(before)
  const killed = server.kill('SIGKILL')
  await writeUntil(() => refused >= 5)
  await killed
  await server.restart()
  const later = acknowledged.length + 20
  await writeUntil(() => acknowledged.length >= later)

  const { state } = await bus.manager.streams.info(stream, { subjects_filter: 'evt.workflows.note.>' })
  const stored = new Set(Object.keys(state.subjects ?? {}))
  t.same(
    acknowledged.filter((id) => !stored.has(eventSubject('workflows', 'note', id))),
    [],
  )
  t.same(faults, [])
})
