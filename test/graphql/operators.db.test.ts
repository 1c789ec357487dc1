import t from 'tap'
import { testGateway } from './gateway.ts'

/** Three values in ascending order, as they are written in a document; a fourth row holds NULL. */
interface Kind {
  readonly sql: string
  readonly values: readonly [string, string, string]
  /** Operand and rows found of contains, startsWith, endsWith, like and ilike. */
  readonly texts: readonly (readonly [string, readonly number[]])[]
  /** Of types that PostgreSQL cannot compare. */
  readonly refused?: readonly string[]
}

const kinds: Readonly<Record<string, Kind>> = {
  text: {
    sql: 'text collate "C"',
    values: ['"100%"', '"A_b"', '"a\\\\b"'],
    texts: [
      ['"0%"', [1]],
      ['"A_"', [2]],
      ['"\\\\b"', [3]],
      ['"%\\\\%"', [1]],
      ['"a_b"', [2, 3]],
    ],
  },
  int: {
    sql: 'int',
    values: ['-5', '0', '15'],
    texts: [
      ['"5"', [1, 3]],
      ['"-"', [1]],
      ['"0"', [2]],
      ['"_5"', [1, 3]],
      ['"1%"', [3]],
    ],
  },
  bigint: {
    sql: 'bigint',
    values: ['"-9223372036854775808"', '9007199254740992', '"9007199254740993"'],
    texts: [
      ['"0072"', []],
      ['"900"', [2, 3]],
      ['"93"', [3]],
      ['"-%"', [1]],
      ['"%2"', [2]],
    ],
  },
  decimal: {
    sql: 'numeric',
    values: ['-1.50', '"0.10"', '"12345678901234567890.1234567891"'],
    texts: [
      ['".1"', [2, 3]],
      ['"-1"', [1]],
      ['"0"', [1, 2]],
      ['"%.1_"', [2]],
      ['"1234%"', [3]],
    ],
  },
  float: {
    sql: 'float8',
    values: ['-1.5', '0.1', '1e300'],
    texts: [
      ['"."', [1, 2]],
      ['"1e"', [3]],
      ['"5"', [1]],
      ['"0%"', [2]],
      ['"1E%"', [3]],
    ],
  },
  real: {
    sql: 'real',
    values: ['-1.5', '0.5', '16777216'],
    texts: [
      ['"."', [1, 2, 3]],
      ['"1.6"', [3]],
      ['"5"', [1, 2]],
      ['"0%"', [2]],
      ['"1.6777216E+07"', [3]],
    ],
  },
  flag: {
    sql: 'boolean',
    values: ['false', 'false', 'true'],
    texts: [
      ['"ru"', [3]],
      ['"f"', [1, 2]],
      ['"e"', [1, 2, 3]],
      ['"t%"', [3]],
      ['"T%"', [3]],
    ],
  },
  uuid: {
    sql: 'uuid',
    values: [
      '"00000000-0000-4000-8000-000000000001"',
      '"00000000-0000-4000-8000-00000000000A"',
      '"ffffffff-0000-4000-8000-000000000001"',
    ],
    texts: [
      ['"-4000-"', [1, 2, 3]],
      ['"ff"', [3]],
      ['"1"', [1, 3]],
      ['"%a"', [2]],
      ['"%A"', [2]],
    ],
  },
  date: {
    sql: 'date',
    values: ['"1999-12-31"', '"2024-02-29"', '"infinity"'],
    texts: [
      ['"-02-"', [2]],
      ['"19"', [1]],
      ['"9"', [2]],
      ['"2024%"', [2]],
      ['"INF%"', [3]],
    ],
  },
  time: {
    sql: 'time',
    values: ['"00:00:00"', '"12:30"', '"23:59:59.999999"'],
    texts: [
      ['":30:"', [2]],
      ['"23"', [3]],
      ['":00"', [1, 2]],
      ['"__:30%"', [2]],
      ['"%"', [1, 2, 3]],
    ],
  },
  at: {
    sql: 'timestamptz',
    values: ['"2024-03-01T00:00:00Z"', '"2024-03-01T02:00:00.000001+01:00"', '"2025-01-01"'],
    texts: [
      ['".000001"', [2]],
      ['"2025"', [3]],
      ['"+00"', [1, 2, 3]],
      ['"%01:00:00.000001%"', [2]],
      ['"2024%"', [1, 2]],
    ],
  },
  local: {
    sql: 'timestamp',
    values: ['"2024-03-01T00:00:00"', '"2024-03-01 00:00:00.5"', '"2025-01-01"'],
    texts: [
      ['".5"', [2]],
      ['"2025"', [3]],
      ['":00"', [1, 3]],
      ['"%.5"', [2]],
      ['"2024%"', [1, 2]],
    ],
  },
  span: {
    sql: 'interval',
    values: ['"PT1H"', '"P1D"', '"1 mon"'],
    texts: [
      ['"1"', [1, 2, 3]],
      ['"PT"', [1]],
      ['"M"', [3]],
      ['"P_D"', [2]],
      ['"pt%"', [1]],
    ],
  },
  level: {
    sql: 'level',
    values: ['low', 'so_so', 'high'],
    texts: [
      ['"o"', [1, 2]],
      ['"so "', [2]],
      ['"h"', [3]],
      ['"% %"', [2]],
      ['"LOW"', [1]],
    ],
  },
  inet: {
    sql: 'inet',
    values: ['"10.0.0.0/8"', '"10.0.0.1"', '"::1"'],
    texts: [
      ['"0.0"', [1, 2]],
      ['"::"', [3]],
      ['"/8"', [1]],
      ['"10%"', [1, 2]],
      ['"%/32"', [2]],
    ],
  },
  bytes: {
    sql: 'bytea',
    values: ['"\\\\x"', '"\\\\x00ff"', '"\\\\x616263"'],
    texts: [
      ['"00f"', [2]],
      ['"\\\\x6"', [3]],
      ['"63"', [3]],
      ['"%ff"', [2]],
      ['"%FF"', [2]],
    ],
  },
  json: {
    sql: 'json',
    values: ['1', '[1, "a"]', '{a: {b: 12345678901234567890}}'],
    texts: [
      ['{a: {}}', [3]],
      ['"["', [2]],
      ['"}"', [3]],
      ['"%a%"', [2, 3]],
      ['"%A%"', [2, 3]],
    ],
  },
  jsonb: {
    sql: 'jsonb',
    values: ['"a"', '7', '{a: null, b: [1, 2]}'],
    texts: [
      ['{b: [2]}', [3]],
      ['"{"', [3]],
      ['"\\""', [1]],
      ['"%a%"', [1, 3]],
      ['"%A%"', [1, 3]],
    ],
  },
  range: {
    sql: 'int4range',
    values: ['"empty"', '"[1,5)"', '"[2,)"'],
    texts: [
      ['"[3,4]"', [2, 3]],
      ['"[1"', [2]],
      ['",)"', [3]],
      ['"[%"', [2, 3]],
      ['"EMPTY"', [1]],
    ],
  },
  words: {
    sql: 'text[]',
    values: ['[]', '["a", "b,c"]', '["a", null]'],
    texts: [
      ['["b,c"]', [2]],
      ['"{a"', [2, 3]],
      ['"}"', [1, 2, 3]],
      ['"%NULL%"', [3]],
      ['"%null%"', [3]],
    ],
  },
  levels: {
    sql: 'level[]',
    values: ['[low]', '[low, so_so]', '[high]'],
    texts: [
      ['[so_so]', [2]],
      ['"{low"', [1, 2]],
      ['"}"', [1, 2, 3]],
      ['"%so so%"', [2]],
      ['"%HIGH%"', [3]],
    ],
  },
  bigints: {
    sql: 'bigint[]',
    values: ['["1"]', '[1, "9223372036854775807"]', '[2]'],
    texts: [
      ['["9223372036854775807"]', [2]],
      ['"{1"', [1, 2]],
      ['"2}"', [3]],
      ['"%,%"', [2]],
      ['"{2}"', [3]],
    ],
  },
  place: {
    sql: 'place',
    values: ['{street: "a", no_: 1}', '{street: "b \\"c\\", \\\\", no_: 0}', '{street: "c"}'],
    texts: [
      ['"1"', [1]],
      ['"(c"', [3]],
      ['",)"', [3]],
      ['"(a,%"', [1]],
      ['"(A,%"', [1]],
    ],
  },
  spot: {
    sql: 'point',
    values: ['"(1,2)"', '"(1,3)"', '"(2,1)"'],
    texts: [
      ['",2"', [1]],
      ['"(2"', [3]],
      ['"3)"', [2]],
      ['"(1%"', [1, 2]],
      ['"(1%"', [1, 2]],
    ],
    refused: ['eq', 'neq', 'gt', 'gte', 'lt', 'lte', 'in', 'notIn'],
  },
}

