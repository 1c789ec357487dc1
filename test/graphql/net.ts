import fc from 'fast-check'
import type { Kind, Model, ModelRelation, ModelTable, Row, Value } from './oracle.ts'

/*
 * What the differential tests ask about: a fixed net of keys, columns and rows by the seed, for whatever database.
 */

/** How a database writes the net. */
export interface NetDialect {
  /** Of each kind that the database has. */
  readonly sqlTypes: Readonly<Partial<Record<Kind, string>>>
  readonly literal: (value: Exclude<Value, null>) => string
}

export interface Net {
  readonly model: Model
  /** Tables with their rows; statements are parted by semicolons. */
  readonly sql: string
}

export const labels: readonly string[] = ['low', 'mid', 'high']

/** Values of each kind. */
export const pools: Readonly<Record<Kind, readonly Exclude<Value, null>[]>> = {
  int: [-1, 0, 1, 2, 7, 2147483647],
  bigint: ['-9223372036854775808', '0', '9007199254740993', '9007199254740992'],
  numeric: ['0.10', '-1.00', '12.34', '999999.99', '0.00'],
  text: ['', 'a', 'A', 'ab', '50%', 'a_b', 'back\\slash', 'say "a"', "it's", 'null', 'ü'],
  boolean: [true, false],
  date: ['2024-02-29', '2024-03-01', '1999-12-31'],
  enum: labels,
  words: [[], ['a'], ['a', 'b'], ['a,b', null], ['c"d']],
}
interface Chance {
  readonly below: (most: number) => number
  readonly pick: <Item>(items: readonly Item[]) => Item
}

export function makeNet(seed: number, { sqlTypes, literal }: NetDialect): Net {
  const random = fc.sample(fc.infiniteStream(fc.nat({ max: 1_000_000 })), { numRuns: 1, seed })[0]!
  const below = (most: number): number => random.next().value! % most
  const pick = <Item>(items: readonly Item[]): Item => items[below(items.length)]!
  const kinds = Object.keys(sqlTypes) as Kind[]
  const tables = tablesOf(() =>
    Object.fromEntries(kinds.map((kind, index) => [`${pick(['c', 'val', 'x_'])}${index}`, kind])),
  )
  const rows = rowsOf(tables, { below, pick })
  const sql = [
    ...Object.entries(tables).map(([name, { columns }]) => {
      const typed = Object.entries(columns).map(([column, kind]) => `${column} ${sqlTypes[kind]}`)
      return `create table ${name} (${[...typed, constraints[name]].join(', ')})`
    }),
    ...Object.entries(rows).flatMap(([name, all]) =>
      all.map((row) => {
        const values = Object.values(row).map((value) => (value === null ? 'null' : literal(value)))
        return `insert into ${name} (${Object.keys(row).join(', ')}) values (${values.join(', ')})`
      }),
    ),
  ]
  return { model: { tables, enumLabels: labels, rows, defaultPage: 25, maxPage: 30 }, sql: sql.join(';\n') }
}

const constraints: Readonly<Record<string, string>> = {
  a: 'primary key (id)',
  b: 'primary key (x, y), foreign key (a_id) references a (id)',
  c: 'primary key (id), foreign key (a_id) references a (id), constraint c_other foreign key (other_id) references a (id), foreign key (b_x, b_y) references b (x, y), foreign key (parent_id) references c (id)',
  l: 'primary key (a_id, b_x, b_y), foreign key (a_id) references a (id), foreign key (b_x, b_y) references b (x, y)',
}

function relation(to: string, many: boolean, on: ModelRelation['on'], via?: ModelRelation['via']): ModelRelation {
  return { to, many, on, ...(via === undefined ? {} : { via }) }
}

