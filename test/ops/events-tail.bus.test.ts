import { jetstreamManager } from '@nats-io/jetstream'
import { connect, headers } from '@nats-io/transport-node'
import t from 'tap'
import { addressOf } from '../../bus/connect.ts'
import { startBusbar } from '../support/command.ts'
import { testNats } from '../support/servers.ts'

t.setTimeout(60_000)

t.test('events tail', async (t) => {
  const { url } = await testNats(t)
  const connection = await connect({ ...addressOf(url) })
  t.teardown(() => connection.close())
  await (await jetstreamManager(connection)).streams.add({ name: 'cdc-stream', subjects: ['cdc.>'] })
  const publish = async (subject: string, body: string) => {
    const head = headers()
    head.set('Busbar-Index', '0')
    // A request: its reply is the stream's word that the message is stored.
    await connection.request(subject, body, { headers: head, timeout: 5000 })
  }
  await publish('cdc.main.public.film.insert', '{"id":1}')
  await publish('cdc.main.public.actor.insert', '{"id":2}')
  const tail = (...args: string[]) => startBusbar(['events', 'tail', `--app.nats.url=${url}`, ...args])

  await t.test('from the start, of one table', async (t) => {
    const reading = tail('--subject', 'cdc.*.public.film.*', '--from', 'start')
    await reading.printed('1 cdc.main.public.film.insert {"id":1}\n')
    await publish('cdc.main.public.film.delete', '{"id":1}')
    await reading.printed('3 cdc.main.public.film.delete {"id":1}\n')
    reading.process.kill('SIGINT')
    const { code, stdout } = await reading.finished
    t.equal(code, 0)
    t.notMatch(stdout, 'actor')
  })

  await t.test('from a sequence, as JSON with headers', async (t) => {
    const reading = tail('--from', '2', '--json')
    await reading.printed('film.delete')
    reading.process.kill('SIGINT')
    const { stdout } = await reading.finished
    t.strictSame(JSON.parse(stdout.split('\n')[0] ?? ''), {
      subject: 'cdc.main.public.actor.insert',
      sequence: 2,
      headers: { 'Busbar-Index': '0' },
      data: { id: 2 },
    })
  })

  await t.test('only what comes from now on', async (t) => {
    const reading = tail('--subject', 'log.>')
    const repeat = setInterval(() => connection.publish('log.execution.7', 'plain text'), 50)
    await reading.printed('log.execution.7 plain text\n')
    clearInterval(repeat)
    reading.process.kill('SIGINT')
    t.notMatch((await reading.finished).stdout, 'cdc.')
  })

  await t.test('a subject that no stream holds', async (t) => {
    const { code, stderr } = await tail('--subject', 'work.>', '--from', 'start').finished
    t.equal(code, 1)
    t.equal(stderr, 'busbar: No stream holds work.>.\n')
  })
})
