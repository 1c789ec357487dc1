import { execFileSync } from 'node:child_process'
import { chmodSync, existsSync, readFileSync, rmSync, statSync } from 'node:fs'
import { join } from 'node:path'
import { Client } from 'pg'
import t from 'tap'
import { commandOf } from '../../ops/local/child.ts'
import { postgresHome } from '../../ops/local/postgres-home.ts'
import { ownPlace, startBusbar } from '../support/command.ts'

t.setTimeout(120_000)

const postgresPid = (folder: string) => {
  return Number.parseInt(readFileSync(join(postgresHome(folder), 'cluster', 'postmaster.pid'), 'utf8'), 10)
}
const natsPid = (folder: string) => Number(readFileSync(join(folder, 'nats', 'nats.pid'), 'utf8'))

/** Every process whose command line names the folder. */
function processesOf(folder: string): string[] {
  const numbers = execFileSync('ls', ['/proc'], { encoding: 'utf8' })
    .split('\n')
    .filter((name) => /^\d+$/.test(name))
  return numbers.map((pid) => commandOf(Number(pid)) ?? '').filter((command) => command.includes(folder))
}

async function query<Row extends object>(folder: string, port: string, database: string, sql: string): Promise<Row[]> {
  const password = readFileSync(join(postgresHome(folder), 'password'), 'utf8').trim()
  const client = new Client({ host: '127.0.0.1', port: Number(port), user: 'postgres', password, database })
  await client.connect()
  try {
    return (await client.query<Row>(sql)).rows
  } finally {
    await client.end()
  }
}

t.test('up, twice on one folder', async (t) => {
  const { folder, args } = await ownPlace(t)
  const port = args.find((arg) => arg.startsWith('--postgres.port='))?.split('=')[1] ?? ''
  const start = () => startBusbar(['up', '--servers-only', ...args])
  const first = start()
  await first.printed('Busbar runs')

  await t.test('brings the sample and the platform database, with logical replication', async (t) => {
    t.match(await query(folder, port, 'sample', 'SELECT count(*)::int AS films FROM film'), [{ films: 120 }])
    t.match(await query(folder, port, 'sample', 'SHOW wal_level'), [{ wal_level: 'logical' }])
    t.match(await query(folder, port, 'busbar_platform', 'SELECT count(*)::int AS tables FROM pg_stat_user_tables'), [
      { tables: 0 },
    ])
  })

  await t.test('lets strangers in by password only, and only from this machine', async (t) => {
    const stranger = new Client({
      host: '127.0.0.1',
      port: Number(port),
      user: 'postgres',
      password: 'guess',
      database: 'sample',
    })
    await t.rejects(stranger.connect(), { code: '28P01' })
    t.match(await query(folder, port, 'sample', 'SHOW listen_addresses'), [{ listen_addresses: '127.0.0.1' }])
  })

  await t.test('refuses a second one on the same folder', async (t) => {
    const { code, stderr } = await start().finished
    t.equal(code, 1)
    t.match(
      stderr,
      new RegExp(`^busbar: Busbar already runs on ${folder} \\(process ${first.process.pid}\\)[^\\n]+\\n$`),
    )
  })

  await t.test('starts a killed server again and says so', async (t) => {
    process.kill(postgresPid(folder), 'SIGKILL')
    await first.printed('PostgreSQL ended (SIGKILL); starting it again')
    await first.printed('PostgreSQL runs again')
    process.kill(natsPid(folder), 'SIGKILL')
    await first.printed('nats-server ended (SIGKILL); starting it again')
    await first.printed('nats-server runs again')
    t.match(await query(folder, port, 'sample', 'SELECT count(*)::int AS films FROM film'), [{ films: 120 }])
  })

  await t.test('is stopped by Ctrl-C, in reverse order, and leaves nothing running', async (t) => {
    await query(folder, port, 'sample', "UPDATE film SET title = 'Mine' WHERE id = 1")
    first.process.kill('SIGINT')
    const { code, stdout, stderr } = await first.finished
    t.equal(code, 0)
    t.equal(stderr, '')
    t.match(stdout, /Stopping[^\n]+\n {2}PostgreSQL stopped\n {2}nats-server stopped\n$/)
    t.strictSame(processesOf(folder), [])
    t.notOk(existsSync(join(folder, 'up.lock')))
  })

  await t.test('finds its data again', async (t) => {
    const second = start()
    await second.printed('Busbar runs')
    t.match(await query(folder, port, 'sample', 'SELECT title FROM film WHERE id = 1'), [{ title: 'Mine' }])
    second.process.kill('SIGTERM')
    const { code, stdout } = await second.finished
    t.equal(code, 0)
    t.notMatch(stdout, 'the sample database is loaded')
  })

  await t.test('comes back after it was killed itself', async (t) => {
    const third = start()
    await third.printed('Busbar runs')
    third.process.kill('SIGKILL')
    await third.finished
    const fourth = start()
    await fourth.printed('Busbar runs')
    t.match(await query(folder, port, 'sample', 'SELECT title FROM film WHERE id = 1'), [{ title: 'Mine' }])
    fourth.process.kill('SIGINT')
    t.equal((await fourth.finished).code, 0)
    t.strictSame(processesOf(folder), [])
  })
})

