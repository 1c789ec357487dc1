import { createHash } from 'node:crypto'
import t from 'tap'
import { connectionUrl } from '../../workers/provisioning/local/credentials/connection-url.ts'
import { newPassword, scramVerifier } from '../../workers/provisioning/local/credentials/scram.ts'
import {
  alreadyApplied,
  checksumsOf,
  listedMigrations,
  migrationId,
  readMigration,
} from '../../workers/provisioning/local/migrations/migration.ts'
import { leadingWords, splitPostgresSql } from '../../workers/provisioning/local/migrations/split-sql.ts'

t.test('SQL is cut at the semicolons that end a statement', async (t) => {
  const cases: [string, string[]][] = [
    ['select 1; select 2;', ['select 1', 'select 2']],
    ["select ';'; select 'it''s;'", ["select ';'", "select 'it''s;'"]],
    ["select E'\\';' ; select 1", ["select E'\\';'", 'select 1']],
    ["select '\\'; select 1", ["select '\\'", 'select 1']],
    ['select ";" ; -- a; b\nselect /* ; /* ; */ ; */ 1;', ['select ";"', '-- a; b\nselect /* ; /* ; */ ; */ 1']],
    ['do $$ begin; end $$; do $a$ $$;$$ $a$;', ['do $$ begin; end $$', 'do $a$ $$;$$ $a$']],
    ['-- only a comment;\n;;', []],
    [
      'create rule r as on insert to t do (select 1; select 2); select 3',
      ['create rule r as on insert to t do (select 1; select 2)', 'select 3'],
    ],
    [
      'create function f() returns int begin atomic select case when true then 1 end; select 2; end; select 3',
      ['create function f() returns int begin atomic select case when true then 1 end; select 2; end', 'select 3'],
    ],
    [
      'create or replace procedure p() begin atomic insert into t values (1); end; x',
      ['create or replace procedure p() begin atomic insert into t values (1); end', 'x'],
    ],
    ['begin; end; commit', ['begin', 'end', 'commit']],
    ["select 'open; ", ["select 'open;"]],
    ['select a$b; select $1', ['select a$b', 'select $1']],
  ]
  for (const [sql, statements] of cases) t.strictSame(splitPostgresSql(sql), statements, sql)
  t.strictSame(leadingWords('/* x */ -- y\n create  table t', 2), ['CREATE', 'TABLE'])
  t.strictSame(leadingWords('commit', 2), ['COMMIT'])
})

t.test('a migration is read strictly', async (t) => {
  const good = { projectId: 'p', version: '2024.1', name: 'n', sql: 'select 1' }
  t.equal(readMigration(good).timeoutMs, 60_000)
  for (const [field, value] of [
    ['version', ''],
    ['version', 'a b'],
    ['name', ' '],
    ['sql', ' \n'],
    ['sql', 'x'.repeat(1024 * 1024 + 1)],
    ['timeoutMs', 0],
  ] as const) {
    t.throws(() => readMigration({ ...good, [field]: value }), { message: new RegExp(field), field })
  }
  const sums = checksumsOf('select 1')
  t.equal(sums.checksum, createHash('md5').update('select 1').digest('hex').slice(0, 8))
  t.match(sums, { checksum: /^[0-9a-f]{8}$/, sha256: /^[0-9a-f]{64}$/ })
  const record = { version: '1', status: 'APPLIED', sha256: 'a', checksum: 'c' } as never
  t.equal(alreadyApplied([record], '1', 'a'), record)
  t.equal(alreadyApplied([record], '2', 'b'), undefined)
  t.throws(() => alreadyApplied([record], '1', 'b'), { message: /other SQL/, status: 409 })
  const at = new Date('2026-11-21T07:05:09Z')
  t.equal(
    migrationId(at, () => false),
    'mig-20261121-070509',
  )
  t.equal(
    migrationId(at, (id) => !id.endsWith('-3')),
    'mig-20261121-070509-3',
  )
})

t.test('verifiers, passwords and URLs', async (t) => {
  // RFC 7677, section 3: user "pencil".
  const verifier = await scramVerifier('pencil', Buffer.from('W22ZaJ0SNY7soEsUEjb6gQ==', 'base64'))
  t.equal(
    verifier,
    'SCRAM-SHA-256$4096:W22ZaJ0SNY7soEsUEjb6gQ==$WG5d8oPm3OtcPnkdi4Uo7BkeZkBFzpcXkuLmtbsT4qY=:wfPLwcE6nTWhTAmQ7tl2KeoiWGPlZqQxSrmfPwDl2dU=',
  )
  await t.rejects(scramVerifier('pässword'), { message: /ASCII/ })
  t.match(newPassword(), /^[A-Za-z2-9]{32}$/)
  t.not(newPassword(), newPassword())
  const target = {
    host: '::1',
    port: 5432,
    databaseName: 'a/b',
    username: "u'@",
    password: 'p:?#%',
    sslMode: 'disable',
  }
  t.equal(connectionUrl('POSTGRESQL', target), 'postgresql://u%27%40:p%3A%3F%23%25@[::1]:5432/a%2Fb?sslmode=disable')
  const url = new URL(connectionUrl('MYSQL', { ...target, host: '127.0.0.1' }))
  t.equal(decodeURIComponent(url.password), 'p:?#%')
})

t.test('a list of migrations stays as short as a message can carry', (t) => {
  const record = (id: number, sql: string) => ({ id: `mig-${id}`, sql, output: 'SELECT 1' }) as never
  const few = [record(1, 'select 1'), record(2, 'select 2')]
  t.strictSame(listedMigrations(few), few)
  const long = Array.from({ length: 1_200 }, (_, index) => record(index, 'x'.repeat(index < 1_190 ? 10 : 1024 * 1024)))
  const listed = listedMigrations(long)
  t.equal(listed.length, 1_000)
  t.equal(listed.at(-1), long.at(-1), 'the newest whole')
  t.match(listed.at(-5), { id: 'mig-1195', sql: null, output: null }, 'of older ones what is short')
  t.ok(Buffer.byteLength(JSON.stringify(listed)) < 4 * 1024 * 1024)
  t.end()
})
