import { type GraphQLObjectType, type GraphQLResolveInfo, getNamedType } from 'graphql'

/*
 * What a GraphQL operation means, said a second time: plain JavaScript over rows held in memory, one field after the other, resolved by
 * graphql-js. It knows the names of the specification and shares no code with the gateway.
 */

export type Kind = 'int' | 'bigint' | 'numeric' | 'text' | 'boolean' | 'date' | 'enum' | 'words'
export type Value = number | string | boolean | readonly (string | null)[] | null
export type Row = Readonly<Record<string, Value>>

export interface ModelRelation {
  readonly to: string
  readonly many: boolean
  /** Pairs of columns, here and there. */
  readonly on: readonly (readonly [string, string])[]
  /** Pairs of this table and the link table, of the link table and the other. */
  readonly via?: {
    readonly table: string
    readonly near: ModelRelation['on']
    readonly far: ModelRelation['on']
  }
}

export interface ModelTable {
  /** As in the types: `PublicA`. */
  readonly type: string
  readonly field: string
  readonly key: readonly string[]
  readonly columns: Readonly<Record<string, Kind>>
  readonly relations: Readonly<Record<string, ModelRelation>>
}

export interface Model {
  readonly tables: Readonly<Record<string, ModelTable>>
  readonly enumLabels: readonly string[]
  readonly rows: Readonly<Record<string, readonly Row[]>>
  readonly defaultPage: number
  readonly maxPage: number
}

type Given = Readonly<Record<string, unknown>>
type Sort = readonly [column: string, direction: string]
/** Null: neither true nor false. */
type Truth = boolean | null

const cents = (text: string): bigint => {
  const [, sign = '', whole = '0', part = ''] = /^(-?)(\d+)(?:\.(\d*))?$/.exec(text) ?? []
  const amount = BigInt(whole) * 100n + BigInt(part.padEnd(2, '0').slice(0, 2))
  return sign === '-' ? -amount : amount
}
const fromCents = (amount: bigint): string => {
  const digits = String(amount < 0n ? -amount : amount).padStart(3, '0')
  return `${amount < 0n ? '-' : ''}${digits.slice(0, -2)}.${digits.slice(-2)}`
}

export class Oracle {
  readonly #model: Model

  constructor(model: Model) {
    this.#model = model
  }

