import { isDeepStrictEqual } from 'node:util'
import fc from 'fast-check'
import { buildClientSchema, execute, getIntrospectionQuery, parse } from 'graphql'
import pg from 'pg'
import t from 'tap'
import { seed } from '../rest/seed.ts'
import { testGateway } from './gateway.ts'
import { type Kind, type Model, type ModelRelation, type ModelTable, Oracle, type Row, type Value } from './oracle.ts'

t.comment(`seed ${seed}`)

/** Of each test; every run of the machine gets as far as it can. */
const budgetMs = 12_000

// The schema: a fixed net of keys, columns and rows by the seed ----------------------------------------------------------------------

const labels = ['low', 'mid', 'high']
const sqlTypes: Readonly<Record<Kind, string>> = {
  int: 'integer',
  bigint: 'bigint',
  numeric: 'numeric(8, 2)',
  text: 'text collate "C"',
  boolean: 'boolean',
  date: 'date',
  enum: 'level',
  words: 'text[]',
}
const pools: Readonly<Record<Kind, readonly Exclude<Value, null>[]>> = {
  int: [-1, 0, 1, 2, 7, 2147483647],
  bigint: ['-9223372036854775808', '0', '9007199254740993', '9007199254740992'],
  numeric: ['0.10', '-1.00', '12.34', '999999.99', '0.00'],
  text: ['', 'a', 'A', 'ab', '50%', 'a_b', 'back\\slash', 'say "a"', "it's", 'null', 'ü'],
  boolean: [true, false],
  date: ['2024-02-29', '2024-03-01', '1999-12-31'],
  enum: labels,
  words: [[], ['a'], ['a', 'b'], ['a,b', null], ['c"d']],
}
const kinds = Object.keys(pools) as Kind[]

const random = fc.sample(fc.infiniteStream(fc.nat({ max: 1_000_000 })), { numRuns: 1, seed })[0]!
const below = (most: number): number => random.next().value! % most
const pick = <Item>(items: readonly Item[]): Item => items[below(items.length)]!

const ownColumns = (): Record<string, Kind> =>
  Object.fromEntries(kinds.map((kind, index) => [`${pick(['c', 'val', 'x_'])}${index}`, kind]))

function relation(to: string, many: boolean, on: ModelRelation['on'], via?: ModelRelation['via']): ModelRelation {
  return { to, many, on, ...(via === undefined ? {} : { via }) }
}

const tables: Record<string, ModelTable> = {
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
}

const maybe = <Item>(item: Item, oneIn = 4): Item | null => (below(oneIn) === 0 ? null : item)