const names = Object.keys(kinds)
const { ask, sql } = await testGateway(t, {
  schemaSql: `create type level as enum ('low', 'so so', 'high'); create type place as (street text, "no!" int);
    create table thing (id int primary key, ${names.map((name) => `"${name}" ${kinds[name]!.sql}`).join(', ')})`,
})

t.test('values of every type go in and are found by all fifteen operators', async (t) => {
  for (const row of [1, 2, 3]) {
    const columns = names.map((name) => `${name}: ${kinds[name]!.values[row - 1]}`)
    const { errors } = await ask(`mutation { createPublicThing(input: { id: ${row}, ${columns.join(', ')} }) { id } }`)
    t.same(errors, undefined, `row ${row}`)
  }
  await sql.query('insert into thing (id) values (4)')
  for (const [name, { values, texts, refused = [] }] of Object.entries(kinds)) {
    const [low, middle, high] = values
    // Of the two values of a boolean, the lower one twice.
    const twice = low === middle
    const conditions: readonly (readonly [string, string, readonly number[]])[] = [
      ['eq', middle, twice ? [1, 2] : [2]],
      ['eq', 'null', [4]],
      ['neq', middle, twice ? [3] : [1, 3]],
      ['neq', 'null', [1, 2, 3]],
      ['gt', middle, [3]],
      ['gte', middle, twice ? [1, 2, 3] : [2, 3]],
      ['lt', middle, twice ? [] : [1]],
      ['lte', middle, [1, 2]],
      ['in', `[${low}, ${high}]`, twice ? [1, 2, 3] : [1, 3]],
      ['notIn', `[${low}]`, twice ? [3] : [2, 3]],
      ['isNull', 'true', [4]],
      ['isNull', 'false', [1, 2, 3]],
      ['isNotNull', 'true', [1, 2, 3]],
      ['isNotNull', 'false', [4]],
      ...(['contains', 'startsWith', 'endsWith', 'like', 'ilike'] as const).map((operator, index) => {
        const [operand, found] = texts[index]!
        return [operator, operand, found] as const
      }),
    ]
    for (const [operator, operand, found] of conditions) {
      const condition = `${name}: { ${operator}: ${operand} }`
      const { data, errors } = await ask(`{ publicThing(where: { ${condition} }, orderBy: { id: ASC }) { id } }`)
      if (refused.includes(operator) && operand !== 'null') {
        t.match(
          errors?.[0]?.extensions,
          { code: /^data\//, status: 400 },
          `${condition} is refused: ${errors?.[0]?.message}`,
        )
        continue
      }
      const ids = data?.publicThing?.map(({ id }: { id: number }) => id)
      t.same(ids, found, `${condition}${errors ? `: ${JSON.stringify(errors[0])}` : ''}`)
    }
  }
})

t.test('what goes in comes out the same, as rows, as nodes, and as minimum and maximum', async (t) => {
  const fields = names.map((name) => (name === 'place' ? 'place { street no_ }' : name)).join(' ')
  const { data } = await ask(`{ publicThing(where: { id: { eq: 3 } }) { ${fields} } }`)
  t.same(data.publicThing[0], {
    text: 'a\\b',
    int: 15,
    bigint: '9007199254740993',
    decimal: '12345678901234567890.1234567891',
    float: 1e300,
    real: 16777216,
    flag: true,
    uuid: 'ffffffff-0000-4000-8000-000000000001',
    date: 'infinity',
    time: '23:59:59.999999',
    at: '2025-01-01T00:00:00+00:00',
    local: '2025-01-01T00:00:00',
    span: 'P1M',
    level: 'high',
    inet: '::1',
    bytes: '\\x616263',
    json: { a: { b: 12345678901234567000 } },
    jsonb: { a: null, b: [1, 2] },
    range: '[2,)',
    words: ['a', null],
    levels: ['high'],
    bigints: ['2'],
    place: { street: 'c', no_: null },
    spot: '(2,1)',
  })
  const nodes = await ask(`{ publicThingConnection(where: { id: { eq: 3 } }) { edges { node { ${fields} } } } }`)
  t.same(nodes.data.publicThingConnection.edges[0].node, data.publicThing[0])
  const { data: input } = await ask('{ __type(name: "PublicThingComparableAggregates") { fields { name } } }')
  const comparable: string[] = input.__type.fields.map(({ name }: { name: string }) => name)
  const { data: numbers, errors } = await ask(
    `{ publicThingAggregate { min { ${comparable.join(' ')} } max { ${comparable.join(' ')} } } }`,
  )
  t.same(errors, undefined, `min and max of ${comparable.join(', ')}`)
  const { min, max } = numbers.publicThingAggregate
  for (const name of comparable.filter((column) => column !== 'id'))
    t.same(max[name], data.publicThing[0][name], `max of ${name}`)
  t.same([min.int, min.bigint, min.level, min.span], [-5, '-9223372036854775808', 'low', 'PT1H'])
  const groups = await ask(
    `{ publicThingAggregate { groupBy(columns: [level, place, words, bigint]) { count key { level place { street } words bigint int } } } }`,
  )
  t.same(groups.data?.publicThingAggregate.groupBy, [
    { count: 1, key: { level: 'low', place: { street: 'a' }, words: [], bigint: '-9223372036854775808', int: null } },
    {
      count: 1,
      key: {
        level: 'so_so',
        place: { street: 'b "c", \\' },
        words: ['a', 'b,c'],
        bigint: '9007199254740992',
        int: null,
      },
    },
    {
      count: 1,
      key: { level: 'high', place: { street: 'c' }, words: ['a', null], bigint: '9007199254740993', int: null },
    },
    { count: 1, key: { level: null, place: null, words: null, bigint: null, int: null } },
  ])
})

t.test('variables say the same as what is written in the document', async (t) => {
  const types: Readonly<Record<string, string>> = {
    text: 'String',
    bigint: 'BigInt',
    decimal: 'Decimal',
    jsonb: 'JSON',
    level: 'PublicLevel',
    words: '[String]',
    place: 'PublicPlaceInput',
  }
  const values: Readonly<Record<string, unknown>> = {
    text: 'A_b',
    bigint: '9007199254740992',
    decimal: '0.1',
    jsonb: 7,
    level: 'so_so',
    words: ['a', 'b,c'],
    place: { street: 'b "c", \\', no_: 0 },
  }
  for (const [name, type] of Object.entries(types)) {
    const { data, errors } = await ask(`query($v: ${type}) { publicThing(where: { ${name}: { eq: $v } }) { id } }`, {
      v: values[name],
    })
    t.same([errors, data], [undefined, { publicThing: [{ id: 2 }] }], name)
  }
  const lost = await ask('query($v: BigInt) { publicThing(where: { bigint: { eq: $v } }) { id } }', {
    v: 2 ** 53,
  })
  t.match(lost.errors?.[0]?.message, /lost digits/, 'a number that JSON could not carry is refused')
})
