import { execFileSync } from 'node:child_process'
import { mkdtempSync, readFileSync, rmSync, statSync } from 'node:fs'
import { availableParallelism, tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { jetstreamManager } from '@nats-io/jetstream'
import { connect, type NatsConnection } from '@nats-io/transport-node'
import t from 'tap'
import { addressOf, connectBus } from '../../bus/connect.ts'
import * as subjects from '../../bus/subject.ts'
import { reconcileStreams, streamSpecs } from '../../bus/topology.ts'
import { openBus } from '../../ops/bus.ts'
import { batchCommand } from '../../ops/local/batch-policy.ts'
import { lastNatsUrl, startNats } from '../../ops/local/nats-server.ts'
import { createLog } from '../../ops/log.ts'
import { loadConfig } from '../../schemas/config/load.ts'
import { mayMount } from '../support/may-mount.ts'
import { testNats, testNatsBinary } from '../support/servers.ts'

t.setTimeout(60_000)
t.jobs = 1

const bare = (url: string) => url.replace(/\/\/[^@]*@/, '//')

t.test('addresses', async (t) => {
  const table: readonly [string, object][] = [
    ['nats://h:4222', { servers: ['nats://h:4222'] }],
    ['h', { servers: ['h'] }],
    ['nats://me:p%40w@h:1', { servers: ['nats://h:1'], user: 'me', pass: 'p@w' }],
    ['nats://me:p@w:d@h:1', { servers: ['nats://h:1'], user: 'me', pass: 'p@w:d' }],
    ['nats://word@h:1', { servers: ['nats://h:1'], token: 'word' }],
    ['nats://h:1, nats://a:b@[::1]:2,c:d@i', { servers: ['nats://h:1', 'nats://[::1]:2', 'i'], user: 'a', pass: 'b' }],
  ]
  for (const [url, expected] of table) t.strictSame(addressOf(url), expected, url)
})

t.test('the platform sends on subjects that are known to be its own', async (t) => {
  const made = Object.values(subjects as Record<string, unknown>).flatMap((each) =>
    typeof each === 'function' ? [String((each as (...texts: string[]) => unknown)('status', 'b', 'c', 'd'))] : [],
  )
  const patterns = Object.values(subjects).filter((each) => typeof each === 'string')
  const streams = streamSpecs().flatMap((spec) => spec.subjects)
  const own = new Set(subjects.platformSubjects.map((pattern) => pattern.split('.')[0]))
  const foreign = [...made, ...patterns, ...streams].filter((subject) => {
    return subject.includes('.') && !subject.startsWith('$') && !own.has(subject.split('.')[0])
  })
  t.ok(made.length > 20 && streams.length > 20)
  t.strictSame(foreign, [])
})

const skip = !mayMount() && 'only root may mount a small disk'
t.test('a server of our own has room for what streams may grow to, on a small disk too', { skip }, async (t) => {
  const disk = mkdtempSync(join(tmpdir(), 'busbar-disk-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=300m', 'tmpfs', disk])
  t.teardown(() => {
    execFileSync('umount', [disk])
    rmSync(disk, { recursive: true })
  })
  const nats = await startNats({ dataDir: join(disk, 'nats'), binary: testNatsBinary() })
  t.teardown(() => nats.kill('SIGQUIT'))
  const open = (...argv: string[]) => {
    const { values } = loadConfig({ argv: [`--app.nats.url=${nats.url}`, ...argv] })
    return openBus(values, createLog('error'), 'test', 'all')
  }
  const bus = await open()
  t.teardown(() => bus.close())
  t.ok((await bus.jetstream.publish('log.functions.x', '{}')).seq > 0)
  const more = open(`--app.functions.kv-total-size=${64 * 1024 ** 3}`)
  await t.rejects(more, { name: 'OperatorError', message: /KV_.*: set max_file: 32GB in the jetstream block/ })
})

t.test('a server of our own', async (t) => {
  const nats = await testNats(t)
  const bus = await connectBus({ url: nats.url, name: 'test' })
  t.teardown(() => bus.close())
  await reconcileStreams(bus, streamSpecs())
  const home = nats.dataDir
  const appsUrl = readFileSync(join(home, 'apps-url'), 'utf8').trim()

  await t.test('keeps its words for its owner, over restarts', async (t) => {
    t.equal(lastNatsUrl(home), nats.url)
    t.equal(lastNatsUrl(dirname(home)), undefined)
    for (const file of ['url', 'apps-url', 'busbar.password', 'apps.password', 'nats.conf']) {
      t.equal(statSync(join(home, file)).mode & 0o077, 0, file)
    }
    await nats.restart()
    t.equal(lastNatsUrl(home), nats.url)
    while (!bus.connected) await new Promise((again) => setTimeout(again, 10))
  })

  const skip = batchCommand().length === 0 && 'this system has no policy for batches'
  await t.test('runs under the policy for batches, and collects late', { skip }, async (t) => {
    const place = `/proc/${readFileSync(join(home, 'nats.pid'), 'utf8').trim()}`
    const stat = readFileSync(`${place}/stat`, 'latin1')
    t.equal(stat.slice(stat.lastIndexOf(')') + 2).split(' ')[38], '3', 'proc_pid_stat(5), sched.h')
    const environ = readFileSync(`${place}/environ`, 'latin1').split('\0')
    t.ok(environ.includes('GOGC=400'))
    t.ok(environ.includes(`GOMAXPROCS=${Math.max(1, Math.floor(availableParallelism() / 2))}`), 'the others work too')
  })

  await t.test('takes nobody in that it does not know', async (t) => {
    for (const url of [bare(nats.url), nats.url.replace(/:[^:@]*@/, ':wrong@'), nats.url.replace('busbar:', 'apps:')]) {
      await t.rejects(connect({ ...addressOf(url), reconnect: false }), { name: 'AuthorizationError' })
    }
  })

  await t.test('lets apps talk to each other, and neither hear nor forge what the platform says', async (t) => {
    const open = async (): Promise<NatsConnection> => {
      const connection = await connect({ ...addressOf(appsUrl), inboxPrefix: '_INBOX_apps', reconnect: false })
      t.teardown(() => connection.close())
      return connection
    }
    const [app, other] = [await open(), await open()]
    void (async () => {
      for await (const message of other.subscribe('orders.*')) message.respond(`taken ${message.string()}`)
    })()
    await other.flush()
    t.equal((await app.request('orders.new', '7', { timeout: 5_000 })).string(), 'taken 7')

    const heard: string[] = []
    const everything = app.subscribe('>')
    void (async () => {
      for await (const { subject } of everything) heard.push(subject)
    })()
    const refused: string[] = []
    void (async () => {
      for await (const status of app.status()) {
        if (status.type === 'error') refused.push(status.error.message)
      }
    })()
    const before = (await bus.manager.streams.info('EVT_WORKFLOWS')).state.messages
    const asked = [
      'evt.workflows.flow.x',
      'command.executions.x',
      'answers.x',
      'cdc.main.public.t.insert',
      '$KV.platform.x',
    ]
    for (const subject of [...asked, '_INBOX.x', '$JS.API.STREAM.PURGE.EVT_WORKFLOWS']) app.publish(subject, '{}')
    app.publish('orders.other', '8')
    for (const subject of ['cdc.>', '_INBOX.>']) {
      app.subscribe(subject, { callback: (error) => void refused.push(error?.message ?? 'heard') })
    }
    bus.connection.publish('answers.gateway', 'secret')
    bus.connection.publish('orders.third', 'public')
    await bus.connection.flush()
    await app.flush()
    while (!heard.includes('orders.third')) await new Promise((again) => setTimeout(again, 10))
    t.notOk(
      heard.some((subject) => !subject.startsWith('orders.') && !subject.startsWith('_INBOX_apps.')),
      `${heard}`,
    )
    t.equal((await bus.manager.streams.info('EVT_WORKFLOWS')).state.messages, before)
    await t.rejects(jetstreamManager(app, { timeout: 500 }))
    t.ok(refused.length >= 9, `${refused.length} refusals`)
  })
})