function rowsOf(): Record<string, Row[]> {
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

const rows = rowsOf()
const model: Model = { tables, enumLabels: labels, rows, defaultPage: 25, maxPage: 30 }
const oracle = new Oracle(model)

const columnsSql = (table: string) =>
  Object.entries(tables[table]!.columns).map(([name, kind]) => `${name} ${sqlTypes[kind]}`)
const constraints: Readonly<Record<string, string>> = {
  a: 'primary key (id)',
  b: 'primary key (x, y), foreign key (a_id) references a',
  c: 'primary key (id), foreign key (a_id) references a, constraint c_other foreign key (other_id) references a, foreign key (b_x, b_y) references b, foreign key (parent_id) references c',
  l: 'primary key (a_id, b_x, b_y), foreign key (a_id) references a, foreign key (b_x, b_y) references b',
}
const literal = (value: Value): string => {
  if (value === null) return 'null'
  const list = Array.isArray(value)
    ? `{${value.map((member) => (member === null ? 'NULL' : JSON.stringify(member))).join(',')}}`
    : String(value)
  return pg.escapeLiteral(list)
}
const schemaSql = [
  `create type level as enum (${labels.map((label) => `'${label}'`).join(', ')})`,
  ...Object.keys(tables).map(
    (table) => `create table ${table} (${[...columnsSql(table), constraints[table]].join(', ')})`,
  ),
  ...Object.entries(rows).flatMap(([table, all]) =>
    all.map(
      (row) =>
        `insert into ${table} (${Object.keys(row).join(', ')}) values (${Object.values(row).map(literal).join(', ')})`,
    ),
  ),
].join(';\n')

const { ask } = await testGateway(t, {
  schemaSql,
  defaultPageSize: model.defaultPage,
  maxPageSize: model.maxPage,
  documentLimits: { maxAliases: 5000, maxTokens: 100_000, maxLength: 1_000_000 },
})
const schema = buildClientSchema((await ask(getIntrospectionQuery())).data)

// Operations ------------------------------------------------------------------------------------------------------------------------

type Given = Readonly<Record<string, unknown>>

/** A name that stands without quotes where it is written into a document. */
class Name {
  readonly name: string
  constructor(name: string) {
    this.name = name
  }
  toJSON(): string {
    return this.name
  }
}

function written(value: unknown): string {
  if (value instanceof Name) return value.name
  if (Array.isArray(value)) return `[${value.map(written).join(', ')}]`
  if (typeof value === 'object' && value !== null)
    return `{${Object.entries(value)
      .map(([name, member]) => `${name}: ${written(member)}`)
      .join(', ')}}`
  return JSON.stringify(value)
}

const directions = ['ASC', 'DESC', 'ASC_NULLS_FIRST', 'ASC_NULLS_LAST', 'DESC_NULLS_FIRST', 'DESC_NULLS_LAST']
const patterns = ['%', 'a%', '%b', '_', '%a%', '', 'A_', '%\\%%', '50\\%', '1%']
const pieces = ['', 'a', 'b', '%', '_', 'A', '\\', '"', '1', '0']
type Source = fc.GeneratorValue

/** Writes one operation, and gathers what stands around it: variables, fragments, orders. */
class Writer {
  readonly #g: Source
  readonly variables: {
    readonly name: string
    readonly type: string
    readonly value: unknown
    readonly asDefault: boolean
  }[] = []
  readonly fragments: string[] = []
  /** Each written in two ways: the gateway has to see in which order several columns of one object stand, graphql-js cannot. */
  readonly orders: { readonly one: string; readonly other: string }[] = []
  #aliases = 0

  constructor(g: Source) {
    this.#g = g
  }

  chance(oneIn: number): boolean {
    return this.#g(fc.nat, { max: oneIn - 1 }) === 0
  }
  #upTo(max: number): number {
    return this.#g(fc.nat, { max })
  }
  one<Item>(items: readonly Item[]): Item {
    return items[this.#upTo(items.length - 1)]!
  }
  #some<Item>(items: readonly Item[], most: number): Item[] {
    return Array.from({ length: 1 + this.#upTo(most - 1) }, () => this.one(items))
  }
  #alias(prefix = 'f'): string {
    return `${prefix}_${this.#aliases++}`
  }

  #argument(name: string, type: string, value: unknown): string {
    if (!this.chance(3)) return `${name}: ${written(value)}`
    const variable = this.#alias('v')
    this.variables.push({ name: variable, type, value, asDefault: this.chance(4) })
    return `${name}: $${variable}`
  }

  #operand(kind: Kind): unknown {
    const value = this.one(pools[kind])
    return kind === 'enum' ? new Name(String(value)) : value
  }

  #condition(kind: Kind): Given {
    const any: readonly (() => Given)[] = [
      () => ({ eq: this.#operand(kind) }),
      () => ({ neq: this.#operand(kind) }),
      () => ({ in: this.#some([0, 1, 2], 3).map(() => this.#operand(kind)) }),
      () => ({ notIn: this.chance(5) ? [] : [this.#operand(kind)] }),
      () => ({ isNull: this.chance(2) }),
      () => ({ isNotNull: this.chance(2) }),
      () => ({ [this.one(['eq', 'neq'])]: null }),
    ]
    const ordered = () => ({ [this.one(['gt', 'gte', 'lt', 'lte'])]: this.#operand(kind) })
    const texts = [
      () => ({ [this.one(['contains', 'startsWith', 'endsWith'])]: this.one(pieces) }),
      () => ({ [this.one(['like', 'ilike'])]: this.one(patterns) }),
    ]
    const own: Partial<Record<Kind, readonly (() => Given)[]>> = {
      words: [() => ({ contains: [this.one(['a', 'b', 'c"d', 'a,b'])] })],
      boolean: [],
      text: [ordered, ...texts, ...texts],
      int: [ordered, ...texts],
    }
    const first = this.one([...any, ...(own[kind] ?? [ordered])])()
    return this.chance(6) ? { ...first, ...this.#condition(kind) } : first
  }

  where(table: ModelTable, depth: number): Given {
    const parts = this.#some([0, 0, 0, 1, 2, 3], 2).map((what): Given => {
      if (what === 0 || depth === 0) {
        const [column, kind] = this.one(Object.entries(table.columns))
        return { [column]: this.chance(20) ? {} : this.#condition(kind) }
      }
      if (what === 1)
        return { [this.one(['and', 'or'])]: this.#some([0, 1], 3).map(() => this.where(table, depth - 1)) }
      if (what === 2) return { not: this.where(table, depth - 1) }
      const [name, { to, many }] = this.one(Object.entries(table.relations))
      const inner = this.chance(6) ? {} : this.where(tables[to]!, depth - 1)
      return { [name]: many ? { [this.one(['some', 'none', 'every'])]: inner } : inner }
    })
    return Object.assign({}, ...parts) as Given
  }

  #orderBy(table: ModelTable): string {
    const sortable = Object.keys(table.columns).filter((column) => table.columns[column] !== 'words')
    const sorts = [...new Set(this.#some(sortable, 3))].map(
      (column) => [column, new Name(this.one(directions))] as const,
    )
    const singles = sorts.map(([column, direction]) => ({ [column]: direction }))
    const together = Object.fromEntries(sorts)
    let one = written(this.chance(2) ? together : singles)
    if (this.chance(3)) {
      const variable = this.#alias('o')
      this.variables.push({
        name: variable,
        type: `[${table.type}OrderBy!]`,
        value: [together],
        asDefault: this.chance(3),
      })
      one = `$${variable}`
    }
    this.orders.push({ one, other: written(singles) })
    return `orderBy: «${this.orders.length - 1}»`
  }

  #arguments(parts: readonly (string | false)[]): string {
    const given = parts.filter((part) => part !== false)
    return given.length === 0 ? '' : `(${given.join(', ')})`
  }

  listArguments(table: ModelTable): string {
    return this.#arguments([
      this.chance(2) && this.#argument('where', `${table.type}Filter`, this.where(table, 2)),
      this.chance(2) && this.#orderBy(table),
      this.chance(2) && this.#argument('limit', 'Int', this.one([0, 1, 2, 5, 26, 99])),
      this.chance(4) && this.#argument('offset', 'Int', this.one([0, 1, 3, 50])),
    ])
  }

  connectionArguments(table: ModelTable): string {
    return this.#arguments([
      this.chance(2) && this.#argument('where', `${table.type}Filter`, this.where(table, 2)),
      this.chance(2) && this.#orderBy(table),
      this.chance(2) && this.#argument(this.one(['first', 'last']), 'Int', this.one([0, 1, 2, 5, 26, 99])),
    ])
  }

  #directive(): string {
    if (!this.chance(6)) return ''
    const condition = this.chance(2)
    return ` @${this.one(['include', 'skip'])}(${this.#argument('if', 'Boolean!', condition)})`
  }

  selection(table: ModelTable, depth: number): string {
    const fields = this.#some([0, 0, 0, 1, 1, 2, 3], 4).map((what) => {
      if (what === 1 && depth > 0) {
        const [name, { to, many }] = this.one(Object.entries(table.relations))
        const target = tables[to]!
        return `${this.#alias()}: ${name}${many ? this.listArguments(target) : ''}${this.#directive()} ${this.selection(target, depth - 1)}`
      }
      if (what === 2 && depth > 0) {
        if (this.chance(2)) return `... on ${table.type}${this.#directive()} ${this.selection(table, depth - 1)}`
        const fragment = this.#alias('fragment')
        this.fragments.push(`fragment ${fragment} on ${table.type} ${this.selection(table, depth - 1)}`)
        return `...${fragment}${this.#directive()}`
      }
      const column = this.one([...Object.keys(table.columns), '__typename'])
      return `${this.chance(2) ? `${this.#alias()}: ` : ''}${column}${this.#directive()}`
    })
    return `{ ${fields.join(' ')} }`
  }

  connection(table: ModelTable): string {
    const edges = () =>
      `${this.#alias()}: edges { ${this.#some([0, 1], 2)
        .map(() => `${this.#alias()}: node ${this.selection(table, 2)}`)
        .join(' ')} }`
    const parts = this.#some(['totalCount', 'pageInfo { hasNextPage hasPreviousPage }', edges, edges, '__typename'], 3)
    return `{ ${parts.map((part) => (typeof part === 'string' ? part : part())).join(' ')} }`
  }

  numbers(table: ModelTable, depth: number): string {
    const of = (wanted: readonly Kind[]) =>
      Object.keys(table.columns).filter((column) => wanted.includes(table.columns[column]!))
    const numeric = of(['int', 'bigint', 'numeric'])
    const comparable = of(['int', 'bigint', 'numeric', 'text', 'date', 'enum'])
    const results = (name: string, columns: readonly string[]) =>
      `${this.#alias()}: ${name} { ${this.#some(columns, 3)
        .map((column) => `${this.#alias(name)}: ${column}`)
        .join(' ')} }`
    const parts = this.#some([0, 1, 2, 3, 4], 4).map((what) => {
      if (what === 0) return `${this.#alias()}: count`
      if (what === 1) return results('sum', numeric)
      if (what === 2) return results('avg', numeric)
      if (what === 3) return results(this.one(['min', 'max']), comparable)
      if (depth === 0) return '__typename'
      // The order of arrays is PostgreSQL's own.
      const sortable = Object.keys(table.columns).filter((column) => table.columns[column] !== 'words')
      const columns = this.#some(sortable, 2)
      const args = [
        `columns: [${columns.join(', ')}]`,
        this.chance(2) && `limit: ${this.one([0, 1, 5])}`,
        this.chance(3) && 'offset: 1',
      ]
      const key = `key { ${this.#some(Object.keys(table.columns), 3).join(' ')} }`
      return `${this.#alias()}: groupBy${this.#arguments(args)} { ${key} ${this.numbers(table, 0).slice(1)}`
    })
    return `{ ${parts.join(' ')} }`
  }

  root(): string {
    const table = this.one(Object.values(tables))
    switch (this.one([0, 0, 0, 1, 1, 2])) {
      case 0:
        return `${this.#alias()}: ${table.field}${this.listArguments(table)}${this.#directive()} ${this.selection(table, 3)}`
      case 1:
        return `${this.#alias()}: ${table.field}Connection${this.connectionArguments(table)} ${this.connection(table)}`
      default: {
        const where = this.chance(2) && this.#argument('where', `${table.type}Filter`, this.where(table, 2))
        return `${this.#alias()}: ${table.field}Aggregate${this.#arguments([where])} ${this.numbers(table, 1)}`
      }
    }
  }

  /** The document for the gateway, the one for graphql-js, and the variables of both. */
  documents(): { readonly one: string; readonly other: string; readonly variables: Given } {
    const body = this.#some([0, 1, 2], 2)
      .map(() => this.root())
      .join('\n  ')
    const text = (form: 'one' | 'other') => {
      const filled = [`{\n  ${body}\n}`, ...this.fragments]
        .join('\n')
        .replace(/«(\d+)»/g, (_, index) => this.orders[Number(index)]![form])
      const used = this.variables.filter(({ name }) => filled.includes(`$${name}`))
      const head = used.map(
        ({ name, type, value, asDefault }) => `$${name}: ${type}${asDefault ? ` = ${written(value)}` : ''}`,
      )
      return `query q${head.length > 0 ? `(${head.join(', ')})` : ''} ${filled}`
    }
    const sent = this.variables.filter(({ asDefault }) => !asDefault).map(({ name, value }) => [name, value])
    return {
      one: text('one'),
      other: text('other'),
      variables: JSON.parse(JSON.stringify(Object.fromEntries(sent))) as Given,
    }
  }
}

