import t from 'tap'
import { toolFailure, toolReason } from '../../workers/provisioning/local/mysql/mysql-tools.ts'
import { nativeVerifier } from '../../workers/provisioning/local/mysql/passwords.ts'
import { splitMysqlSql, withoutMysqlComments } from '../../workers/provisioning/local/mysql/split-mysql-sql.ts'

t.test('MySQL’s SQL is cut at the marks that end a statement', async (t) => {
  const cases: [string, string[]][] = [
    ['select 1; select 2;', ['select 1', 'select 2']],
    ["select ';' , \"a;\", `b;`; select 'it''s;', 'a\\';'", ['select \';\' , "a;", `b;`', "select 'it''s;', 'a\\';'"]],
    ['select 1; -- a; b\n# c;\n/* d; */ select 2', ['select 1', '-- a; b\n# c;\n/* d; */ select 2']],
    ['select 5--1; x', ['select 5--1', 'x']],
    ['-- only;\n;; # nothing', []],
    ['/*!50003 set a = 1 */; select 1', ['/*!50003 set a = 1 */', 'select 1']],
    [
      'select 0;\nDELIMITER //\ncreate procedure p() begin select 1; select 2; end//\ndelimiter ;\nselect 3;',
      ['select 0', 'create procedure p() begin select 1; select 2; end', 'select 3'],
    ],
    ["select 'open; ", ["select 'open;"]],
  ]
  for (const [sql, statements] of cases) t.strictSame(splitMysqlSql(sql), statements, sql)
  t.equal(withoutMysqlComments("/* x */ commit -- y\n'#'").trim(), "commit '#'")
})

t.test('verifiers, and the reasons of tools', async (t) => {
  // The example of MySQL's own manual.
  t.equal(nativeVerifier('mypass'), '*6C8989366EAF75BB670AD8EA7A7FC1176A95CEF4')
  t.equal(
    toolReason('mariadb-dump: Got error: 1146: "Table x" when using /var/lib/a/b'),
    '1146: "Table x" when using a file',
  )
  t.equal(toolReason(''), '')
  const gone = "[00] 2026-11-21 18:08:11 Failed to connect to MariaDB server: Can't connect to server (111)."
  t.match(toolFailure('No backup', gone), { kind: 'unavailable', message: /^No backup: Failed to connect/ })
  t.match(toolFailure('No dump', 'mariadb-dump: Error 2013: Lost connection to server'), { kind: 'unavailable' })
  t.match(toolFailure('No dump', 'mariadb-dump: Got error: 1146: "Table 2013x"'), { kind: 'failed' })
})
