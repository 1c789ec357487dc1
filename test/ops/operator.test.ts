import t from 'tap'
import { describe } from '../../ops/explain.ts'
import { OperatorError } from '../../ops/local/operator-error.ts'
import { findRole, requireOwnPorts, roles } from '../../ops/roles.ts'
import { splitArguments } from '../../ops/settings.ts'
import { shownConfig } from '../../ops/show-config.ts'
import { keepRunning, type Running } from '../../ops/supervise.ts'
import { summarise } from '../../ops/test.ts'
import { pageDefaults } from '../../ops/up-pages.ts'
import { ConfigError } from '../../schemas/config/config-error.ts'
import { loadConfig } from '../../schemas/config/load.ts'

t.test('keys have a dot in their name, options have none', async (t) => {
  t.strictSame(
    splitArguments(['up', '--servers-only', '--app.nats.url=nats://x', '--config=a.yml', '--app.nats.enabled', 'b.c']),
    {
      keys: ['--app.nats.url=nats://x', '--app.nats.enabled'],
      file: 'a.yml',
      rest: ['up', '--servers-only', 'b.c'],
    },
  )
})

t.test('config shows values with their sources and no secret', async (t) => {
  const secrets = {
    SPRING_DATASOURCE_URL: 'jdbc:postgresql://h/x?user=me&password=hunter1',
    SPRING_DATASOURCE_PASSWORD: 'hunter2',
    APP_NATS_URL: 'nats://me:hunter3@h:4222',
    APP_JWT_SECRET: 'hunter4-hunter4-hunter4-hunter4-hunter4',
  }
  const loaded = loadConfig({ env: secrets, argv: ['--app.max-page-size=7'] })
  for (const json of [true, false]) t.notMatch(shownConfig(loaded, { json }), /hunter/)
  const shown = JSON.parse(shownConfig(loaded, { json: true }))
  t.strictSame(shown['app.max-page-size'], { value: 7, source: 'command line' })
  t.strictSame(shown['spring.datasource.password'], { value: '***', source: 'environment SPRING_DATASOURCE_PASSWORD' })
  t.strictSame(shown['app.jwt.issuer'], { value: null, source: 'default' })
  t.match(shownConfig(loaded, { json: false }), /^app\.max-page-size +7 +command line$/m)
})

t.test(
  "what the operator can mend is one line, a bug keeps its stack, and neither holds a URL's password",
  async (t) => {
    const system = (fields: object) => Object.assign(new Error('x'), fields)
    t.equal(describe(new OperatorError('Stop it.')), 'Stop it.')
    t.equal(describe(new ConfigError('a: b')), 'a: b')
    t.match(describe(system({ code: 'EADDRINUSE', syscall: 'listen', port: 1 })), /^Port 1 is in use[^\n]+$/)
    t.match(describe(system({ code: 'ENOSPC', path: '/x' })), /^The disk is full \(\/x\)[^\n]+$/)
    t.match(describe(system({ code: 'EACCES', syscall: 'open', path: '/x' })), /^No right to open \/x[^\n]+$/)
    t.match(describe(new TypeError('postgres://me:pw@h')), /TypeError: postgres:\/\/me:\*\*\*@h\n +at /)
  },
)

t.test('server.port serves one gateway, several need their own keys', async (t) => {
  const config = loadConfig({ argv: ['--server.port=9000'] }).values
  const gateway = findRole('gateway:rest')
  t.doesNotThrow(() => requireOwnPorts(config, [findRole('worker:capture'), gateway]))
  t.throws(() => requireOwnPorts(config, roles), { name: 'OperatorError', message: /gateway\.rest\.port/ })
  t.throws(() => findRole('gateway:resd'), { name: 'OperatorError', message: /gateway:rest/ })
})

t.test('what ends is started again until it is told to stop', async (t) => {
  const lines: string[] = []
  const endings: ((reason: string) => void)[] = []
  const start = async (): Promise<Running> => {
    if (endings.length === 1 && lines.length === 1) throw new OperatorError('not yet')
    const { promise, resolve } = Promise.withResolvers<string>()
    endings.push(resolve)
    return { url: 'x://y', ended: promise, stop: async () => resolve('stopped'), kill: async () => resolve('killed') }
  }
  const again = Promise.withResolvers<void>()
  const kept = await keepRunning({ name: 'thing', start }, (line) => {
    lines.push(line)
    if (line === 'thing runs again') again.resolve()
  })
  t.equal(kept.url, 'x://y')
  endings[0]?.('SIGSEGV')
  await again.promise
  await kept.stop()
  t.strictSame(lines, [
    'thing ended (SIGSEGV); starting it again in 0.5 s',
    'thing did not start: not yet',
    'thing runs again',
  ])
  await t.rejects(
    keepRunning({ name: 'thing', start: () => Promise.reject(new OperatorError('never')) }, () => undefined),
    new OperatorError('never'),
  )
})

t.test('assertions of a TAP stream are counted once, whatever the nesting', async (t) => {
  const printed: string[] = []
  const summary = summarise((line) => printed.push(line))
  const stream = `TAP version 14
# Subtest: test/a.test.ts
    # Subtest: one
        ok 1 - fine
        not ok 2 - should be equal
          ---
          diff: "left, right"
          ...
        ok 3 - later # SKIP not here
        1..3
    not ok 1 - one # time=1ms
    # Subtest: two
        1..0
    ok 2 - two # time=1ms
    1..2
not ok 1 - test/a.test.ts # time=3ms
# Subtest: test/b.test.ts
    ok 1 - plain
    1..1
not ok 2 - test/b.test.ts # time=1ms
  ---
  timeout: 30000
  ...
1..2`
  for (const line of stream.split('\n')) summary.line(line)
  t.strictSame(summary.total(), { passed: 2, failed: 2 }, 'the second file failed by itself')
  t.ok(printed.includes('not ok 2 - should be equal'))
  t.ok(printed.includes('          diff: "left, right"'))
  t.ok(printed.includes('  timeout: 30000'))
  t.notOk(printed.some((line) => /fine|# time=1ms$/.test(line) && line.startsWith('ok')))
})

t.test('what `up` takes where nothing is said', async (t) => {
  const taken = (...argv: string[]) => pageDefaults(loadConfig({ argv }))
  t.strictSame(taken(), {
    'gateway.functions.alias-port': 24_006,
    'app.functions.fetch-allow': ['loopback'],
    'app.workflows.scripts': true,
    'gateway.graphql.url': 'auto',
    'app.cors-origins': ['loopback'],
  })
  t.strictSame(taken('--server.host=0.0.0.0', '--gateway.functions.port=8001'), { 'gateway.graphql.url': 'auto' })
  t.strictSame(
    taken('--app.functions.fetch-allow=private', '--app.workflows.scripts=false', '--app.cors-origins=*'),
    { 'gateway.functions.alias-port': 24_006, 'gateway.graphql.url': 'auto' },
    'what is said counts',
  )
})