/** Averages are compared as numbers: how many digits behind the point there are is PostgreSQL's choice. */
function rounded(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value), (name, member) =>
    name.startsWith('avg_') && member !== null ? Number(member).toPrecision(10) : member,
  ) as unknown
}

/** With graphql-js on rows in memory. */
async function expected(document: string, variables: Given): Promise<unknown> {
  const result = await execute({
    schema,
    document: parse(document),
    variableValues: variables,
    fieldResolver: oracle.resolve,
  })
  if (result.errors) throw new Error(`the oracle failed: ${result.errors[0]!.stack}\n${document}`)
  return result.data
}

t.test('random operations answer what graphql-js answers over the same rows', async (t) => {
  let operations = 0
  let withRows = 0
  const property = fc.asyncProperty(fc.gen(), async (g) => {
    const { one, other, variables } = new Writer(g).documents()
    const wanted = rounded(await expected(other, variables))
    const { data, errors } = await ask(one, variables)
    if (errors) throw new Error(`${JSON.stringify(errors[0])}\n${one}\n${JSON.stringify(variables)}`)
    if (JSON.stringify(rounded(data)) !== JSON.stringify(wanted))
      throw new Error(
        `${one}\n${JSON.stringify(variables)}\nfound  ${JSON.stringify(rounded(data))}\nwanted ${JSON.stringify(wanted)}`,
      )
    operations += 1
    if (JSON.stringify(data).length > 60) withRows += 1
  })
  const options = { seed, numRuns: 3000, interruptAfterTimeLimit: budgetMs, markInterruptAsFailure: false }
  const { failed, errorInstance } = await fc.check(property, options)
  t.comment(`${operations} operations`)
  t.notOk(failed, `seed ${seed}: ${(errorInstance as Error | null)?.message ?? ''}`)
  t.ok(withRows > operations / 2, 'and most of them had something to say')
})