  /** For graphql-js, as the resolver of every field. */
  readonly resolve = (source: unknown, args: Given, _context: unknown, info: GraphQLResolveInfo): unknown => {
    const { parentType, fieldName } = info
    if (parentType.name === 'Query') return this.#root(fieldName, args)
    const table = Object.values(this.#model.tables).find(({ type }) => type === parentType.name)
    if (table === undefined) return this.#part(source as Given, args, info)
    const relation = table.relations[fieldName]
    if (relation === undefined) return (source as Row)[fieldName]
    const rows = this.#related(source as Row, relation)
    return relation.many ? this.#page(this.#model.tables[relation.to]!, rows, args) : (rows[0] ?? null)
  }

  #root(name: string, args: Given): unknown {
    for (const [key, table] of Object.entries(this.#model.tables)) {
      const all = this.#model.rows[key]!
      if (name === table.field) return this.#page(table, all, args)
      if (name === `${table.field}Connection`) return this.connection(key, args)
      if (name === `${table.field}Aggregate`) return { table, rows: this.#matching(table, all, args.where) }
    }
    throw new Error(`no field ${name}`)
  }

  /** What hangs on connections and aggregates: values that are there, and numbers that are computed when they are asked for. */
  #part(source: Given & { table?: ModelTable; rows?: readonly Row[] }, args: Given, info: GraphQLResolveInfo): unknown {
    const { fieldName, returnType } = info
    const { table, rows } = source
    if (table === undefined || rows === undefined) return source[fieldName]
    if (fieldName === 'count') return rows.length
    if (fieldName === 'key') return source.key
    if (fieldName === 'groupBy') return this.#groups(table, rows, args)
    const columns = Object.keys((getNamedType(returnType) as GraphQLObjectType).getFields())
    return Object.fromEntries(columns.map((column) => [column, this.#number(table, rows, fieldName, column)]))
  }

  #groups(table: ModelTable, rows: readonly Row[], args: Given): unknown {
    const columns = [...new Set(args.columns as readonly string[])]
    const groups = new Map<string, Row[]>()
    for (const row of rows) {
      const key = JSON.stringify(columns.map((column) => row[column]))
      groups.set(key, [...(groups.get(key) ?? []), row])
    }
    const sorts = columns.map((column): Sort => [column, 'ASC'])
    const inOrder = [...groups.values()].toSorted((a, b) => this.#compareRows(table, a[0]!, b[0]!, sorts))
    const offset = (args.offset as number | null | undefined) ?? 0
    return inOrder.slice(offset, offset + this.#limit(args.limit)).map((group) => ({
      table,
      rows: group,
      key: Object.fromEntries(columns.map((column) => [column, group[0]![column]])),
    }))
  }

  #number(table: ModelTable, rows: readonly Row[], name: string, column: string): unknown {
    const kind = table.columns[column]!
    const values = rows.map((row) => row[column] ?? null).filter((value) => value !== null)
    if (values.length === 0) return null
    if (name === 'min' || name === 'max') {
      const sorted = values.toSorted((a, b) => this.#compare(kind, a, b))
      return sorted.at(name === 'min' ? 0 : -1)
    }
    const sum =
      kind === 'numeric'
        ? values.reduce((total, value) => total + cents(String(value)), 0n)
        : values.reduce((total, value) => total + BigInt(String(value)), 0n)
    if (name === 'sum') return kind === 'numeric' ? fromCents(sum) : String(sum)
    return String(Number(sum) / (kind === 'numeric' ? 100 : 1) / values.length)
  }

  /** All rows in the order of the pages, then the page. */
  connection(key: string, args: Given): { edges: { node: Row }[]; pageInfo: Given; totalCount: number } {
    const table = this.#model.tables[key]!
    const rows = this.#ordered(table, this.#matching(table, this.#model.rows[key]!, args.where), args.orderBy)
    const { first, last } = args as { first?: number | null; last?: number | null }
    const limit = this.#limit(last ?? first)
    const backward = typeof last === 'number'
    const page = backward ? rows.slice(Math.max(0, rows.length - limit)) : rows.slice(0, limit)
    const further = rows.length > limit
    return {
      edges: page.map((node) => ({ node })),
      pageInfo: { hasNextPage: !backward && further, hasPreviousPage: backward && further },
      totalCount: rows.length,
    }
  }

  #limit(wanted: unknown): number {
    return Math.min(typeof wanted === 'number' ? wanted : this.#model.defaultPage, this.#model.maxPage)
  }

  #page(table: ModelTable, rows: readonly Row[], args: Given): readonly Row[] {
    const inOrder = this.#ordered(table, this.#matching(table, rows, args.where), args.orderBy)
    const offset = (args.offset as number | null | undefined) ?? 0
    return inOrder.slice(offset, offset + this.#limit(args.limit))
  }

  #related(row: Row, { to, on, via }: ModelRelation): readonly Row[] {
    const joined = (left: Row, right: Row, pairs: ModelRelation['on']) =>
      pairs.every(([mine, theirs]) => left[mine] !== null && right[theirs] !== null && left[mine] === right[theirs])
    const others = this.#model.rows[to]!
    if (via === undefined) return others.filter((other) => joined(row, other, on))
    const links = this.#model.rows[via.table]!.filter((link) => joined(row, link, via.near))
    return others.filter((other) => links.some((link) => joined(link, other, via.far)))
  }

  // Order ------------------------------------------------------------------------------------------------------------------------

  #ordered(table: ModelTable, rows: readonly Row[], orderBy: unknown): readonly Row[] {
    const given = ((orderBy ?? []) as readonly Given[]).flatMap((part) => Object.entries(part) as [string, string][])
    const wanted = given.filter(([column], index) => given.findIndex(([other]) => other === column) === index)
    const last = wanted.at(-1)?.[1].startsWith('DESC') ? 'DESC' : 'ASC'
    const rest = table.key.filter((column) => !wanted.some(([other]) => other === column))
    const sorts: Sort[] = [...wanted, ...rest.map((column): Sort => [column, last])]
    return rows.toSorted((a, b) => this.#compareRows(table, a, b, sorts))
  }

  #compareRows(table: ModelTable, a: Row, b: Row, sorts: readonly Sort[]): number {
    for (const [column, direction] of sorts) {
      const [left, right] = [a[column] ?? null, b[column] ?? null]
      const descending = direction.startsWith('DESC')
      const nullsFirst = direction.endsWith('NULLS_FIRST') || (descending && !direction.endsWith('NULLS_LAST'))
      if (left === null && right === null) continue
      if (left === null) return nullsFirst ? -1 : 1
      if (right === null) return nullsFirst ? 1 : -1
      const order = this.#compare(table.columns[column]!, left, right)
      if (order !== 0) return descending ? -order : order
    }
    return 0
  }

