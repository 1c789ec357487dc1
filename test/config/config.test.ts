import { readFileSync } from 'node:fs'
import fc from 'fast-check'
import t from 'tap'
import { configReference } from '../../ops/config-reference.ts'
import { ConfigError } from '../../schemas/config/config-error.ts'
import { type DatabaseAddress, readDatabaseUrl, type Tls, writeDatabaseUrl } from '../../schemas/config/jdbc-url.ts'
import { loadConfig } from '../../schemas/config/load.ts'
import { maskUrl } from '../../schemas/config/mask.ts'
import { expectation, readValue, writeValue } from '../../schemas/config/value.ts'
import { type ConfigName, configKeys, environmentName } from '../../schemas/config.ts'

const names = Object.keys(configKeys) as ConfigName[]
const yml = (text: string) => ({ files: [{ name: 'application.yml', text }] })

t.test('the keys of the specification keep their names, environment names and defaults', async (t) => {
  const written: readonly (readonly [ConfigName, string, unknown])[] = [
    ['app.schemas', 'APP_SCHEMAS', ['public']],
    ['app.database-type', 'APP_DATABASE_TYPE', 'postgresql'],
    ['spring.datasource.url', 'SPRING_DATASOURCE_URL', undefined],
    ['spring.datasource.username', 'SPRING_DATASOURCE_USERNAME', undefined],
    ['spring.datasource.password', 'SPRING_DATASOURCE_PASSWORD', undefined],
    ['app.allowed-schema', 'APP_ALLOWED_SCHEMA', 'public'],
    ['app.default-page-size', 'APP_DEFAULT_PAGE_SIZE', 100],
    ['app.max-page-size', 'APP_MAX_PAGE_SIZE', 1000],
    ['gateway.rest.port', 'GATEWAY_REST_PORT', 20000],
    ['gateway.graphql.port', 'GATEWAY_GRAPHQL_PORT', 10000],
    ['app.nats.enabled', 'APP_NATS_ENABLED', false],
    ['app.nats.url', 'APP_NATS_URL', 'nats://localhost:4222'],
    ['app.nats.stream-name', 'APP_NATS_STREAM_NAME', 'cdc-stream'],
  ]
  const { values, sources } = loadConfig({})
  for (const [name, variable, value] of written) {
    t.equal(environmentName(name), variable)
    t.strictSame(values[name], value, name)
    t.equal(sources[name], 'default')
  }
})

t.test('every default passes its own schema, and reads back from its written form', async (t) => {
  for (const name of names) {
    const { default: value } = configKeys[name]
    if (value === undefined) continue
    t.strictSame(readValue(configKeys[name], writeValue(value)), { value }, name)
  }
})

t.test('no two keys share a name in the environment', async (t) => {
  const variables = names.flatMap((name) => [
    ...new Set([environmentName(name), environmentName(name).replace(/_/g, '')]),
  ])
  t.equal(new Set(variables).size, variables.length)
})

t.test('the command line goes before the environment, that before the file, that before the default', async (t) => {
  const file = yml('app:\n  nats:\n    stream-name: from-file\n')
  const env = { APP_NATS_STREAM_NAME: 'from-env' }
  const argv = ['--app.nats.stream-name=from-argv']
  const pick = (input: Parameters<typeof loadConfig>[0]) => {
    const { values, sources } = loadConfig(input)
    return [values['app.nats.stream-name'], sources['app.nats.stream-name']]
  }
  t.strictSame(pick({}), ['cdc-stream', 'default'])
  t.strictSame(pick({ ...file }), ['from-file', 'application.yml:3'])
  t.strictSame(pick({ ...file, env }), ['from-env', 'environment APP_NATS_STREAM_NAME'])
  t.strictSame(pick({ ...file, env, argv }), ['from-argv', 'command line'])
})

t.test('files may nest or dot their keys, list their lists, and fill in from the environment', async (t) => {
  const text = [
    'app.max-page-size: 50',
    'app:',
    '  defaultPageSize: 20',
    '  schemas: [public, sales]',
    '  nats.enabled: on',
    'spring:',
    '  datasource:',
    '    url: ${DB_URL:jdbc:postgresql://localhost/db}',
    '    password: 007',
  ].join('\n')
  const { values, sources } = loadConfig(yml(text))
  t.match(values, {
    'app.max-page-size': 50,
    'app.default-page-size': 20,
    'app.schemas': ['public', 'sales'],
    'app.nats.enabled': true,
    'spring.datasource.url': 'jdbc:postgresql://localhost/db',
    'spring.datasource.password': '007',
  })
  t.equal(sources['spring.datasource.password'], 'application.yml:9')
  const filled = loadConfig({ ...yml(text), env: { DB_URL: 'jdbc:postgresql://other/db' } })
  t.equal(filled.values['spring.datasource.url'], 'jdbc:postgresql://other/db')
})