t.test('cursors lead through every row once, forward and back, in the order of the list', async (t) => {
  let walks = 0
  const property = fc.asyncProperty(fc.gen(), async (g) => {
    const writer = new Writer(g)
    const [key, table] = writer.one(Object.entries(tables))
    const step = writer.one([1, 2, 7])
    const where = writer.chance(2) ? writer.where(table, 1) : {}
    const sortable = Object.keys(table.columns).filter((column) => table.columns[column] !== 'words')
    const orderBy = [writer.one(sortable), writer.one(sortable)].map((column) => ({ [column]: writer.one(directions) }))
    const wanted = oracle.connection(key, { where: JSON.parse(JSON.stringify(where)), orderBy, first: 30 })
    if (wanted.totalCount > 30) return
    const nodes = wanted.edges.map(({ node }) => node)
    const names = `(where: $where, orderBy: $orderBy, first: $first, last: $last, after: $after, before: $before)`
    const types = `($where: ${table.type}Filter, $orderBy: [${table.type}OrderBy!], $first: Int, $last: Int, $after: String, $before: String)`
    const page = `query${types} { c: ${table.field}Connection${names} { totalCount pageInfo { hasNextPage hasPreviousPage startCursor endCursor } edges { cursor node { ${Object.keys(table.columns).join(' ')} } } } }`
    for (const forward of [true, false]) {
      const found: Row[] = []
      let cursor: string | null = null
      do {
        const place: object = forward ? { first: step, after: cursor } : { last: step, before: cursor }
        const { data, errors } = await ask(page, { where, orderBy, ...place })
        if (errors) throw new Error(`${JSON.stringify(errors)} ${JSON.stringify({ where, orderBy, ...place })}`)
        const { edges, pageInfo, totalCount } = data.c
        const part = edges.map((edge: { node: Row }) => edge.node)
        if (forward) found.push(...part)
        else found.unshift(...part)
        const more = forward ? pageInfo.hasNextPage : pageInfo.hasPreviousPage
        const behind = forward ? pageInfo.hasPreviousPage : pageInfo.hasNextPage
        const sane =
          totalCount === nodes.length &&
          behind === (cursor !== null) &&
          pageInfo.startCursor === (edges[0]?.cursor ?? null) &&
          pageInfo.endCursor === (edges.at(-1)?.cursor ?? null) &&
          more === found.length < nodes.length &&
          found.length <= nodes.length
        if (!sane)
          throw new Error(`${JSON.stringify({ table: key, where, orderBy, ...place })}: ${JSON.stringify(data)}`)
        cursor = more ? (forward ? pageInfo.endCursor : pageInfo.startCursor) : null
      } while (cursor !== null)
      const inOrder = nodes.map((node) =>
        Object.fromEntries(Object.keys(table.columns).map((name) => [name, node[name]])),
      )
      if (!isDeepStrictEqual(found, inOrder))
        throw new Error(
          `${JSON.stringify({ table: key, where, orderBy, step, forward })}\nfound  ${JSON.stringify(found)}\nwanted ${JSON.stringify(inOrder)}`,
        )
    }
    walks += 1
  })
  const options = { seed, numRuns: 500, interruptAfterTimeLimit: budgetMs, markInterruptAsFailure: false }
  const { failed, errorInstance } = await fc.check(property, options)
  t.comment(`${walks} walks`)
  t.notOk(failed, `seed ${seed}: ${(errorInstance as Error | null)?.message ?? ''}`)
  t.ok(walks > 10)
})