  #compare(kind: Kind, a: unknown, b: unknown): number {
    const [left, right] = [this.#comparable(kind, a), this.#comparable(kind, b)]
    return left < right ? -1 : left > right ? 1 : 0
  }

  #comparable(kind: Kind, value: unknown): bigint | number | string {
    if (kind === 'int' || kind === 'bigint') return BigInt(String(value))
    if (kind === 'numeric') return cents(String(value))
    if (kind === 'enum') return this.#model.enumLabels.indexOf(String(value))
    return kind === 'words' ? JSON.stringify(value) : String(value)
  }

  // Filters ----------------------------------------------------------------------------------------------------------------------

  #matching(table: ModelTable, rows: readonly Row[], where: unknown): readonly Row[] {
    return rows.filter((row) => this.#holds(table, row, (where ?? {}) as Given) === true)
  }

  #holds(table: ModelTable, row: Row, where: Given): Truth {
    return all(
      Object.entries(where).map(([name, value]) => {
        if (name === 'and')
          return value === null ? true : all((value as Given[]).map((part) => this.#holds(table, row, part)))
        if (name === 'or')
          return value === null ? true : any((value as Given[]).map((part) => this.#holds(table, row, part)))
        if (name === 'not') return value === null ? true : not(this.#holds(table, row, value as Given))
        const relation = table.relations[name]
        return relation === undefined
          ? all(
              Object.entries(value as Given).map(([operator, operand]) =>
                this.#test(table.columns[name]!, row[name] ?? null, operator, operand),
              ),
            )
          : this.#holdsRelated(row, relation, value as Given)
      }),
    )
  }

  #holdsRelated(row: Row, relation: ModelRelation, value: Given): Truth {
    const target = this.#model.tables[relation.to]!
    const rows = this.#related(row, relation)
    const holds = (where: unknown) => rows.map((other) => this.#holds(target, other, where as Given) === true)
    if (!relation.many) return holds(value).includes(true)
    const { some, none, every } = value
    return (
      (some === undefined || holds(some).includes(true)) &&
      (none === undefined || !holds(none).includes(true)) &&
      (every === undefined || !holds(every).includes(false))
    )
  }

  #test(kind: Kind, value: Value, operator: string, operand: unknown): Truth {
    if (operator === 'isNull') return (value === null) === (operand === true)
    if (operator === 'isNotNull') return (value !== null) === (operand === true)
    if (operand === null && operator === 'eq') return value === null
    if (operand === null && operator === 'neq') return value !== null
    if (operator === 'in' || operator === 'notIn') {
      const found = any(
        (operand as unknown[]).map((member) => (value === null ? null : this.#compare(kind, value, member) === 0)),
      )
      return operator === 'in' ? found : not(found)
    }
    if (value === null) return null
    const order = () => this.#compare(kind, value, operand)
    const text = String(value)
    switch (operator) {
      case 'eq':
        return order() === 0
      case 'neq':
        return order() !== 0
      case 'gt':
        return order() > 0
      case 'gte':
        return order() >= 0
      case 'lt':
        return order() < 0
      case 'lte':
        return order() <= 0
      case 'contains':
        return Array.isArray(value)
          ? (operand as unknown[]).every((member) => member !== null && value.includes(member as string))
          : text.includes(String(operand))
      case 'startsWith':
        return text.startsWith(String(operand))
      case 'endsWith':
        return text.endsWith(String(operand))
      case 'like':
        return matches(text, String(operand))
      case 'ilike':
        return matches(text.toLowerCase(), String(operand).toLowerCase())
      default:
        throw new Error(`no operator ${operator}`)
    }
  }
}

function all(parts: readonly Truth[]): Truth {
  return parts.includes(false) ? false : parts.includes(null) ? null : true
}

function any(parts: readonly Truth[]): Truth {
  return parts.includes(true) ? true : parts.includes(null) ? null : false
}

function not(truth: Truth): Truth {
  return truth === null ? null : !truth
}

/** LIKE, one character after the other. */
function matches(text: string, pattern: string): boolean {
  if (pattern === '') return text === ''
  const [first = '', ...others] = pattern
  const rest = others.join('')
  if (first === '%') return matches(text, rest) || (text !== '' && matches([...text].slice(1).join(''), pattern))
  if (text === '') return false
  const [head = '', ...tail] = text
  if (first === '_') return matches(tail.join(''), rest)
  if (first === '\\') return head === others[0] && matches(tail.join(''), others.slice(1).join(''))
  return head === first && matches(tail.join(''), rest)
}
