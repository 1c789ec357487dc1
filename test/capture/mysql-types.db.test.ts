import t, { type Test } from 'tap'
import { isRealMysql } from '../support/mysql.ts'
import { bodies, mysqlScene, mysqlStage } from './mysql-scene.ts'

t.setTimeout(120_000)

const stage = await mysqlStage(t)
const scene = (t: Test, source: string) => mysqlScene(t, stage, source)

const columns: readonly (readonly [type: string, sql: string, json: string])[] = [
  ['bigint unsigned', '18446744073709551615', '18446744073709551615'],
  ['bigint', '-9223372036854775808', '-9223372036854775808'],
  ['int', '-5', '-5'],
  ['tinyint(1)', 'true', 'true'],
  ['tinyint', '1', '1'],
  ['bit(1)', "b'1'", 'true'],
  ['bit(12)', "b'101010101010'", '2730'],
  ['decimal(30,6)', '-123456789012345678.123456', '-123456789012345678.123456'],
  ['double', '1.5e-3', '0.0015'],
  ['float', '0.5', '0.5'],
  ['year', '2024', '2024'],
  ['varchar(20)', '\'grüß "dich" 🎈\'', '"grüß \\"dich\\" 🎈"'],
  ['char(3)', "'ab'", '"ab"'],
  ['text', "''", '""'],
  ["enum('a','b,c','d')", "'b,c'", '"b,c"'],
  ["set('x','y','z')", "'x,z'", '"x,z"'],
  // MariaDB keeps JSON as it was written.
  ['json', '\'{"a":  [1, 9007199254740993]}\'', `{"a": ${isRealMysql ? '' : ' '}[1, 9007199254740993]}`],
  ['date', "'2024-02-29'", '"2024-02-29"'],
  ['datetime', "'2024-02-29 12:34:56'", '"2024-02-29T12:34:56"'],
  ['datetime(6)', "'2024-02-29 12:34:56.123456'", '"2024-02-29T12:34:56.123456"'],
  ['timestamp(3) null', "'2024-02-29 12:34:56.789'", '"2024-02-29T12:34:56.789Z"'],
  ['time', "'-25:01:02'", '"-25:01:02"'],
  ['time(3)', "'10:01:02.500'", '"10:01:02.500"'],
  ['blob', "x'00ff10'", '"\\\\x00ff10"'],
  ['varbinary(8)', "x'0100'", '"\\\\x0100"'],
  ['point', "st_geomfromtext('POINT(1 2.5)')", '{"type":"Point","coordinates":[1,2.5]}'],
  [
    'polygon',
    "st_geomfromtext('POLYGON((0 0,1 0,1 1,0 0))')",
    '{"type":"Polygon","coordinates":[[[0,0],[1,0],[1,1],[0,0]]]}',
  ],
  ['multipoint', "st_geomfromtext('MULTIPOINT(0 0,1 2)')", '{"type":"MultiPoint","coordinates":[[0,0],[1,2]]}'],
]

t.test('every type of column, with every digit', async (t) => {
  const { database, running, changes } = await scene(t, 'types')
  await running()
  await database.query("set time_zone = '+00:00'")
  for (const [index, [type, sql, json]] of columns.entries()) {
    const table = `t${index}`
    await database.query(`create table ${table} (v ${type}); insert into ${table} values (${sql}), (null)`)
    t.same(
      bodies(await changes()),
      [json, 'null'].map((value) => `{"type":"INSERT","schema":"types","table":"${table}","data":{"v":${value}}}`),
      type,
    )
  }
})

const neighbours = [
  'point',
  'geometry',
  ...(isRealMysql ? [] : ['uuid', 'inet6']),
  'bit(12)',
  "enum('ä')",
  "set('é')",
  'json',
  'year',
  'decimal(5,2)',
  'time(6)',
]

t.test('what stands beside a column does not change how it is read', async (t) => {
  const { database, running, changes } = await scene(t, 'beside')
  await running()
  await database.query('set names utf8mb4')
  for (const [index, type] of neighbours.entries()) {
    const table = `t${index}`
    const others = 'b blob, l varchar(9) character set latin1, v varbinary(9), t text character set utf8mb4'
    await database.query(
      `create table ${table} (f ${type}, ${others}, s ${type}); insert into ${table} values (null, x'00ff', 'ö', x'ff', 'ü€', null)`,
    )
    t.same(
      bodies(await changes()),
      [
        `{"type":"INSERT","schema":"beside","table":"${table}","data":{"f":null,"b":"\\\\x00ff","l":"ö","v":"\\\\xff","t":"ü€","s":null}}`,
      ],
      type,
    )
  }
})
