import fc from 'fast-check'
import pg from 'pg'
import t from 'tap'
import { tableKey } from '../../gateways/data/catalog.ts'
import { watchCatalog } from '../../gateways/data/catalog-watch.ts'
import { compileChangeFilter } from '../../gateways/data/changes-filter.ts'
import { rawMembers } from '../../gateways/data/changes-json.ts'
import { readSnapshot } from '../../gateways/data/changes-snapshot.ts'
import { openDatabase } from '../../gateways/data/postgres-run.ts'
import { defaultReadLimits } from '../../gateways/data/read-limits.ts'
import { parseFilters, scopeOf } from '../../gateways/rest/parse-list.ts'
import { Rejected } from '../../schemas/failure.ts'
import { testPostgres } from '../support/servers.ts'

t.setTimeout(120_000)

const server = await testPostgres(t)
const connection = { connectionString: server.url }
const sql = new pg.Client(connection)
await sql.connect()
t.teardown(() => sql.end())

/** Values as a client writes them, each column's rising. */
const values: Readonly<Record<string, readonly string[]>> = {
  small: ['-32768', '-1', '0', '7'],
  big: ['-9007199254740993', '-9007199254740992', '9007199254740992', '9007199254740993'],
  exact: ['-1e2', '-0.10', '1.5', '1.50', '9007199254740993.000000001', 'Infinity', 'NaN'],
  double: ['-Infinity', '-1e-300', '0.1', '0.30000000000000004', '1e300', 'NaN'],
  single: ['-1.5', '0.1', '16777216', '3e38'],
  flag: ['false', 'true'],
  words: ['', 'a', 'ab', 'abc', 'b%', 'b_c', 'with "quotes"', 'ünïcode'],
  padded: ['a', 'ab', 'b'],
  day: ['-infinity', '0044-03-15 BC', '0001-01-01', '1999-12-31', '2024-02-29', '10000-01-01', 'infinity'],
  moment: ['2024-02-29T12:00:00', '2024-02-29T12:00:00.000001', '2024-02-29T12:00:00.1', '2024-03-01T00:00:00'],
  instant: ['2024-02-29T12:00:00Z', '2024-02-29T14:00:00.5+02:00', '2024-02-29T13:00:00Z'],
  clock: ['00:00:00', '12:30:00', '12:30:00.5', '24:00:00'],
  ident: ['00000000-0000-0000-0000-000000000001', 'A0EEBC99-9C0B-4EF8-BB6D-6BB9BD380A11'],
  mood: ['sad', 'ok', 'happy'],
  tags: ['{}', '{a}', '{a,b}'],
}
await sql.query(`
  create type mood as enum ('sad', 'ok', 'happy');
  create table probe (id int primary key, small int2, big int8, exact numeric, double float8, single float4, flag bool, words text,
    padded char(4), day date, moment timestamp, instant timestamptz, clock time, ident uuid, mood mood, tags text[])`)
const columns = Object.keys(values)
const rowCount = Math.max(...Object.values(values).map(({ length }) => length)) + 1
for (let id = 0; id < rowCount; id++) {
  const row = columns.map((column) => values[column]![id] ?? null)
  await sql.query(`insert into probe (id, ${columns}) values (${id}, ${row.map((_, index) => `$${index + 1}`)})`, row)
}
const connect = async () => {
  const client = new pg.Client(connection)
  await client.connect()
  return client
}
const watch = await watchCatalog({ connect, schemas: ['public'] })
const database = await openDatabase({ connection, poolSize: 2, applicationName: 'filter test' })
t.teardown(async () => {
  await watch.stop()
  await database.close()
})
const table = watch.current().tables.get(tableKey('public', 'probe'))!
const context = { readOnly: true }

/** Ids of the rows that pass: as the stream's filter has it, and as the database has it. */
async function both(parameters: readonly [string, string][]): Promise<[number[], number[]]> {
  const scope = scopeOf(watch.current(), defaultReadLimits)
  const { filter } = parseFilters(table, parameters, scope)
  const passes = await compileChangeFilter(filter, scope.slots.values, table, { database, context })
  const read = async (wanted: typeof filter) => {
    const request = { table, columns: null, filter: wanted, parameters: wanted ? scope.slots.values : [], maxRows: 100 }
    return (await readSnapshot(request, database, context)).rows.map((row) => rawMembers(row.toString('utf8')))
  }
  const idOf = (row: ReadonlyMap<string, string>) => Number(row.get('id'))
  const all = await read(null)
  return [all.filter((row) => passes!(row)).map(idOf), (await read(filter)).map(idOf)]
}

const condition = fc
  .constantFrom(...columns)
  .chain((column) =>
    fc.tuple(
      fc.constant(column),
      fc.constantFrom(
        'eq',
        'neq',
        'gt',
        'gte',
        'lt',
        'lte',
        'in',
        'notin',
        'isdistinct',
        'is',
        'like',
        'ilike',
        'contains',
        'startswith',
      ),
      fc.subarray([...values[column]!], { minLength: 1, maxLength: Math.min(3, values[column]!.length) }),
      fc.boolean(),
    ),
  )
  .map(([column, operator, operands, negated]) => {
    const quoted = (text: string) => `"${text.replace(/["\\]/g, '\\$&')}"`
    const list = operator === 'in' || operator === 'notin'
    const operand = list ? `(${operands.map(quoted)})` : operator === 'is' ? 'null' : quoted(operands[0]!)
    return `${negated ? 'not.' : ''}${column}.${operator}.${operand}`
  })

t.test('a filter lets the changes through whose rows the database would find', async (t) => {
  let compared = 0
  await fc.assert(
    fc.asyncProperty(
      fc.array(condition, { minLength: 1, maxLength: 3 }),
      fc.constantFrom('and', 'or'),
      async (all, kind) => {
        try {
          const [stream, found] = await both([[kind, `(${all.join(',')})`]])
          compared += 1
          t.strictSame(stream, found, `${kind} ${all.join(', ')}`)
        } catch (error) {
          if (!(error instanceof Rejected)) throw error
          t.match(error.code, /^data\/(invalid-filter|invalid-value)$/)
        }
      },
    ),
    { numRuns: 600 },
  )
  t.ok(compared > 200, `${compared} filters were compared`)
})

t.test('a column that a change does not carry lets it pass', async (t) => {
  const scope = scopeOf(watch.current(), defaultReadLimits)
  const { filter } = parseFilters(
    table,
    [
      ['words', 'eq.a'],
      ['id', 'gt.3'],
    ],
    scope,
  )
  const passes = await compileChangeFilter(filter, scope.slots.values, table, { database, context })
  t.ok(passes!(new Map([['id', '4']])))
  t.notOk(passes!(new Map([['id', '3']])))
})

t.test('what only the database can evaluate is refused', async (t) => {
  const cases: [string, string, RegExp][] = [
    ['words', 'match.a', /match cannot be evaluated on a stream/],
    ['tags', 'gt.{a}', /cannot order|cannot be/],
    ['words', 'fts.a', /cannot be evaluated on a stream/],
  ]
  for (const [column, text, why] of cases) {
    await t.rejects(both([[column, text]]), { code: 'data/invalid-filter', message: why, details: { field: column } })
  }
})
