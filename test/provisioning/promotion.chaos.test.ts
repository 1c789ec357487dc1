import { execFileSync } from 'node:child_process'
import { existsSync, readFileSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { load } from '../../bus/load.ts'
import { keyRing } from '../../bus/sealed.ts'
import { type Instance, instance } from '../../schemas/provisioning/instance.ts'
import { nextSegment, segmentOfLsn } from '../../workers/provisioning/local/backup/wal-name.ts'
import { instancePlace } from '../../workers/provisioning/runner.ts'
import { eventually, leftovers, platform, query, urlOf } from './platform.ts'

t.setTimeout(200_000)

t.test('a standby that does not become the primary in time stays one, and the old primary is it again', async (t) => {
  const undone: (() => void)[] = []
  const p = await platform(t, {
    worker: false,
    promoteMs: 2_000,
    onObservation({ type }) {
      if (type === 'operation-undoing') undone.pop()?.()
    },
  })
  const shown = async () => (await p.call('GET', '/api/provision/shop')).body
  const first = await p.startWorker()
  const wanted = { projectName: 'shop', orgId: 'acme', databaseType: 'POSTGRESQL', tier: 'STANDARD' }
  const made = await p.call('POST', '/api/provision?wait=120', wanted)
  t.equal(made.status, 201, JSON.stringify(made.body))
  const { id, primary, members } = made.body
  const url = await urlOf(p, 'shop')
  await query(url, 'create table kept as select 1 as id')
  await first.stop()

  // The standby has all of a segment, and begins to read the next, which does not come to an end.
  const data = join(p.home, 'instances', id, 'members', primary, 'data')
  const standbyUrl = new URL(url)
  standbyUrl.port = String(members.find(({ name }: { name: string }) => name !== primary).port)
  const { state } = await load(p.bus, instance, instancePlace('shop'))
  const sealed = (state as Instance).credentials!.superuser
  const password = keyRing(p.secretKeys)!.open(sealed, `provisioning/${id}/superuser/`)
  const admin = (port: string | number) =>
    `postgresql://busbar_admin:${encodeURIComponent(password)}@127.0.0.1:${port}/postgres`
  // Else it waits for the next segment before it lets anybody in.
  await query(admin(standbyUrl.port), 'alter system set recovery_prefetch = off')
  const [switched] = await query(
    admin(made.body.port),
    "select pg_switch_wal()::text as at, (select setting::int from pg_settings where name = 'wal_segment_size') as bytes",
  )
  const { at, bytes } = switched as { readonly at: string; readonly bytes: number }
  await eventually(async () => {
    const rows = await query(standbyUrl.href, `select 1 where pg_last_wal_replay_lsn() >= '${at}'`)
    if (rows.length === 0) throw new Error('it has not read it')
  })
  process.kill(Number(readFileSync(join(data, 'postmaster.pid'), 'utf8').split('\n')[0]), 'SIGKILL')
  const segment = join(data, 'pg_wal', nextSegment(segmentOfLsn(at, 1, bytes), bytes))
  const aside = `${segment}.aside`
  if (existsSync(segment)) renameSync(segment, aside)
  execFileSync('mkfifo', ['-m', '666', segment])
  undone.push(() => {
    rmSync(segment)
    if (existsSync(aside)) renameSync(aside, segment)
  })

  await p.startWorker()
  await eventually(async () => {
    const { state } = await load(p.bus, instance, instancePlace('shop'))
    if (state.stage !== 'wanted' || state.operation.state !== 'FAILED') throw new Error(JSON.stringify(state))
    t.match(state.operation, { type: 'FAILOVER', error: { message: /does not become the primary/ } })
  })
  await eventually(() => query(url, 'insert into kept values (2)'))
  t.same(await query(url, 'select id from kept order by id'), [{ id: 1 }, { id: 2 }], 'nothing is lost')
  t.match(await shown(), { primary, port: made.body.port, members })
  await eventually(async () => {
    const rows = await query(standbyUrl.href, 'select id from kept where pg_is_in_recovery()')
    if (rows.length !== 2) throw new Error(JSON.stringify(rows))
  })
  t.pass('the standby follows it')
  t.equal((await p.call('DELETE', '/api/provision/shop?wait=60')).status, 200)
  t.strictSame(leftovers(p.home), [])
})
