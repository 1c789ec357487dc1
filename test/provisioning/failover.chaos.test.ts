import { existsSync, readFileSync, statSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { load } from '../../bus/load.ts'
import { instance } from '../../schemas/provisioning/instance.ts'
import { instancePlace } from '../../workers/provisioning/runner.ts'
import { processesIn } from '../../workers/provisioning/supervisor/processes.ts'
import { eventually, leftovers, majorsHere, platform, query, urlOf } from './platform.ts'

t.setTimeout(280_000)

const shop = { projectName: 'shop', orgId: 'acme', databaseType: 'POSTGRESQL', tier: 'FREE' }

const { older } = majorsHere()
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
      // As a worker leaves it that was killed while it rewound: what there is can be anything.
      const half = join(data, '../rewinding')
      if (signal === 'SIGSTOP') writeFileSync(half, '')
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
      const rewound = rewinding && signal === 'SIGKILL'
      t.same(result, rewound ? { rewound: names, rebuilt: [] } : { rewound: [], rebuilt: names })
      t.equal(statSync(data).ino === folder, rewound, 'what it had is kept where it can be rewound')
      t.notOk(existsSync(half))
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
