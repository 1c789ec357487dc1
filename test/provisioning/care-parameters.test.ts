import t from 'tap'
import { planParameters } from '../../workers/provisioning/local/parameters/plan.ts'
import { startFailureReason } from '../../workers/provisioning/local/parameters/postgres-parameters.ts'
import { readNumber, type Setting } from '../../workers/provisioning/local/parameters/setting.ts'

const setting = (name: string, rest: Partial<Setting>): [string, Setting] => [
  name,
  {
    name,
    setting: '100',
    unit: null,
    vartype: 'integer',
    context: 'sighup',
    min: '1',
    max: '262143',
    enumvals: null,
    pendingRestart: false,
    ...rest,
  },
]
const settings = new Map([
  setting('max_connections', { context: 'postmaster' }),
  setting('superuser_reserved_connections', { setting: '3', context: 'postmaster', min: '0' }),
  setting('work_mem', { setting: '4096', unit: 'kB', min: '64', max: '2147483647', context: 'user' }),
  setting('shared_buffers', { setting: '16384', unit: '8kB', min: '16', max: '1073741823', context: 'postmaster' }),
  setting('random_page_cost', { vartype: 'real', min: '0', max: '1.79769e+308' }),
  setting('checkpoint_timeout', { unit: 's', min: '30', max: '86400', setting: '300' }),
  setting('enable_seqscan', { vartype: 'bool', min: null, max: null, setting: 'on' }),
  setting('wal_compression', { vartype: 'enum', enumvals: ['pglz', 'lz4', 'on', 'off'], setting: 'off' }),
  setting('block_size', { context: 'internal' }),
  setting('application_name', { vartype: 'string' }),
])

t.test('parameters are held against type, unit, range and words', async (t) => {
  const good: [string, string][] = [
    ['max_connections', '200'], ['work_mem', '64MB'], ['work_mem', '1 GB'], ['work_mem', '8192'], ['shared_buffers', '128MB'],
    ['random_page_cost', '1.1'], ['checkpoint_timeout', '15min'], ['enable_seqscan', 'OFF'], ['wal_compression', 'lz4'], ['application_name', "a'b"],
  ] // biome-ignore format: a table
  for (const [name, value] of good) t.strictSame(planParameters(settings, { [name]: value }).values, { [name]: value })
  const bad: [string, string, RegExp][] = [
    ['max_connections', 'many', /whole number/], ['max_connections', '0', /between 1 and 262143/], ['max_connections', '3', /reserved connections/],
    ['max_connections', '10MB', /whole number/], ['work_mem', '1kB', /between 64/], ['work_mem', '4s', /kB, MB/], ['work_mem', '1 mb', /whole number/],
    ['checkpoint_timeout', '2d', /between 30 and 86400/], ['checkpoint_timeout', '10', /between 30/], ['enable_seqscan', 'maybe', /on or off/],
    ['wal_compression', 'zip', /pglz, lz4, on, off/], ['block_size', '4096', /fixed when the server is built/], ['maxconnections', '5', /perhaps you meant max_connections/],
    ['nonsense', '5', /no parameter nonsense/], ['application_name', 'a\nb', /one line/],
    ['archive_command', 'x', /managed by the platform/], ['SSL', 'off', /managed by the platform/], ['recovery_target_time', 'x', /managed/], ['shared_preload_libraries', 'x', /managed/],
  ] // biome-ignore format: a table
  for (const [name, value, message] of bad) {
    t.throws(
      () => planParameters(settings, { [name]: value }),
      { status: 400, field: `parameters.${name}`, message },
      `${name} = ${value}`,
    )
  }
  const many = Object.fromEntries(Array.from({ length: 101 }, (_, n) => [`a${n}`, '1']))
  t.throws(() => planParameters(settings, many), { field: 'parameters', message: /more than 100/ })
})

t.test('the plan says what takes a restart and which server goes first', async (t) => {
  t.match(planParameters(settings, { max_connections: '200', work_mem: '8MB' }), {
    restart: ['max_connections'],
    reload: ['work_mem'],
    raised: ['max_connections'],
    lowered: [],
  })
  t.match(planParameters(settings, { max_connections: '50' }), { raised: [], lowered: ['max_connections'] })
  t.match(planParameters(settings, { max_connections: '100' }), { raised: [], lowered: [] })
})

t.test('numbers with units, and the reason of a failed start', async (t) => {
  const cases: [string, string | null, number | undefined][] = [
    ['1MB', '8kB', 128], ['90s', 'ms', 90_000], ['1h', 'min', 60], ['.5', null, 0.5], ['1e3', null, 1000], ['2', 'kB', 2], ['x', null, undefined], ['1kb', 'kB', undefined],
  ] // biome-ignore format: a table
  for (const [text, unit, number] of cases) t.equal(readNumber(text, unit), number, `${text} in ${unit}`)
  const log =
    '2026-11-21 07:00:00 UTC [1] LOG:  starting\n2026-11-21 UTC [1] FATAL:  could not access file "/usr/lib/x/none": No such file'
  t.equal(startFailureReason(log), 'could not access file a file: No such file')
  t.equal(startFailureReason(''), 'the server did not become ready in time')
})