t.test(
  'a data folder only root may enter',
  { skip: process.getuid?.() === 0 ? false : 'only root has such folders' },
  async (t) => {
    const { folder, args } = await ownPlace(t)
    chmodSync(folder, 0o700)
    const home = postgresHome(folder)
    t.notMatch(home, folder)
    t.teardown(() => rmSync(home, { recursive: true, force: true }))
    const started = startBusbar(['up', '--servers-only', ...args])
    await started.printed('Busbar runs')
    t.equal(statSync(join(home, 'cluster')).mode & 0o077, 0, 'nobody else may read the data')
    t.not(statSync(join(home, 'cluster')).uid, 0)
    started.process.kill('SIGINT')
    const { code, stdout } = await started.finished
    t.equal(code, 0)
    t.match(stdout, join(home, 'password'))
  },
)

t.test('help of every command', async (t) => {
  const expectations = [
    [['--help'], /up \[options\][\s\S]*run <role\.\.\.>[\s\S]*config[\s\S]*doctor[\s\S]*events/],
    [['up', '--help'], /Examples:\n {2}\$ busbar up\n/],
    [['run', '--help'], /gateway:rest[\s\S]*Examples:/],
    [['config', '--help'], /--reference[\s\S]*Examples:/],
    [['doctor', '--help'], /Examples:/],
    [['events', 'tail', '--help'], /--subject <pattern>[\s\S]*Examples:/],
  ] as const
  const check = async ([args, expected]: (typeof expectations)[number]) => {
    const { code, stdout } = await startBusbar(args).finished
    t.equal(code, 0, args.join(' '))
    t.match(stdout, expected)
  }
  await Promise.all(expectations.map(check))
  const typo = await startBusbar(['dotcor']).finished
  t.equal(typo.code, 1)
  t.match(typo.stderr, /Did you mean doctor\?/)
})

t.test('doctor names what is wrong and what mends it', async (t) => {
  const { args } = await ownPlace(t)
  const healthy = await startBusbar(['doctor', ...args]).finished
  t.equal(healthy.code, 0, healthy.stdout)
  t.match(healthy.stdout, /^ok {4}data folder: /m)
  const sick = await startBusbar(['doctor', ...args, '--spring.datasource.url=jdbc:postgresql://127.0.0.1:1/x?user=me'])
    .finished
  t.equal(sick.code, 1)
  t.match(sick.stdout, /^BAD {3}datasource: spring\.datasource\.url: nothing listens on 127\.0\.0\.1:1/m)
})
