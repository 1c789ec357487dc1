import { readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { createConnection } from 'mysql2/promise'
import t, { type Test } from 'tap'
import { archivedSegments } from '../../workers/provisioning/local/backup/archive.ts'
import { positionOf } from '../../workers/provisioning/local/backup/wal-name.ts'
import { mariadbHere } from './care-mysql-node.ts'
import { eventually, platform, query, urlOf } from './platform.ts'

t.setTimeout(240_000)

const dayMs = 86_400_000

/** An instance without a schedule, and two backups of it, made so many days ago as it seems; a worker begins behind that. */
async function aged(
  t: Test,
  databaseType: 'POSTGRESQL' | 'MYSQL',
  write: (url: string, n: number) => Promise<unknown>,
) {
  const p = await platform(t, { worker: false })
  const worker = await p.startWorker()
  const body = { projectName: 'shop', orgId: 'acme', databaseType, tier: 'FREE' }
  const made = await p.call('POST', '/api/provision?wait=120', body)
  t.equal(made.status, 201, JSON.stringify(made.body))
  const url = await urlOf(p, 'shop')
  for (const n of [1, 2]) {
    await write(url, n)
    const backup = await p.call('POST', '/api/provision/shop/backup/trigger?wait=60')
    t.equal(backup.status, 200, JSON.stringify(backup.body))
  }
  await write(url, 3)
  await worker.stop()
  const root = join(p.home, 'instances', made.body.id)
  const folder = readdirSync(root).find((name) => name.startsWith('backups'))!
  const ids = readdirSync(join(root, folder)).sort()
  for (const [index, days] of [20, 10].entries()) {
    const file = join(root, folder, ids[index]!, 'backup.json')
    const record = JSON.parse(readFileSync(file, 'utf8'))
    writeFileSync(file, JSON.stringify({ ...record, consistentAt: record.consistentAt - days * dayMs }))
  }
  const backups = async () => (await p.call('GET', '/api/provision/shop/backup/list')).body.backups
  const untilPruned = async () => {
    await p.startWorker()
    return await eventually(async () => {
      const left = await backups()
      if (left?.length !== 1 || left[0].id !== ids[1]) throw new Error(JSON.stringify(left))
      return left[0]
    })
  }
  return { p, url, root, untilPruned }
}

t.test('what has become too old goes, where no schedule makes a backup that would see to it', async (t) => {
  const fill = (n: number) => `insert into kept select ${n}, repeat('x', 1000) from generate_series(1, 3000)`
  const { p, root, untilPruned } = await aged(t, 'POSTGRESQL', async (url, n) => {
    if (n === 1) await query(url, 'create table kept (id int, filler text)')
    await query(url, fill(n))
  })
  const archive = join(root, readdirSync(root).find((name) => name.startsWith('archive'))!)
  const before = archivedSegments(archive).length
  const { beginWal } = await untilPruned()
  await eventually(async () => {
    const [oldest] = archivedSegments(archive)
    if (positionOf(oldest!) < positionOf(beginWal)) throw new Error(`${oldest} of ${before}`)
  })
  const restored = await p.call('POST', '/api/provision/shop/backup/restore?wait=90', { newProjectId: 'copy' })
  t.equal(restored.status, 201, JSON.stringify(restored.body))
  const rows = await query(await urlOf(p, 'copy'), 'select id, count(*)::int as n from kept group by 1 order by 1')
  t.same(rows, [1, 2, 3].map((id) => ({ id, n: 3000 })), 'and nothing that a restore needs') // biome-ignore format: rows
  for (const project of ['copy', 'shop']) {
    t.equal((await p.call('DELETE', `/api/provision/${project}?wait=60`)).status, 200)
  }
})

const here = mariadbHere() !== undefined

t.test('as with MySQL', { skip: here ? false : 'there is no MariaDB' }, async (t) => {
  const { p, root, untilPruned } = await aged(t, 'MYSQL', async (url, n) => {
    const connection = await createConnection({ uri: url })
    if (n === 1) await connection.query('create table kept (id int primary key)')
    await connection.query('insert into kept values (?)', [n])
    await connection.end()
  })
  const { binlogFile } = await untilPruned()
  const logs = readdirSync(root, { recursive: true, encoding: 'utf8' }).filter((path) => /\.\d{6}$/.test(path))
  t.ok(logs.length > 0)
  t.ok(
    logs.every((path) => path.split('/').at(-1)! >= binlogFile),
    `${binlogFile}: ${logs}`,
  )
  t.equal((await p.call('DELETE', '/api/provision/shop?wait=60')).status, 200)
})