t.test('units, flags and lists', async (t) => {
  const read = (name: ConfigName, written: string) => loadConfig({ argv: [`--${name}=${written}`] }).values[name]
  t.equal(read('app.statement-timeout', '5s'), 5000)
  t.equal(read('app.statement-timeout', '250'), 250)
  t.equal(read('app.changes.retention-age', '2d'), 172_800_000)
  t.equal(read('app.max-body-size', '2MB'), 2_097_152)
  t.equal(read('app.max-body-size', '64kb'), 65_536)
  t.strictSame(read('app.schemas', ' a, b ,'), ['a', 'b'])
  t.equal(loadConfig({ argv: ['--app.nats.enabled'] }).values['app.nats.enabled'], true)
  t.equal(loadConfig({ env: { APP_NATS_STREAMNAME: 'x' } }).values['app.nats.stream-name'], 'x')
  t.equal(
    loadConfig({ env: { APP_NATS_STREAM_NAME: '' } }).values['app.nats.stream-name'],
    'cdc-stream',
    'empty is unset',
  )
  t.throws(() => Object.assign(loadConfig({}).values, { 'log.level': 'debug' }), TypeError, 'frozen')
})

t.test('a wrong value or an unknown key is one line with key, source and reason', async (t) => {
  const cases: readonly (readonly [Parameters<typeof loadConfig>[0], string])[] = [
    [
      { argv: ['--app.max-page-size=lots'] },
      'app.max-page-size (command line) must be a whole number between 1 and 100000, not "lots"',
    ],
    [
      { env: { APP_NATS_ENABLED: 'maybe' } },
      'app.nats.enabled (environment APP_NATS_ENABLED) must be true or false, not "maybe"',
    ],
    [
      yml('app:\n  database-type: oracle'),
      'app.database-type (application.yml:2) must be one of postgresql, mysql, not "oracle"',
    ],
    [
      { argv: ['--app.nats.ulr=x'] },
      'app.nats.ulr (command line) is not a configuration key; perhaps you meant app.nats.url',
    ],
    [yml('logging.pattern.console: x'), 'logging.pattern.console (application.yml:1) is not a configuration key'],
    [{ argv: ['--app.nats.url'] }, 'app.nats.url (command line) needs a value: --app.nats.url=<value>'],
    [
      yml('app.schemas: *none'),
      'application.yml is not YAML: Unresolved alias (the anchor must be set before the alias): none',
    ],
    [yml('just text'), 'application.yml must hold keys and values, like `app.max-page-size: 500`'],
    [
      yml('app.max-page-size: [1, 2]'),
      'app.max-page-size (application.yml:1) must be one value, not a list, not "1,2"',
    ],
  ]
  for (const [input, message] of cases) t.throws(() => loadConfig(input), new ConfigError(message))
  t.throws(() => loadConfig(yml('a: b\na: c: d')), {
    name: 'ConfigError',
    message: /^application\.yml:2 is not YAML: [^\n]+$/,
  })
})

t.test('a secret is in no error', async (t) => {
  const short = { argv: ['--app.jwt.secret=hunter2'] }
  t.throws(() => loadConfig(short), new ConfigError('app.jwt.secret (command line) must have 32 characters or more'))
  const bad = 'jdbc:oracle://me:hunter2@db/x?password=hunter3'
  try {
    readDatabaseUrl(bad, { key: 'spring.datasource.url' })
    t.fail('must be refused')
  } catch (error) {
    t.notMatch(String(error), /hunter/)
    t.match(String(error), /^ConfigError: spring\.datasource\.url must look like/)
  }
})

t.test('any text for any key is either read or refused as such', async () => {
  fc.assert(
    fc.property(fc.constantFrom(...names), fc.string(), (name, written) => {
      const reading = readValue(configKeys[name], written)
      return 'value' in reading || reading.reason.startsWith('must ')
    }),
  )
  fc.assert(
    fc.property(fc.string(), (text) => {
      try {
        loadConfig(yml(text))
        return true
      } catch (error) {
        return error instanceof ConfigError && !error.message.includes('\n')
      }
    }),
  )
})

