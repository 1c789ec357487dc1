import fc from 'fast-check'
import pg from 'pg'
import t from 'tap'
import { testGateway } from './gateway.ts'
import { type Condition, columns, columnsSql, oracleSql, sessionSql, typesSql, type Wanted } from './oracle.ts'
import { seed } from './seed.ts'

t.comment(`seed ${seed}`)

const names = Object.keys(columns)
const { sql, call } = await testGateway(t, {
  schemaSql: `${typesSql} create table thing (id integer primary key, ${columnsSql}); create table walk (id integer primary key, ${columnsSql});`,
})
await sql.query(sessionSql)
const rowOf = fc.tuple(...names.map((column) => fc.option(fc.constantFrom(...columns[column]!.pool), { freq: 4 })))
const insert = (table: string, id: number, row: readonly (string | null)[]) =>
  sql.query(
    `insert into ${table} values (${[id, ...row.map((value, index) => (value === null ? 'null' : `${pg.escapeLiteral(value)}::${columns[names[index]!]!.type}`))].join(', ')})`,
  )
for (const [index, row] of fc.sample(rowOf, { numRuns: 70, seed }).entries()) await insert('thing', index + 1, row)

// Filters -----------------------------------------------------------------------------------------------------------------

const compared = ['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'isdistinct'] as const
const patterns = ['%', 'a%', '%b', '_', '%a%', '', 'A_', '%\\%%', '50\\%', '1%', '%:%']
const pieces = ['', 'a', 'b', '%', '_', 'A', '\\', '"', '1', '0', ' ']
const regexes = ['^a', 'b$', '.', '[0-9]+', '^$', '\\\\', '^(a|b)', 'A']
const searches = ['a', 'ab', 'b', 'a b', '"a b"', 'x']
const keys = ['a', 'b', 'a,b', '']

/** Every operator that fits the column, with the operands it may have. */
function conditionsOn(column: string): readonly fc.Arbitrary<Condition>[] {
  const { pool, family } = columns[column]!
  const of = (operator: string, values: fc.Arbitrary<readonly string[]>): fc.Arbitrary<Condition> =>
    values.map((chosen) => ({ kind: 'condition', column, operator, values: chosen }))
  const one = (...values: readonly string[]) => fc.constantFrom(...values).map((value) => [value])
  const some = (...values: readonly string[]) => fc.subarray([...values], { minLength: 1, maxLength: 3 })
  const value = one(...pool)
  const each = (operators: readonly string[], values: fc.Arbitrary<readonly string[]>) =>
    operators.map((operator) => of(operator, values))
  const any = [
    ...each(compared, value),
    ...each(['in', 'notin'], fc.subarray([...pool], { maxLength: Math.min(3, pool.length) })),
    of('is', one('null')),
    of('isnotnull', one('', 'true', 'false')),
    ...each(['like', 'ilike'], one(...patterns)),
    ...each(['startswith', 'endswith', 'contains'], one(...pieces)),
    ...each(['match', 'imatch'], one(...regexes)),
  ]
  const own: Partial<Record<typeof family, readonly fc.Arbitrary<Condition>[]>> = {
    boolean: [of('is', one('true', 'false', 'unknown'))],
    text: each(['plfts(simple)', 'phfts(simple)', 'wfts(simple)'], one(...searches)).concat(
      of('fts(simple)', one('a', 'a & b', 'a | !b', 'a:*')),
    ),
    json: [
      of('haskey', one(...keys)),
      ...each(['haskeys', 'hasanykeys'], some('a', 'b', 'a,b', 'c')),
      ...each(['jsoncontains', 'jsoncontained', 'cs', 'cd'], value),
      of('plfts(simple)', one(...searches)),
    ],
    array: [
      ...each(['arraycontains', 'arrayhasall', 'arrayhasany', 'cs', 'cd', 'ov'], value),
      of('arraylength', one('0', '1', '2', '4')),
    ],
    range: each(['cs', 'cd', 'ov', 'sl', 'sr', 'nxl', 'nxr', 'adj'], value),
  }
  return [...any, ...(own[family] ?? [])]
}

const condition: fc.Arbitrary<Wanted> = fc.constantFrom(...names).chain((column) => fc.oneof(...conditionsOn(column)))
const { wanted } = fc.letrec<{ wanted: Wanted }>((tie) => ({
  wanted: fc.oneof(
    { depthSize: 'small', withCrossShrink: true },
    condition,
    tie('wanted').map((item) => ({ kind: 'not' as const, item })),
    fc.array(tie('wanted'), { minLength: 1, maxLength: 4 }).map((items) => ({ kind: 'and' as const, items })),
    fc.array(tie('wanted'), { minLength: 1, maxLength: 4 }).map((items) => ({ kind: 'or' as const, items })),
  ),
}))

// How a filter is written in a URL.
const lists = new Set(['in', 'notin', 'haskeys', 'hasanykeys'])
const quoted = (text: string): string => `"${text.replace(/["\\]/g, '\\$&')}"`
const inGroup = (text: string): string => (/^[\w:+-]+$/.test(text) ? text : quoted(text))

function predicate({ operator, values }: Condition, write: (text: string) => string): string {
  if (operator === 'isnotnull') return values[0] === '' ? 'isnotnull' : `isnotnull.${values[0]}`
  if (lists.has(operator)) return `${operator}.(${values.map(inGroup).join(',')})`
  return `${operator}.${write(values[0] ?? '')}`
}

function member(filter: Wanted): string {
  if (filter.kind === 'not') return `not.${member(filter.item)}`
  if (filter.kind === 'condition') return `${filter.column}.${predicate(filter, inGroup)}`
  return `${filter.kind}(${filter.items.map(member).join(',')})`
}

function parametersOf(filter: Wanted): [string, string][] {
  if (filter.kind === 'and') return filter.items.flatMap(parametersOf)
  if (filter.kind === 'or') return [['or', `(${filter.items.map(member).join(',')})`]]
  if (filter.kind === 'condition') return [[filter.column, predicate(filter, (text) => text)]]
  const { item } = filter
  if (item.kind === 'condition') return [[item.column, `not.${predicate(item, (text) => text)}`]]
  if (item.kind === 'not') return [['and', `(${member(filter)})`]]
  return [[`not.${item.kind}`, `(${item.items.map(member).join(',')})`]]
}

const queryOf = (parameters: readonly (readonly [string, string])[]): string =>
  parameters.map(([name, value]) => `${name}=${encodeURIComponent(value)}`).join('&')

async function idsOf(text: string): Promise<number[]> {
  return (await sql.query({ text, rowMode: 'array' })).rows.flat() as number[]
}

async function agrees(filter: Wanted): Promise<void> {
  const query = `/thing?select=id&limit=1000&${queryOf(parametersOf(filter))}`
  const expected = await idsOf(`select id from thing where ${oracleSql(filter)} order by id`)
  const { status, text } = await call(query, { headers: { Prefer: 'count=exact' } })
  if (status !== 200) throw new Error(`${query}: ${text}`)
  const { data, pagination } = JSON.parse(text)
  const found = data.map(({ id }: { id: number }) => id)
  if (found.join() !== expected.join() || pagination.total !== expected.length)
    throw new Error(`${query}: ${found} (of ${pagination.total}), not ${expected}`)
}

t.test('every operator on every type of column finds what SQL finds, and its negation the opposite', async (t) => {
  for (const column of names) {
    await t.test(column, async (t) => {
      const samples = conditionsOn(column).flatMap((conditions) => fc.sample(conditions, { numRuns: 3, seed }))
      for (const sample of samples) {
        await agrees(sample)
        await agrees({ kind: 'not', item: sample })
      }
      t.pass(`${samples.length} conditions agree`)
    })
  }
})

t.test('filters in groups of any nesting find what SQL finds', async (t) => {
  await fc.assert(fc.asyncProperty(wanted, agrees), { seed, numRuns: 400 })
  t.pass('they do')
})

// Pages -------------------------------------------------------------------------------------------------------------------

interface Sort {
  readonly column: string
  readonly direction: 'asc' | 'desc'
  readonly nulls: '' | 'first' | 'last'
}

const sortable = ['id', ...names.filter((column) => columns[column]!.sortable !== false)]
const sort: fc.Arbitrary<Sort> = fc.record({
  column: fc.constantFrom(...sortable),
  direction: fc.constantFrom('asc' as const, 'desc' as const),
  nulls: fc.constantFrom('' as const, 'first' as const, 'last' as const),
})
const order = fc.uniqueArray(sort, { minLength: 0, maxLength: 3, selector: ({ column }) => column })

const orderParameter = (sorts: readonly Sort[]): string =>
  sorts.length === 0
    ? ''
    : `&order=${sorts.map(({ column, direction, nulls }) => `${column}.${direction}${nulls && `.nulls${nulls}`}`).join(',')}`

/** Ties are broken by the key, in the direction of the last column. */
const orderOf = (sorts: readonly Sort[]): string =>
  [
    ...sorts.map(
      ({ column, direction, nulls }) => `${pg.escapeIdentifier(column)} ${direction}${nulls && ` nulls ${nulls}`}`,
    ),
    `id ${sorts.at(-1)?.direction ?? 'asc'}`,
  ].join(', ')

type Direction = 'forward' | 'backward'

/** All ids of the list, page after page; `between` runs before each further page. */
async function walked(
  query: string,
  limit: number,
  direction: Direction,
  between?: () => Promise<void>,
): Promise<number[]> {
  const found: number[] = []
  let cursor: string | null = null
  for (let page = 0; page < 200; page++) {
    const [count, from] = direction === 'forward' ? ['first', 'after'] : ['last', 'before']
    const { status, text } = await call(`${query}&${count}=${limit}${cursor === null ? '' : `&${from}=${cursor}`}`)
    if (status !== 200) throw new Error(`${query}: ${text}`)
    const { data, pagination } = JSON.parse(text)
    const ids = data.map(({ id }: { id: number }) => id)
    if (direction === 'forward') found.push(...ids)
    else found.unshift(...ids)
    if (!(direction === 'forward' ? pagination.hasMore : pagination.hasPrevious)) return found
    cursor = direction === 'forward' ? pagination.endCursor : pagination.startCursor
    await between?.()
  }
  throw new Error(`${query} never ends`)
}

t.test('walking all pages by cursor gives the whole ordered list, forward and backward', async (t) => {
  const walk = fc.asyncProperty(
    order,
    fc.integer({ min: 1, max: 30 }),
    fc.option(condition),
    async (sorts, limit, filter) => {
      const where = filter === null ? 'true' : oracleSql(filter)
      const expected = await idsOf(`select id from thing where ${where} order by ${orderOf(sorts)}`)
      const query = `/thing?select=id${orderParameter(sorts)}${filter === null ? '' : `&${queryOf(parametersOf(filter))}`}`
      for (const direction of ['forward', 'backward'] as const) {
        const found = await walked(query, limit, direction)
        if (found.join() !== expected.join()) throw new Error(`${query} ${direction}: ${found}, not ${expected}`)
      }
    },
  )
  await fc.assert(walk, { seed, numRuns: 120 })
  t.pass('it does')
})

t.test('every sortable column alone, in both directions, with NULL at both ends', async (t) => {
  for (const column of sortable) {
    for (const direction of ['asc', 'desc'] as const) {
      for (const nulls of ['first', 'last'] as const) {
        const sorts: readonly Sort[] = [{ column, direction, nulls }]
        const expected = await idsOf(`select id from thing order by ${orderOf(sorts)}`)
        const found = await walked(
          `/thing?select=id${orderParameter(sorts)}`,
          9,
          direction === 'asc' ? 'forward' : 'backward',
        )
        t.same(found, expected, `${column} ${direction} nulls ${nulls}`)
      }
    }
  }
})

t.test('offsets give the same list', async (t) => {
  const walk = fc.asyncProperty(order, fc.integer({ min: 5, max: 40 }), async (sorts, limit) => {
    const expected = await idsOf(`select id from thing order by ${orderOf(sorts)}`)
    const found: number[] = []
    for (let offset = 0; offset < expected.length; offset += limit) {
      const { data, pagination } = (
        await call(`/thing?select=id${orderParameter(sorts)}&limit=${limit}&offset=${offset}`)
      ).json()
      found.push(...data.map(({ id }: { id: number }) => id))
      if (pagination.hasMore !== offset + limit < expected.length) throw new Error('hasMore is wrong')
    }
    if (found.join() !== expected.join()) throw new Error(`${orderOf(sorts)}: ${found}, not ${expected}`)
  })
  await fc.assert(walk, { seed, numRuns: 60 })
  t.pass('they do')
})

t.test('rows that come and go between pages hide and repeat none of those that stay', async (t) => {
  const rows = fc.array(rowOf, { minLength: 25, maxLength: 25 })
  const walk = fc.asyncProperty(
    order,
    fc.integer({ min: 1, max: 6 }),
    rows,
    rows,
    async (sorts, limit, staying, passing) => {
      await sql.query('truncate walk')
      for (const [index, row] of staying.entries()) await insert('walk', index * 10, row)
      const expected = await idsOf(`select id from walk order by ${orderOf(sorts)}`)
      for (const direction of ['forward', 'backward'] as const) {
        let step = 0
        const comeAndGo = async () => {
          const row = passing[step % passing.length]!
          // Even steps add, odd ones take an earlier one away; ids lie between those that stay.
          if (step % 3 === 2) await sql.query('delete from walk where id = $1', [(step - 2) * 10 + 5])
          else await insert('walk', step * 10 + 5, row)
          step += 1
        }
        const found = await walked(`/walk?select=id${orderParameter(sorts)}`, limit, direction, comeAndGo)
        const stayed = found.filter((id) => id % 10 === 0)
        if (stayed.join() !== expected.join())
          throw new Error(`${orderOf(sorts)} ${direction}: ${stayed}, not ${expected}`)
        if (new Set(found).size !== found.length)
          throw new Error(`${orderOf(sorts)} ${direction}: a row came twice in ${found}`)
        await sql.query('delete from walk where id % 10 <> 0')
      }
    },
  )
  await fc.assert(walk, { seed, numRuns: 40 })
  t.pass('they do not')
})
