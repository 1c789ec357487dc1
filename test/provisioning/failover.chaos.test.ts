import { existsSync, readdirSync, readFileSync, readlinkSync, statSync } from 'node:fs'
import { join, resolve } from 'node:path'
import t, { type Test } from 'tap'
import { load } from '../../bus/load.ts'
import { findAllPostgres } from '../../ops/local/postgres-versions.ts'
import { instance } from '../../schemas/provisioning/instance.ts'
import type { OperationType } from '../../schemas/provisioning/instance-facts.ts'
import { instancePlace } from '../../workers/provisioning/runner.ts'
import { processesIn } from '../../workers/provisioning/supervisor/processes.ts'
import { startCommand } from '../support/command.ts'
import { eventually, type ProvisioningPlatform, platform, query } from './platform.ts'

t.setTimeout(280_000)

const shop = { projectName: 'shop', orgId: 'acme', databaseType: 'POSTGRESQL', tier: 'FREE' }

/** How the newest operation of a type ended, however often whoever runs it has to begin anew. */
async function ended(t: Test, { bus }: ProvisioningPlatform, project: string, type: OperationType): Promise<string> {
  return await eventually(async () => {
    const { state } = await load(bus, instance, instancePlace(project))
    if (state.stage !== 'wanted') return 'GONE'
    const found = [state.operation, ...state.earlier].find((each) => each.type === type)
    if (found?.state !== 'SUCCEEDED' && found?.state !== 'FAILED') throw new Error(JSON.stringify(found))
    t.comment(`${type}: ${found.state} ${found.error === null ? '' : JSON.stringify(found.error)}`)
    return found.state
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
    void command.finished.then(({ stdout, stderr }) => {
      for (const line of stdout.split('\n')) if (line.includes('operation-undoing')) t.comment(line)
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

/** What is left in a place once all its instances are deleted: folders, and processes in one of them. */
function leftovers(home: string): readonly string[] {
  const working = readdirSync('/proc')
    .filter((name) => /^\d+$/.test(name))
    .filter((pid) => {
      try {
        return readlinkSync(`/proc/${pid}/cwd`).startsWith(join(home, 'instances'))
      } catch {
        return false
      }
    })
  return [...readdirSync(join(home, 'instances')), ...working]
}

const majors = [...new Set(findAllPostgres('/usr/bin:/bin', undefined).map(({ major }) => major))].sort((a, b) => a - b)
const [older = 0, newer = older] = [majors[0], majors.at(-1)]

interface Turn {
  readonly type: OperationType
  readonly project: string
  readonly begin: readonly [method: string, path: string, body?: unknown]
  /** `FAILED`: it was taken back. */
  readonly ends: RegExp
  /** What is so afterwards, for how it ended. */
  readonly check?: (p: ProvisioningPlatform, ended: string) => Promise<readonly [found: unknown, wanted: unknown]>
}

const majorOf = async (p: ProvisioningPlatform, project: string) =>
  (await eventually(async () => query(await urlOf(p, project), 'show server_version')))[0]!.server_version
    ?.toString()
    .split('.')[0]

const turns: readonly Turn[] = [
  ...(newer > older
    ? [
        {
          type: 'UPGRADE',
          project: 'shop',
          begin: ['POST', '/api/provision/shop/upgrade', { version: String(newer) }],
          ends: /SUCCEEDED|FAILED/,
          check: async (p, ended) => [await majorOf(p, 'shop'), String(ended === 'SUCCEEDED' ? newer : older)],
        } as const satisfies Turn,
      ]
    : []),
  {
    type: 'RESTORE',
    project: 'copy',
    begin: ['POST', '/api/provision/shop/backup/restore', { newProjectId: 'copy' }],
    ends: /SUCCEEDED|FAILED/,
    check: async (p, ended) => {
      if (ended !== 'SUCCEEDED') return [(await p.call('GET', '/api/provision/copy')).body.members, []]
      const copy = await urlOf(p, 'copy')
      return [await eventually(() => query(copy, 'select id from kept')), [{ id: 1 }]]
    },
  },
  {
    type: 'SCALE',
    project: 'shop',
    begin: ['PATCH', '/api/provision/shop/scale', { tier: 'STANDARD' }],
    ends: /SUCCEEDED|FAILED/,
    check: async ({ call }, ended) => {
      const { members } = (await call('GET', '/api/provision/shop')).body
      return [members.length, ended === 'SUCCEEDED' ? 2 : 1]
    },
  },
  { type: 'DELETE', project: 'copy', begin: ['DELETE', '/api/provision/copy'], ends: /GONE/ },
]

t.test('each step of each operation outlives the end of the worker, the supervisor and the server', async (t) => {
  // Much of it is waiting.
  t.jobs = 3
  const all = (['worker', 'supervisor', 'server'] as const).map((victim) =>
    t.test(victim, { buffered: true }, async (t) => {
      const p = await platform(t, { worker: false })
      const stop = keepWorker(t, p, victim)
      // Asked again as the same request: it is begun once.
      const begun = async ([method, path, body]: Turn['begin']) =>
        eventually(async () => {
          const { status } = await p.call(method, path, body, { 'Idempotency-Key': `${method}-${path}` })
          if (status >= 300) throw new Error(`${path}: ${status}`)
        })
      const wanted = { ...shop, postgresVersion: String(older), backup: { enabled: true } }
      await begun(['POST', '/api/provision', wanted])
      t.equal(await ended(t, p, 'shop', 'CREATE'), 'SUCCEEDED', 'it is made')
      const url = await urlOf(p, 'shop')
      await eventually(() => query(url, 'create table if not exists kept (id int primary key)'))
      await eventually(() => query(url, 'insert into kept values (1) on conflict do nothing'))
      for (const { type, project, begin, ends, check } of turns) {
        await begun(begin)
        const how = await ended(t, p, project, type)
        t.match(how, ends, `${type}: is finished, or taken back`)
        const [found, expected] = (await check?.(p, how)) ?? []
        t.same(found, expected, `${type}: it is as it says`)
        t.same(await eventually(() => query(url, 'select id from kept')), [{ id: 1 }], 'what was committed is there')
      }
      await begun(['DELETE', '/api/provision/shop'])
      t.equal(await ended(t, p, 'shop', 'DELETE'), 'GONE', 'it is deleted')
      t.strictSame(leftovers(p.home), [], 'nothing is left without an owner')
      await stop()
    }),
  )
  await Promise.all(all)
})

/** The servers whose members can be rewound, where there are such. */
const rewinding = existsSync(`/usr/lib/postgresql/${older}/bin/pg_rewind`)

t.test(
  'a primary that is killed or hangs has a successor that lacks nothing, and comes back as its standby',
  async (t) => {
    const p = await platform(t)
    const wanted = { ...shop, tier: 'STANDARD', postgresVersion: String(older), backup: { enabled: true } }
    const made = await p.call('POST', '/api/provision?wait=120', wanted)
    t.equal(made.status, 201, JSON.stringify(made.body))
    const url = await urlOf(p, 'shop')
    await query(url, 'create table kept (id int primary key, filler text)')
    for (const signal of ['SIGKILL', 'SIGSTOP'] as const) {
      const before = (await p.call('GET', '/api/provision/shop')).body
      const data = join(p.home, 'instances', before.id, 'members', before.primary, 'data')
      const folder = statSync(data).ino
      const postmaster = Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0])
      const id = signal === 'SIGKILL' ? 1 : 2
      // Some segments of the log, not all of them archived when it ends.
      await query(
        url,
        `insert into kept select ${id} * 100000 + n, repeat('x', 500) from generate_series(1, 20000) as n`,
      )
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
      const { state } = await load(p.bus, instance, instancePlace('shop'))
      const result = state.stage === 'wanted' ? state.operation.result : null
      const names = [before.primary]
      t.same(result, rewinding ? { rewound: names, rebuilt: [] } : { rewound: [], rebuilt: names })
      t.equal(statSync(data).ino === folder, rewinding, 'what it had is kept where it can be rewound')
    }
    const credentials = (await p.call('GET', '/api/provision/shop/credentials')).body
    const expected = 2 * 20_000 + 4
    await eventually(async () => {
      const rows = await query(credentials.readOnlyConnectionUrl, 'select count(*)::int as n from kept')
      if (rows[0]!.n !== expected) throw new Error(JSON.stringify(rows))
    })
    t.pass('the standby follows')
    const restored = await p.call('POST', '/api/provision/shop/backup/restore?wait=120', { newProjectId: 'copy' })
    t.equal(restored.status, 201, JSON.stringify(restored.body))
    t.same(
      await query(await urlOf(p, 'copy'), 'select count(*)::int as n from kept'),
      [{ n: expected }],
      'the archive has no hole where one primary followed the other',
    )
    for (const project of ['copy', 'shop']) {
      t.equal((await p.call('DELETE', `/api/provision/${project}?wait=60`)).status, 200)
    }
    t.strictSame(leftovers(p.home), [])
  },
)
