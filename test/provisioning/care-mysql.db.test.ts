import { readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import t from 'tap'
import { openMysql, rowsOf, withMysql } from '../../workers/provisioning/local/mysql/mysql-session.ts'
import { rotateMysqlPassword } from '../../workers/provisioning/local/mysql/passwords.ts'
import { mariadbHere, mysqlGround } from './care-mysql-node.ts'

t.setTimeout(240_000)
const binaries = mariadbHere()
if (binaries === undefined) t.plan(0, 'no MariaDB on this machine')
else {
  const ground = mysqlGround(t, binaries)
  const node = await ground.create('shop')
  const user = { user: 'app', password: 'first-secret' }

  t.test('a new instance has its database, its owner and nobody else', async (t) => {
    const owner = await openMysql(node, { user })
    t.match(
      await rowsOf(owner, 'select database() as name, @@log_bin as log, @@global.time_zone as zone, @@tmpdir as tmp'),
      [
        // A server that starts removes what it finds among the temporary tables.
        { name: 'app', log: 1, zone: '+00:00', tmp: join(dirname(node.dataFolder), 'tmp') },
      ],
    )
    await owner.query('create table item (id int primary key, name varchar(40))')
    await t.rejects(owner.query('create database other'), { message: /denied/ })
    await owner.end()
    const accounts = await withMysql(node, (connection) =>
      rowsOf<{ user: string }>(connection, 'select distinct user from mysql.global_priv order by 1'),
    )
    t.strictSame(
      accounts.map((row) => row.user),
      ['app', 'mariadb.sys', 'platform'],
    )
    await t.rejects(openMysql(node, { user: { user: 'root', password: '' } }), {
      kind: 'unavailable',
      message: /kept password/,
    })
  })

  t.test('rotation: the new password opens, the old one does not, and neither is in the log', async (t) => {
    const old = await openMysql(node, { user })
    t.strictSame(await rotateMysqlPassword(node, { user: 'app', password: 'second-secret' }), { endedSessions: 0 })
    t.match(await rowsOf(old, 'select 1 as up'), [{ up: 1 }])
    await t.rejects(openMysql(node, { user }), { kind: 'unavailable', message: /kept password/ })
    const { endedSessions } = await rotateMysqlPassword(node, {
      user: 'app',
      password: 'first-secret',
      oldSessions: 'end',
    })
    t.equal(endedSessions, 1)
    await t.rejects(old.query('select 1'))
    await t.rejects(rotateMysqlPassword(node, { user: 'nobody', password: 'x' }), { status: 404, message: /no user/ })
    t.notMatch(readFileSync(node.logFile, 'utf8'), /second-secret/)
  })
}
