import { existsSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import t from 'tap'
import { callPlugin, failure } from './call-plugin.ts'

t.test('db.sqlite', async (t) => {
  t.test('statements on a database that begins empty, kept as a file for the next task', async (t) => {
    const made = await callPlugin('db.sqlite', {
      statements: [
        { sql: 'create table t (id integer, big integer, bytes blob)' },
        { sql: 'insert into t values (?, ?, ?)', parameters: [1, 2, 'x'] },
        { sql: "select id, 9007199254740993 as big, x'00ff' as bytes from t" },
      ],
      keep: true,
    })
    t.match(made, { rows: [{ id: 1, big: '9007199254740993', bytes: 'AP8=' }], rowCount: 1 })
    const asked = await callPlugin('db.sqlite', { file: made.uri, sql: 'select count(*) as n from t' })
    t.match(asked, { rows: [{ n: 1 }], uri: null })
  })
  t.test('all or none, within bounds', async (t) => {
    const statements = [{ sql: 'create table a (b)' }, { sql: 'nonsense' }]
    await t.rejects(callPlugin('db.sqlite', { statements }), failure('refused', /SQLite refused it: near "nonsense"/))
    const sql = 'with recursive r(n) as (select 1 union all select n + 1 from r) select n from r'
    await t.rejects(callPlugin('db.sqlite', { sql, maxRows: 9 }), failure('refused', /more than 9 rows/))
    await t.rejects(callPlugin('db.sqlite', { sql, maxBytes: 99 }), failure('refused', /more than 99 bytes/))
  })
  t.test('other files are out of reach', async (t) => {
    const path = join(tmpdir(), `busbar-test-${crypto.randomUUID()}`)
    const denied = failure('refused', /not authorized|authorization denied/)
    const statements = ['commit', `vacuum main into '${path}'`, 'begin'].map((sql) => ({ sql }))
    await t.rejects(callPlugin('db.sqlite', { sql: "attach '/etc/passwd' as p" }), denied)
    await t.rejects(callPlugin('db.sqlite', { statements }), denied)
    await t.rejects(callPlugin('db.sqlite', { sql: `pragma temp_store_directory = '${tmpdir()}'` }), denied)
    t.notOk(existsSync(path))
    t.match(await callPlugin('db.sqlite', { sql: "select 'attach' as word" }), { rows: [{ word: 'attach' }] })
  })
  t.test('a statement that never ends is ended', async (t) => {
    const sql = 'with recursive r(n) as (select 1 union all select n + 1 from r) select count(*) from r'
    await t.rejects(callPlugin('db.sqlite', { sql, timeoutMs: 300 }), failure('timeout'))
    const controller = new AbortController()
    setTimeout(() => controller.abort(new Error('cancelled')), 300)
    await t.rejects(callPlugin('db.sqlite', { sql }, { signal: controller.signal }), { message: 'cancelled' })
  })
})