t.test('JDBC and plain URLs', async (t) => {
  const read = (url: string) => readDatabaseUrl(url, { key: 'spring.datasource.url' })
  const cases: readonly (readonly [string, Partial<DatabaseAddress>])[] = [
    ['jdbc:postgresql://db.example:6543/shop', { host: 'db.example', port: 6543, database: 'shop', tls: undefined }],
    ['jdbc:postgresql://localhost/shop?user=me&password=a%26b', { port: 5432, user: 'me', password: 'a&b' }],
    ['jdbc:postgresql:shop', { host: 'localhost', port: 5432, database: 'shop' }],
    ['jdbc:postgresql:/', { host: 'localhost', database: undefined }],
    ['jdbc:postgresql://[::1]:5433/x', { host: '::1', port: 5433 }],
    ['jdbc:postgresql://a:1,b:2/x?targetServerType=primary', { host: 'a', port: 1, database: 'x' }],
    ['postgresql://me:s%40crt@h/x', { user: 'me', password: 's@crt', host: 'h' }],
    ['postgres://me@h', { user: 'me', password: undefined, database: undefined }],
    ['jdbc:postgresql://h/x?currentSchema=a,b&ApplicationName=app', { currentSchema: 'a,b', applicationName: 'app' }],
    ['jdbc:postgresql://h/x?connectTimeout=7&reWriteBatchedInserts=true', { connectTimeoutMs: 7000 }],
  ]
  for (const [url, expected] of cases) t.match(read(url), expected, url)
  const tls = (mode: Tls['mode']) => ({ tls: { mode } })
  t.match(read('jdbc:postgresql://h/x?ssl=true'), tls('verify-full'))
  t.match(read('jdbc:postgresql://h/x?ssl'), tls('verify-full'))
  t.match(read('jdbc:postgresql://h/x?ssl=true&sslmode=require'), tls('encrypt'))
  t.match(read('jdbc:postgresql://h/x?sslmode=verify-ca&sslrootcert=/ca.pem'), {
    tls: { mode: 'verify-ca', rootCertFile: '/ca.pem' },
  })
  t.equal(read('jdbc:postgresql://h/x?sslmode=prefer').tls, undefined)
  for (const [url, reason] of [
    ['jdbc:mysql://h/x', /must look like/],
    ['h:5432/x', /must look like/],
    ['jdbc:postgresql://h:99999/x', /port/],
    ['jdbc:postgresql://h:x/x', /host that cannot be read/],
    ['jdbc:postgresql://h/x?sslmode=maybe', /unknown sslmode/],
    ['jdbc:postgresql://h/%zz', /percent/],
    ['jdbc:postgresql://h/x?connectTimeout=soon', /connectTimeout/],
  ] as const) {
    t.throws(() => read(url), { name: 'ConfigError', message: reason }, url)
  }
})

t.test('an address written as a URL reads back the same', async () => {
  const word = fc.string({ minLength: 1, unit: 'grapheme' })
  const maybe = <T>(arbitrary: fc.Arbitrary<T>) => fc.option(arbitrary, { nil: undefined })
  const address: fc.Arbitrary<DatabaseAddress> = fc.record({
    host: fc.oneof(fc.domain(), fc.ipV4(), fc.ipV6()),
    port: fc.integer({ min: 1, max: 65_535 }),
    database: maybe(word),
    user: maybe(word),
    password: maybe(word),
    tls: maybe(
      fc.record({
        mode: fc.constantFrom<Tls['mode'][]>('encrypt', 'verify-ca', 'verify-full'),
        rootCertFile: maybe(word),
        certFile: maybe(word),
        keyFile: maybe(word),
      }),
    ),
    currentSchema: maybe(word),
    applicationName: maybe(word),
    connectTimeoutMs: maybe(fc.integer({ min: 1, max: 100 }).map((each) => each * 1000)),
    options: maybe(word),
  })
  fc.assert(
    fc.property(address, (given) => {
      const read = readDatabaseUrl(writeDatabaseUrl(given), { key: 'url' })
      return JSON.stringify(read, Object.keys(given).sort()) === JSON.stringify(given, Object.keys(given).sort())
    }),
  )
})

t.test('passwords are masked in any URL', async (t) => {
  t.equal(maskUrl('postgresql://me:pw@h/x'), 'postgresql://me:***@h/x')
  t.equal(maskUrl('nats://me:p@w@h:4222'), 'nats://me:***@h:4222')
  t.equal(
    maskUrl('jdbc:postgresql://h/x?user=a&password=b&ssl=true'),
    'jdbc:postgresql://h/x?user=a&password=***&ssl=true',
  )
  t.equal(maskUrl('jdbc:postgresql://h/x?sslpassword=b'), 'jdbc:postgresql://h/x?sslpassword=***')
  t.equal(maskUrl('nats://localhost:4222'), 'nats://localhost:4222')
})

t.test('the reference lists every key as it is', async (t) => {
  t.equal(readFileSync(new URL('../../schemas/CONFIG.md', import.meta.url), 'utf8'), configReference())
  for (const name of names) t.match(expectation(configKeys[name]), /^must /)
})
