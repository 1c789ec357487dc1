import {
  appendFileSync,
  closeSync,
  existsSync,
  openSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  statfsSync,
  writeFileSync,
  writeSync,
} from 'node:fs'
import { join } from 'node:path'
import t, { type Test } from 'tap'
import { decide } from '../../bus/decide.ts'
import { instance } from '../../schemas/provisioning/instance.ts'
import { facts } from '../../schemas/provisioning/instance-facts.ts'
import { instancePlace } from '../../workers/provisioning/runner.ts'
import { eventually, type ProvisioningPlatform, platform, query } from './platform.ts'

t.setTimeout(240_000)

const shop = { projectName: 'shop', orgId: 'acme', databaseType: 'POSTGRESQL', tier: 'FREE' }

type Options = Parameters<typeof platform>[1]

async function provisioned(t: Test, options: Options, own: object = {}) {
  const p = await platform(t, options)
  const made = await p.call('POST', '/api/provision?wait=60', { ...shop, ...own })
  t.equal(made.status, 201, JSON.stringify(made.body))
  const { connectionUrl } = (await p.call('GET', '/api/provision/shop/credentials')).body
  await query(connectionUrl, 'create table kept (id int primary key)')
  await query(connectionUrl, 'insert into kept values (1)')
  return { p, url: connectionUrl as string, root: join(p.home, 'instances', made.body.id) }
}

async function untilStatus({ call }: ProvisioningPlatform, status: string, reason: RegExp | null): Promise<string> {
  return await eventually(async () => {
    const { body } = await call('GET', '/api/provision/shop')
    const fits = body.status === status && (reason === null || reason.test(body.statusReason))
    if (!fits) throw new Error(`${body.status}: ${body.statusReason}, not ${status}`)
    return body.statusReason
  })
}

const mib = 1024 ** 2

/** Writes until no more than so much is free. */
function fill(path: string, folder: string, freeBytes: number): void {
  const file = openSync(path, 'a')
  const free = () => {
    const { bavail, bsize } = statfsSync(folder)
    return bavail * bsize
  }
  try {
    while (free() > freeBytes) writeSync(file, Buffer.alloc(Math.min(mib, free() - freeBytes), 'x'))
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOSPC') throw error
  } finally {
    closeSync(file)
  }
}

const postmasterOf = (root: string) =>
  Number(readFileSync(join(root, 'members/m1/data/postmaster.pid'), 'utf8').split('\n')[0])

