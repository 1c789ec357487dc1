import { join } from 'node:path'
import { createConnection } from 'mysql2/promise'
import t from 'tap'
import { testMariadb } from '../support/mariadb.ts'

const ask = async (url: string, sql: string) => {
  const connection = await createConnection({ uri: url, multipleStatements: true, dateStrings: true })
  try {
    const [rows] = await connection.query(sql)
    return rows
  } finally {
    await connection.end()
  }
}

t.test('a MariaDB of our own: a password, whole rows in its log, and what was committed outlives a kill', async (t) => {
  const server = await testMariadb(t)
  t.match(await ask(server.url, 'select @@version as version, current_user() as account'), [
    { version: /^\d+\.\d+.*MariaDB/, account: 'root@127.0.0.1' },
  ])
  t.match(await ask(server.url, "show variables like 'binlog_row_metadata'"), [{ Value: 'FULL' }])
  t.match(await ask(server.url, 'select @@tmpdir as folder'), [{ folder: join(server.dataDir, 'tmp') }])
  await t.rejects(ask(server.url.replace('secret', 'wrong'), 'select 1'), { code: 'ER_ACCESS_DENIED_ERROR' })
  await ask(server.url, 'create database shop; create table shop.t (id int primary key); insert into shop.t values (7)')
  await server.kill()
  await server.restart()
  t.same(await ask(server.url, 'select id from shop.t'), [{ id: 7 }])
})
