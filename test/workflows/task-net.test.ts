import { createServer, type Socket } from 'node:net'
import { setTimeout as delay } from 'node:timers/promises'
import t from 'tap'
import { taskNet } from '../../workers/workflows/task-net.ts'
import { failure, openSockets } from './call-plugin.ts'

const server = createServer((socket: Socket) => socket.on('error', () => undefined).pipe(socket))
await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
t.teardown(() => server.close())
const { port } = server.address() as { port: number }
const never = new AbortController().signal
const open = taskNet({ allow: ['loopback'], deny: [] })

t.test('a connection that is allowed is open, and gone when the task is cancelled', async (t) => {
  const before = openSockets()
  const controller = new AbortController()
  const socket = await open.connect({ host: 'localhost', port, signal: controller.signal })
  const echo = new Promise((resolve) => socket.once('data', resolve))
  socket.write('x')
  t.equal(String(await echo), 'x')
  controller.abort(new Error('cancelled'))
  t.equal(socket.destroyed, true)
  while (openSockets() > before) await delay(5)
})

t.test('what is not public is refused unless it is allowed, by address and by name', async (t) => {
  const closed = taskNet({ allow: [], deny: [] })
  for (const host of [
    '127.0.0.1',
    'localhost',
    '::1',
    '[::1]',
    '10.0.0.1',
    '192.168.0.1',
    '169.254.169.254',
    '::ffff:10.0.0.1',
    '0.0.0.0',
  ])
    await t.rejects(
      closed.connect({ host, port, signal: never }),
      failure('refused', /may not be connected to from here/),
      host,
    )
  await t.rejects(open.connect({ host: '169.254.169.254', port: 80, signal: never }), failure('refused'))
  await t.rejects(open.resolve('10.0.0.1', never), failure('refused', '"10.0.0.1" may not be connected to from here'))
  t.match(await open.resolve('localhost', never), [{ address: /^(127\.0\.0\.1|::1)$/ }])
  await t.rejects(taskNet({ allow: ['loopback'], deny: ['localhost'] }).resolve('localhost', never), failure('refused'))
})

t.test('what is not there can be tried again', async (t) => {
  await t.rejects(
    open.connect({ host: '127.0.0.1', port: 1, signal: never }),
    failure('unavailable', /127\.0\.0\.1:1 cannot be connected to: ECONNREFUSED/),
  )
  await t.rejects(
    open.connect({ host: 'none.invalid', port: 1, signal: never }),
    failure('unavailable', /"none\.invalid" cannot be found/),
  )
  const aborted = AbortSignal.abort(new Error('cancelled'))
  await t.rejects(open.connect({ host: '127.0.0.1', port, signal: aborted }), { message: 'cancelled' })
})

t.test('the bus of the platform is closed to tasks, whatever it is called', async (t) => {
  const bus = { hostname: 'localhost', port }
  const net = taskNet({ allow: ['loopback'], deny: [] }, () => [bus])
  for (const host of ['127.0.0.1', 'localhost', '::ffff:127.0.0.1']) {
    await t.rejects(net.connect({ host, port, signal: never }), failure('refused', /own bus/), host)
  }
  bus.port++
  const socket = await net.connect({ host: '127.0.0.1', port, signal: never })
  socket.destroy()
})
