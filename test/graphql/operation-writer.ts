import fc from 'fast-check'
import { Name, written } from './document-values.ts'
import { pools } from './net.ts'
import type { Kind, Model, ModelTable } from './oracle.ts'

export type Given = Readonly<Record<string, unknown>>

export const directions = ['ASC', 'DESC', 'ASC_NULLS_FIRST', 'ASC_NULLS_LAST', 'DESC_NULLS_FIRST', 'DESC_NULLS_LAST']
const patterns = ['%', 'a%', '%b', '_', '%a%', '', 'A_', '%\\%%', '50\\%', '1%']
const pieces = ['', 'a', 'b', '%', '_', 'A', '\\', '"', '1', '0']
type Source = fc.GeneratorValue

/** Writes one operation, and gathers what stands around it: variables, fragments, orders. */
export class Writer {
  readonly #g: Source
  readonly #tables: Model['tables']
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

  constructor(g: Source, { tables }: Pick<Model, 'tables'>) {
    this.#g = g
    this.#tables = tables
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
      const inner = this.chance(6) ? {} : this.where(this.#tables[to]!, depth - 1)
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
        const target = this.#tables[to]!
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
    const table = this.one(Object.values(this.#tables))
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