const tablesOf = (ownColumns: () => Record<string, Kind>): Record<string, ModelTable> => ({
  a: {
    type: 'PublicA',
    field: 'publicA',
    key: ['id'],
    columns: { id: 'int', ...ownColumns() },
    relations: {
      publicB: relation('b', true, [['id', 'a_id']]),
      publicBViaL: relation('b', true, [], {
        table: 'l',
        near: [['id', 'a_id']],
        far: [
          ['b_x', 'x'],
          ['b_y', 'y'],
        ],
      }),
      publicC: relation('c', true, [['id', 'a_id']]),
      publicCByOther_id: relation('c', true, [['id', 'other_id']]),
      publicL: relation('l', true, [['id', 'a_id']]),
    },
  },
  b: {
    type: 'PublicB',
    field: 'publicB',
    key: ['x', 'y'],
    columns: { x: 'int', y: 'text', a_id: 'int', ...ownColumns() },
    relations: {
      publicA: relation('a', false, [['a_id', 'id']]),
      publicAViaL: relation('a', true, [], {
        table: 'l',
        near: [
          ['x', 'b_x'],
          ['y', 'b_y'],
        ],
        far: [['a_id', 'id']],
      }),
      publicC: relation('c', true, [
        ['x', 'b_x'],
        ['y', 'b_y'],
      ]),
      publicL: relation('l', true, [
        ['x', 'b_x'],
        ['y', 'b_y'],
      ]),
    },
  },
  c: {
    type: 'PublicC',
    field: 'publicC',
    key: ['id'],
    columns: {
      id: 'bigint',
      a_id: 'int',
      other_id: 'int',
      parent_id: 'bigint',
      b_x: 'int',
      b_y: 'text',
      ...ownColumns(),
    },
    relations: {
      publicA: relation('a', false, [['a_id', 'id']]),
      publicAByOther_id: relation('a', false, [['other_id', 'id']]),
      publicB: relation('b', false, [
        ['b_x', 'x'],
        ['b_y', 'y'],
      ]),
      publicC: relation('c', false, [['parent_id', 'id']]),
      publicCByParent_id: relation('c', true, [['id', 'parent_id']]),
    },
  },
  l: {
    type: 'PublicL',
    field: 'publicL',
    key: ['a_id', 'b_x', 'b_y'],
    columns: { a_id: 'int', b_x: 'int', b_y: 'text' },
    relations: {
      publicA: relation('a', false, [['a_id', 'id']]),
      publicB: relation('b', false, [
        ['b_x', 'x'],
        ['b_y', 'y'],
      ]),
    },
  },
})

function rowsOf(tables: Readonly<Record<string, ModelTable>>, { below, pick }: Chance): Record<string, Row[]> {
  const maybe = <Item>(item: Item, oneIn = 4): Item | null => (below(oneIn) === 0 ? null : item)
  const own = (table: ModelTable, given: Row): Row => {
    const rest = Object.entries(table.columns).filter(([name]) => !(name in given))
    return { ...given, ...Object.fromEntries(rest.map(([name, kind]) => [name, maybe(pick(pools[kind]))])) }
  }
  const ids = Array.from({ length: 14 }, (_, index) => index - 2)
  const a = ids.map((id) => own(tables.a!, { id }))
  const b = ids.flatMap((x) =>
    ['', 'k', '50%'].slice(below(3)).map((y) => own(tables.b!, { x, y, a_id: maybe(pick(ids)) })),
  )
  const c = Array.from({ length: 40 }, (_, index) => {
    const to = maybe(pick(b))
    const parent = index === 0 ? null : maybe(String(9007199254740990n + BigInt(below(index))))
    const keys = {
      a_id: pick(ids),
      other_id: maybe(pick(ids)),
      parent_id: parent,
      b_x: to?.x ?? null,
      b_y: to?.y ?? null,
    }
    return own(tables.c!, { id: String(9007199254740990n + BigInt(index)), ...keys })
  })
  const pairs = new Map(
    Array.from({ length: 40 }, () => [pick(a), pick(b)] as const).map(([one, other]) => [
      `${one.id} ${other.x} ${other.y}`,
      { a_id: one.id!, b_x: other.x!, b_y: other.y! },
    ]),
  )
  return { a, b, c, l: [...pairs.values()] }
}
