import t from 'tap'
import { type Flavour, mysqlFlavour } from '../../gateways/data/mysql-sql.ts'
import { isRealMysql } from '../support/mysql.ts'
import { openMysqlGateway, testMysqlServer } from './gateway.ts'

t.setTimeout(120_000)

const tables = `
  create table shelf (id int unsigned primary key auto_increment, name varchar(20) not null default 'plain', parent_id int unsigned,
    foreign key (parent_id) references shelf (id));
  create table jar (shop char(4), code decimal(8, 2), shelf_id int unsigned, label varchar(20) unique, primary key (shop, code),
    foreign key (shelf_id) references shelf (id));
  create table day (at datetime(3) primary key, note varchar(20));
  create table ticket (line int, number bigint not null auto_increment, note varchar(20), primary key (line, number), key (number));
  create table named (name varchar(20) primary key default 'nobody', n int);
  create table loose (n int)`
const names = ['jar', 'shelf', 'day', 'ticket', 'named', 'loose']

const { address, sql } = await testMysqlServer(t, tables)

/** Expected data, or the code of the error. */
type Case = readonly [title: string, mutation: string, expected: object | string]

const cases: readonly Case[] = [
  ['a number that is counted up', 'createPublicShelf(input: { name: "a" }) { id name }', { id: '1', name: 'a' }],
  ['nothing but defaults', 'createPublicShelf(input: {}) { id name }', { id: '2', name: 'plain' }],
  ['a number that is given', 'createPublicShelf(input: { id: "7" }) { id name }', { id: '7', name: 'plain' }],
  [
    'many, of several shapes, each in its place',
    'createManyPublicShelf(inputs: [{ name: "x" }, { id: "20" }, { name: "y", parent_id: "7" }, {}, { name: "z" }]) { id name parent_id }',
    [
      { id: '8', name: 'x', parent_id: null },
      { id: '20', name: 'plain', parent_id: null },
      { id: '21', name: 'y', parent_id: '7' },
      { id: '22', name: 'plain', parent_id: null },
      { id: '9', name: 'z', parent_id: null },
    ],
  ],
  [
    'with what hangs on it',
    'createPublicShelf(input: { name: "w", parent_id: "7" }) { name publicShelf { name publicShelfByParent_id { name } } }',
    {
      name: 'w',
      publicShelf: { name: 'plain', publicShelfByParent_id: [{ name: 'y' }, { name: 'w' }] },
    },
  ],
  [
    'a key of two columns, in other words than they are kept in',
    'createManyPublicJar(inputs: [{ shop: "b", code: "2" }, { shop: "a", code: "1.5", label: "q" }, { shop: "a", code: "01.00" }]) { shop code label }',
    [
      { shop: 'b', code: '2.00', label: null },
      { shop: 'a', code: '1.50', label: 'q' },
      { shop: 'a', code: '1.00', label: null },
    ],
  ],
  [
    'many with what hangs on them',
    'createManyPublicJar(inputs: [{ shop: "d", code: "2", shelf_id: "7" }, { shop: "c", code: "1", shelf_id: "8" }]) { code publicShelf { id publicJar { shop } } }',
    [
      { code: '2.00', publicShelf: { id: '7', publicJar: [{ shop: 'd' }] } },
      { code: '1.00', publicShelf: { id: '8', publicJar: [{ shop: 'c' }] } },
    ],
  ],
  [
    'a moment as the key',
    'createPublicDay(input: { at: "2024-01-01T02:00:00.5+02:00" }) { at }',
    { at: '2024-01-01T00:00:00.500' },
  ],
  [
    'a key of which one column is counted up',
    'createManyPublicTicket(inputs: [{ line: 2, note: "a" }, { line: 1, note: "b" }, { line: 2, note: "c" }]) { line number note }',
    [
      { line: 2, number: '1', note: 'a' },
      { line: 1, number: '2', note: 'b' },
      { line: 2, number: '3', note: 'c' },
    ],
  ],
  ['a key that is there', 'createPublicShelf(input: { id: "7" }) { id }', 'data/conflict'],
  [
    'none of many when one is refused',
    'createManyPublicShelf(inputs: [{ name: "lost" }, { name: "lost", parent_id: "99" }]) { id }',
    'data/conflict',
  ],
  [
    'nor when the second shape is',
    'createManyPublicShelf(inputs: [{ name: "lost" }, { id: "7" }]) { id }',
    'data/conflict',
  ],
  [
    'a row that changes, with what hangs on it',
    'updatePublicShelf(input: { id: "7", name: "seven" }) { name publicJar { shop } }',
    { name: 'seven', publicJar: [{ shop: 'd' }] },
  ],
  [
    'by a key of two columns',
    'updatePublicJar(input: { shop: "a", code: "1.5", label: null }) { code label }',
    { code: '1.50', label: null },
  ],
  ['a row that is not there', 'updatePublicShelf(input: { id: "99", name: "x" }) { id }', {} as never],
  [
    'deleted, as it was',
    'deletePublicJar(input: { shop: "a", code: "1.50" }) { code label }',
    { code: '1.50', label: null },
  ],
  [
    'deleted, with what it hung on',
    'deletePublicJar(input: { shop: "d", code: "2" }) { shop publicShelf { name } }',
    { shop: 'd', publicShelf: { name: 'seven' } },
  ],
  ['a row that others refer to', 'deletePublicShelf(input: { id: "7" }) { id }', 'data/conflict'],
]