t.test('what goes wrong with a server is a state with a reason, and ends with it', async (t) => {
  let strike: ((step: string) => void) | null = null
  const onObservation: NonNullable<Options>['onObservation'] = (observation) => {
    if (observation.type === 'operation-step') strike?.(observation.step)
  }
  const { p, url, root } = await provisioned(t, { hungMs: 8_000, onObservation }, { backup: { enabled: true } })

  await t.test('a server that was killed and does not start again', async (t) => {
    const control = join(root, 'members/m1/data/global/pg_control')
    renameSync(control, `${control}.away`)
    process.kill(postmasterOf(root), 'SIGKILL')
    await untilStatus(p, 'FAILED', /The database server has ended/)
    await t.rejects(query(url, 'select 1'))
    renameSync(`${control}.away`, control)
    await untilStatus(p, 'ACTIVE', null)
    t.same(await query(url, 'select id from kept'), [{ id: 1 }])
  })

  await t.test('a server whose worker was killed when it had set what it does not start with', async (t) => {
    const path = join(root, 'members/m1/data/postgresql.auto.conf')
    const good = readFileSync(path, 'utf8')
    writeFileSync(`${path}.good`, good)
    appendFileSync(path, "shared_preload_libraries = 'nothing_of_this_name'\n")
    process.kill(postmasterOf(root), 'SIGKILL')
    t.same(await eventually(() => query(url, 'select id from kept')), [{ id: 1 }])
    t.equal(readFileSync(path, 'utf8'), good, 'the last good parameters are back')
    await untilStatus(p, 'ACTIVE', null)
    await eventually(async () => {
      if (existsSync(`${path}.good`)) throw new Error('they are still thought of')
    })
  })

  await t.test('a server that hangs', async (t) => {
    const pid = postmasterOf(root)
    process.kill(pid, 'SIGSTOP')
    await untilStatus(p, 'FAILED', /The database server does not answer/)
    process.kill(pid, 'SIGCONT')
    await untilStatus(p, 'ACTIVE', null)
    t.equal(postmasterOf(root), pid, 'and comes round is left alone')

    process.kill(pid, 'SIGSTOP')
    await eventually(async () => {
      const told = p.observations.some(
        (each) => each.type === 'instance-health' && /ended and starts again/.test(`${each.reason}`),
      )
      if (!told) throw new Error('it is not ended')
    })
    await untilStatus(p, 'ACTIVE', null)
    t.not(postmasterOf(root), pid, 'and does not is started anew')
    t.same(await query(url, 'select id from kept'), [{ id: 1 }])
  })

  await t.test('a server that hangs in the middle of an operation', async (t) => {
    strike = (step) => {
      if (step !== 'NAME') return
      strike = null
      process.kill(postmasterOf(root), 'SIGSTOP')
    }
    const backup = await p.call('POST', '/api/provision/shop/backup/trigger?wait=60')
    t.equal(backup.status, 200, JSON.stringify(backup.body))
    t.equal(strike, null)
    t.equal((await p.call('GET', '/api/provision/shop/backup/list')).body.backups.length, 2)
  })

  await t.test('a folder that is gone', async (t) => {
    renameSync(root, `${root}.away`)
    await untilStatus(p, 'FAILED', /The folder of the instance is gone/)
    renameSync(`${root}.away`, root)
    await untilStatus(p, 'ACTIVE', null)
    t.same(await query(url, 'select id from kept'), [{ id: 1 }])
  })

  await t.test('an archive that is lost', async (t) => {
    const major = (await p.call('GET', '/api/provision/shop')).body.version.major
    const archive = join(root, `archive-${major}`)
    rmSync(archive, { recursive: true })
    await untilStatus(p, 'DEGRADED', /archived write-ahead log is gone/)
    t.equal((await p.call('GET', '/api/provision/shop/backup/list')).body.archiving, 'LOST')
    await query(url, 'insert into kept values (2)')
    const backup = await p.call('POST', '/api/provision/shop/backup/trigger?wait=60')
    t.equal(backup.status, 200, JSON.stringify(backup.body))
    t.ok(existsSync(archive), 'a new backup begins a new one')
    await untilStatus(p, 'ACTIVE', null)
    const restored = await p.call('POST', '/api/provision/shop/backup/restore?wait=90', { newProjectId: 'copy' })
    t.equal(restored.status, 201, JSON.stringify(restored.body))
    const copy = (await p.call('GET', '/api/provision/copy/credentials')).body.connectionUrl
    t.same(await query(copy, 'select id from kept order by id'), [{ id: 1 }, { id: 2 }], 'from which can be restored')
    t.equal((await p.call('DELETE', '/api/provision/copy?wait=60')).status, 200)
  })

  await t.test('a quota that is used up', async (t) => {
    await decide(p.bus, {
      ...instancePlace('shop'),
      aggregate: instance,
      actor: 'test',
      decide: () => [facts.settings.of({ storageBytes: 10 * mib, by: 'test', at: Date.now() })],
    })
    await untilStatus(p, 'STORAGE_FULL', /storage of 10Mi is full/)
    await t.rejects(query(url, 'insert into kept values (3)'), { code: '25006' })
    t.same(await query(url, 'select count(*)::int as n from kept'), [{ n: 2 }], 'reading goes on')
    const rules = async (path: string) =>
      (await p.call('GET', path)).body.map(({ rule, resolved }: { rule: string; resolved: boolean }) => [
        rule,
        resolved,
      ])
    await eventually(async () => {
      const active = await rules('/api/alerts')
      if (!/disk-full/.test(JSON.stringify(active))) throw new Error(JSON.stringify(active))
    })
    t.equal((await p.call('POST', '/api/provision/shop/resize?wait=30', { newSize: '6Gi' })).status, 200)
    await untilStatus(p, 'ACTIVE', null)
    await query(url, 'insert into kept values (3)')
    await eventually(async () => {
      const active = await rules('/api/alerts/project/shop')
      if (active.some(([, resolved]: [string, boolean]) => !resolved)) throw new Error(JSON.stringify(active))
    })
    const history = (await rules('/api/alerts/history')).filter(([rule]: [string]) => /^disk/.test(rule))
    t.same(history.sort(), [['disk', true], ['disk-full', true]], 'what is over is history') // biome-ignore format: pairs
    t.same(await rules('/api/alerts'), [])
  })
})

t.test(
  'a full disk is a state with a reason: nothing is lost, and with room again it is written to again',
  async (t) => {
    const { p, url, root } = await provisioned(t, { disk: '256m' })
    if (!p.ownDisk) return t.comment('no right to mount a small disk here')
    const major = (await p.call('GET', '/api/provision/shop')).body.version.major
    await query(url, "create table large as select n, repeat('x', 1000) from generate_series(1, 25000) as n")
    await query(url, 'drop table large')
    await eventually(async () => {
      const [{ archived_count: archived }] = (await query(url, 'select archived_count from pg_stat_archiver')) as [
        Record<string, unknown>,
      ]
      const left = readdirSync(join(root, `archive-${major}`)).length
      if (Number(archived) < 25 || left > 20) throw new Error(`${left} of ${archived}`)
    })
    t.pass('a log that no backup needs is not kept')
    const filler = join(p.home, 'filler')
    fill(filler, p.home, 24 * mib)
    await untilStatus(p, 'STORAGE_FULL', /disk of the machine is full/)
    await t.rejects(
      query(url, 'insert into kept values (2)'),
      { code: '25006' },
      'before the server has no room to end well',
    )
    fill(filler, p.home, 0)
    process.kill(postmasterOf(root), 'SIGKILL')
    await eventually(async () => {
      await query(url, 'select 1').then(
        () => Promise.reject(new Error('it still answers')),
        () => undefined,
      )
    })
    await untilStatus(p, 'STORAGE_FULL', /disk of the machine is full/)
    rmSync(filler)
    await untilStatus(p, 'ACTIVE', null)
    await query(url, 'insert into kept values (2)')
    t.same(await query(url, 'select id from kept order by id'), [{ id: 1 }, { id: 2 }])
  },
)
