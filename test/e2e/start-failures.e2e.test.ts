import { execFileSync } from 'node:child_process'
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { ownPlace, startBusbar } from '../support/command.ts'
import { mayMount } from '../support/may-mount.ts'
import { testPostgres } from '../support/servers.ts'

t.setTimeout(120_000)

/** What a start printed on standard error, having ended with exit code 1. */
async function complaint(
  t: Pick<Test, 'equal' | 'match' | 'notMatch'>,
  args: readonly string[],
  env: Readonly<Record<string, string>> = {},
): Promise<string> {
  const { code, stdout, stderr } = await startBusbar(args, env).finished
  t.equal(code, 1, `${args.join(' ')}: exit code`)
  t.match(stderr, /^busbar: [^\n]+\n$/, `one line, no stack: ${stderr}`)
  t.notMatch(stdout, /Busbar runs/)
  return stderr
}

t.test('a port in use', async (t) => {
  const { args } = await ownPlace(t)
  const server = createServer()
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
  t.teardown(() => server.close())
  const { port } = server.address() as { port: number }
  for (const [key, what] of [
    ['nats.port', 'NATS'],
    ['postgres.port', 'PostgreSQL'],
    ['gateway.rest.port', 'the REST API'],
    ['gateway.graphql.port', 'the GraphQL API'],
  ] as const) {
    const line = await complaint(t, ['up', ...args, `--${key}=${port}`])
    t.match(line, `Port ${port} for ${what} is in use`)
    t.match(line, `--${key}=`)
  }
})

t.test('a database that cannot be used', async (t) => {
  const { port } = await testPostgres(t)
  const { args } = await ownPlace(t)
  const closed = createServer()
  await new Promise<void>((done) => closed.listen(0, '127.0.0.1', done))
  const nobody = (closed.address() as { port: number }).port
  await new Promise<void>((done) => closed.close(() => done()))
  const url = (text: string) => ['up', ...args, `--spring.datasource.url=${text}`]
  const cases: readonly (readonly [string, RegExp])[] = [
    [`jdbc:postgresql://127.0.0.1:${port}/postgres?user=postgres&password=wrong`, /wrong password for user postgres/],
    [`jdbc:postgresql://127.0.0.1:${port}/nowhere?user=postgres&password=secret`, /database nowhere does not exist/],
    [`jdbc:postgresql://127.0.0.1:${nobody}/x?user=me`, /nothing listens on 127\.0\.0\.1:\d+/],
    ['jdbc:postgresql://no-such-host.invalid/x?user=me', /host no-such-host\.invalid is not known/],
    ['jdbc:oracle:thin:@//h/x', /spring\.datasource\.url must look like jdbc:postgresql:/],
    [`jdbc:postgresql://127.0.0.1:${port}/x?sslmode=verify-full&sslrootcert=/no/such.pem`, /cannot be read: ENOENT/],
  ]
  for (const [text, expected] of cases) {
    const line = await complaint(t, url(text))
    t.match(line, expected)
    t.notMatch(line, /password=(wrong|secret)/)
  }
})

t.test('a wrong configuration', async (t) => {
  const folder = mkdtempSync(join(tmpdir(), 'busbar-config-'))
  t.teardown(() => rmSync(folder, { recursive: true }))
  const file = join(folder, 'application.yml')
  writeFileSync(file, 'app:\n  max-page-size: many\n')
  t.match(
    await complaint(t, ['up', `--config=${file}`]),
    'app.max-page-size (application.yml:2) must be a whole number',
  )
  t.match(await complaint(t, ['up', '--config=/no/such.yml']), 'The configuration file /no/such.yml cannot be read')
  t.match(
    await complaint(t, ['up'], { APP_NATS_ENABLED: 'perhaps' }),
    'app.nats.enabled (environment APP_NATS_ENABLED)',
  )
  t.match(await complaint(t, ['config', '--app.nats.ulr=x']), 'perhaps you meant app.nats.url')
  t.match(await complaint(t, ['run', 'gateway:tea']), 'There is no role gateway:tea')
  t.match(await complaint(t, ['events', 'tail', '--from', 'yesterday']), '--from takes')
  t.match(await complaint(t, ['events', 'tail', '--app.nats.url=nats://127.0.0.1:1']), 'no bus at nats://127.0.0.1:1')
})

t.test('a data folder that cannot be used', async (t) => {
  t.match(await complaint(t, ['up', '--busbar.data=/dev/null/x']), 'The data folder /dev/null/x cannot be made')
  const { folder, args } = await ownPlace(t)
  mkdirSync(join(folder, 'postgres', 'cluster'), { recursive: true })
  writeFileSync(join(folder, 'postgres', 'cluster', 'PG_VERSION'), '9.6\n')
  t.match(await complaint(t, ['up', '--servers-only', ...args]), /is of PostgreSQL 9\.6, the server here is \d+/)
})

t.test('a full disk', { skip: !mayMount() && 'only root may mount a small disk' }, async (t) => {
  const disk = mkdtempSync(join(tmpdir(), 'busbar-disk-'))
  execFileSync('mount', ['-t', 'tmpfs', '-o', 'size=8m', 'tmpfs', disk])
  t.teardown(() => {
    execFileSync('umount', [disk])
    rmSync(disk, { recursive: true })
  })
  t.match(await complaint(t, ['up', `--busbar.data=${disk}`]), /is full \(\d MB free, 256 MB needed\)/)
})

t.test('the workflow engine, which asks nobody who they are, is not offered to others unless told to', async (t) => {
  const args = ['run', 'gateway:workflows', '--server.host=0.0.0.0', '--server.port=1']
  const line = await complaint(t, args)
  t.match(line, /does not listen on 0\.0\.0\.0: .*app\.workflows\.allow-anonymous=true/)
  // It then gets as far as what is missing next.
  const forced = await complaint(t, [...args, '--app.workflows.allow-anonymous=true'])
  t.notMatch(forced, /allow-anonymous/)
  const asking = [...args, '--app.workflows.auth=true']
  t.match(await complaint(t, asking), /app\.workflows\.auth=true needs app\.secrets\.keys/)
  const keyed = await complaint(t, [...asking, `--app.secrets.keys=test:${Buffer.alloc(32).toString('base64')}`])
  t.notMatch(keyed, /app\.workflows/)
})