const ways: readonly (readonly [string, Flavour | undefined])[] = [
  ['as the server writes', undefined],
  ...(isRealMysql ? [] : [['without RETURNING', { server: 'mariadb', returning: false }] as const]),
]

for (const [title, flavour] of ways) {
  t.test(title, async (t) => {
    await sql.query(`drop table ${names.join(', ')}; ${tables}`)
    const { ask } = await openMysqlGateway(t, address, flavour === undefined ? {} : { mysqlFlavour: flavour })
    for (const [title, mutation, expected] of cases) {
      const { data, errors } = await ask(`mutation { it: ${mutation} }`)
      if (typeof expected === 'string') {
        t.match(errors, [{ extensions: { code: expected } }], title)
        t.same(data, { it: null }, title)
      } else if (Object.keys(expected).length === 0) {
        t.same(data, { it: null }, title)
      } else {
        t.equal(errors, undefined, `${title}: ${JSON.stringify(errors)}`)
        t.same(data?.it, expected, title)
      }
    }
    const { data } = await ask('{ publicShelf(where: { name: { eq: "lost" } }) { id } }')
    t.same(data, { publicShelf: [] })
  })
}

t.test('a new row that a server without RETURNING could not show is not written', async (t) => {
  const mysqlFlavour: Flavour = { server: isRealMysql ? 'mysql' : 'mariadb', returning: false }
  const { ask } = await openMysqlGateway(t, address, { mysqlFlavour })
  const refusals: readonly (readonly [string, string, string])[] = [
    ['createPublicNamed(input: { n: 1 }) { name }', 'data/invalid-body', 'name'],
    ['createPublicLoose(input: { n: 1 }) { n }', 'data/too-complex', ''],
    ['createPublicDay(input: { at: "2024-01-01T00:00:00.1239Z" }) { at }', 'data/invalid-body', ''],
  ]
  for (const [mutation, code, field] of refusals) {
    const { errors } = await ask(`mutation { ${mutation} }`)
    t.match(errors, [{ extensions: { code, ...(field === '' ? {} : { details: { field } }) } }], mutation)
  }
  const { data } = await ask(
    '{ publicNamed { n } publicLoose { n } publicDay(where: { at: { gt: "2024-01-01T00:00:00.1" }, note: { isNull: true } }) { at } }',
  )
  t.same(data.publicNamed, [])
  t.same(data.publicLoose, [])
})

t.test('numbers that others count up at the same time are not taken for ours', async (t) => {
  await sql.query(
    'delete from jar; update shelf set parent_id = null; delete from shelf; set global auto_increment_increment = 3, global auto_increment_offset = 2',
  )
  t.teardown(() => sql.query('set global auto_increment_increment = 1, global auto_increment_offset = 1'))
  const real: Flavour = isRealMysql ? mysqlFlavour : { server: 'mariadb', returning: false }
  const { ask } = await openMysqlGateway(t, address, { mysqlFlavour: real, poolSize: 8 })
  const many = (name: string) => {
    const inputs = Array.from({ length: 50 }, (_, index) => `{ name: "${name} ${index}" }`).join(', ')
    return ask(`mutation { it: createManyPublicShelf(inputs: [${inputs}]) { name } }`)
  }
  const callers = Array.from({ length: 12 }, (_, index) => `caller ${index}`)
  const answers = await Promise.all(callers.map(many))
  for (const [index, { data, errors }] of answers.entries()) {
    t.equal(errors, undefined)
    t.same(
      data.it.map(({ name }: { name: string }) => name),
      Array.from({ length: 50 }, (_, each) => `caller ${index} ${each}`),
    )
  }
})
