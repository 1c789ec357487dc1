import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import pg from 'pg'
import t, { type Test } from 'tap'
import { processesIn } from '../../workers/provisioning/supervisor/processes.ts'
import { startCommand } from '../support/command.ts'
import { type ProvisioningPlatform, platform } from './platform.ts'

t.setTimeout(280_000)

const shop = { projectName: 'shop', orgId: 'acme', databaseType: 'POSTGRESQL', tier: 'FREE' }

async function query(url: string, text: string): Promise<Record<string, unknown>[]> {
  const client = new pg.Client({ connectionString: url, connectionTimeoutMillis: 2_000 })
  client.on('error', () => undefined)
  try {
    await client.connect()
    return (await client.query(text)).rows
  } finally {
    await client.end().catch(() => undefined)
  }
}

async function eventually<T>(work: () => Promise<T>, ms = 60_000): Promise<T> {
  for (const end = performance.now() + ms; ; ) {
    try {
      return await work()
    } catch (error) {
      if (performance.now() > end) throw error
      await sleep(100)
    }
  }
}

/** The operation's end, however often whoever runs it has to begin anew. */
async function ended({ call }: ProvisioningPlatform, project: string): Promise<string> {
  return await eventually(async () => {
    const { status, body } = await call('GET', `/api/provision/${project}`)
    if (status === 404) return 'GONE'
    if (!['SUCCEEDED', 'FAILED'].includes(body.operation.state)) throw new Error(JSON.stringify(body.operation))
    return body.operation.state
  }, 120_000)
}

const urlOf = async ({ call }: ProvisioningPlatform, project: string) =>
  (await call('GET', `/api/provision/${project}/credentials`)).body.connectionUrl as string

/** A worker that is started again whenever it is killed; ends with the test. */
function keepWorker(
  t: Test,
  { natsUrl, home, secretKeys, ports }: ProvisioningPlatform,
  victim: string,
): () => Promise<void> {
  let going = true
  let current = start()
  function start() {
    const plan = JSON.stringify({ natsUrl, home, secretKeys, ports, victim })
    const command = startCommand(process.execPath, [
      resolve(import.meta.dirname, '../chaos/provisioning-process.ts'),
      plan,
    ])
    void command.finished.then(({ stderr }) => {
      if (stderr !== '') t.comment(stderr)
      if (going) current = start()
    })
    return command
  }
  const stop = async () => {
    going = false
    current.process.kill('SIGKILL')
    await current.finished
  }
  t.teardown(stop)
  return stop
}

/** What is left in a place once all its instances are deleted. */
function leftovers(home: string): readonly string[] {
  return readdirSync(join(home, 'instances'))
}

t.test('each step of each operation outlives the end of the worker, the supervisor and the server', async (t) => {
  for (const victim of ['worker', 'supervisor', 'server'] as const) {
    await t.test(victim, async (t) => {
      const p = await platform(t, { worker: false })
      const stop = keepWorker(t, p, victim)
      await eventually(async () => {
        const { status } = await p.call('POST', '/api/provision', { ...shop, backup: { enabled: true } })
        if (![202, 409].includes(status)) throw new Error(`create: ${status}`)
      })
      const created = await ended(p, 'shop')
      t.equal(created, 'SUCCEEDED', 'is made')
      const url = await urlOf(p, 'shop')
      await eventually(() => query(url, 'create table if not exists kept (id int primary key)'))
      await eventually(() => query(url, 'insert into kept values (1) on conflict do nothing'))
      const begun = async (method: string, path: string, body?: unknown) =>
        eventually(async () => {
          const { status } = await p.call(method, path, body)
          if (![202, 404].includes(status)) throw new Error(`${path}: ${status}`)
        })
      await begun('PATCH', '/api/provision/shop/scale', { tier: 'STANDARD' })
      t.match(await ended(p, 'shop'), /SUCCEEDED|FAILED/, 'is scaled, or is as it was')
      t.same(await eventually(() => query(url, 'select id from kept')), [{ id: 1 }], 'what was committed is there')
      await begun('POST', '/api/provision/shop/backup/restore', { newProjectId: 'copy' })
      const copied = await ended(p, 'copy')
      if (copied === 'SUCCEEDED') {
        const copy = await urlOf(p, 'copy')
        t.same(await eventually(() => query(copy, 'select id from kept')), [{ id: 1 }], 'and in the copy')
      } else t.equal(copied, 'FAILED', 'the copy was taken back')
      for (const project of ['copy', 'shop']) {
        await begun('DELETE', `/api/provision/${project}`)
        t.equal(await ended(p, project), 'GONE', `${project} is deleted`)
      }
      t.strictSame(leftovers(p.home), [], 'nothing is left without an owner')
      await stop()
    })
  }
})

t.test(
  'a primary that is killed or hangs has a successor that lacks nothing, and comes back as its standby',
  async (t) => {
    const p = await platform(t)
    const made = await p.call('POST', '/api/provision?wait=120', { ...shop, tier: 'STANDARD' })
    t.equal(made.status, 201, JSON.stringify(made.body))
    const url = await urlOf(p, 'shop')
    await query(url, 'create table kept (id int primary key)')
    for (const signal of ['SIGKILL', 'SIGSTOP'] as const) {
      const before = (await p.call('GET', '/api/provision/shop')).body
      const data = join(p.home, 'instances', before.id, 'members', before.primary, 'data')
      const postmaster = Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0])
      const id = signal === 'SIGKILL' ? 1 : 2
      await query(url, `insert into kept values (${id})`)
      process.kill(postmaster, signal)
      await eventually(() => query(url, `insert into kept values (${id + 10})`))
      const after = (await p.call('GET', '/api/provision/shop')).body
      t.not(after.primary, before.primary, `${signal}: another is the primary`)
      t.equal(after.port, before.port, 'at the same port')
      t.ok((await query(url, `select 1 from kept where id = ${id}`)).length === 1, 'with what was committed last')
      await eventually(async () => {
        const { status, operation } = (await p.call('GET', '/api/provision/shop')).body
        if (status !== 'ACTIVE' || operation.type !== 'REPAIR') throw new Error(`${status} ${operation.type}`)
      })
      t.ok(existsSync(join(data, 'standby.signal')), 'the old one is a standby')
      t.equal(processesIn(data).includes(postmaster), false, 'its old processes are gone')
    }
    const credentials = (await p.call('GET', '/api/provision/shop/credentials')).body
    await eventually(async () => {
      const rows = await query(credentials.readOnlyConnectionUrl, 'select count(*)::int as n from kept')
      if (rows[0]!.n !== 4) throw new Error(JSON.stringify(rows))
    })
    t.pass('the standby follows')
    t.equal((await p.call('DELETE', '/api/provision/shop?wait=60')).status, 200)
    t.strictSame(leftovers(p.home), [])
  },
)
