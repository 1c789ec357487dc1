import type { Catalog, Table } from './catalog.ts'
import type { Compiled } from './dialect.ts'
import type { NumbersConstant, NumbersItem, NumbersShape } from './numbers-ast.ts'
import { quoted, tableName } from './postgres-sql.ts'
import { Aliases } from './postgres-sql-aliases.ts'
import { tableOf } from './postgres-sql-read.ts'
import { filterConditions, whereSql } from './postgres-sql-select.ts'
import { type Member, memberList, objectOf, objectSql, shapedSql, textLiteral } from './postgres-sql-shape.ts'
import type { ShapedColumn } from './read-ast.ts'
import { statement } from './statement.ts'

/** One row, its JSON in column 0. */
export function compileNumbers(catalog: Catalog, shape: NumbersShape): Compiled {
  const compiler = new NumbersCompiler(catalog, shape)
  return { statement: statement(compiler.statement()), weight: 'heavy' }
}

/** What one level computes over its rows, each aggregate once. */
interface Level {
  readonly computed: Map<string, string>
  readonly groupBy: readonly string[]
}

class NumbersCompiler {
  readonly #catalog: Catalog
  readonly #shape: NumbersShape
  readonly #table: Table
  readonly #aliases = new Aliases()

  constructor(catalog: Catalog, shape: NumbersShape) {
    this.#catalog = catalog
    this.#shape = shape
    this.#table = tableOf(catalog, shape)
  }

  statement(): string {
    const row = this.#aliases.next()
    const { sql, members } = this.#level(this.#shape.items, [], '')
    return `select ${objectOf(members, row)}::text as "json" from (${sql}) ${row}`
  }

  /** `select <items> from (select <aggregates> from <table> …)` */
  #level(
    items: readonly NumbersItem[],
    groupBy: readonly string[],
    cut: string,
  ): { readonly sql: string; readonly members: readonly Member[] } {
    const level: Level = { computed: new Map(), groupBy }
    const alias = this.#aliases.next()
    const members = items.map((item) => ({ property: item.property, sql: this.#itemSql(item, level, alias) }))
    const rows = this.#aliases.next()
    const keys = groupBy.map((column, index) => `${rows}.${quoted(column)} as k${index}`)
    const computed = [...level.computed].map(([sql, name]) => `${sql.replaceAll('\u0000', rows)} as ${name}`)
    const wanted = [...keys, ...computed]
    const scope = { catalog: this.#catalog, aliases: this.#aliases }
    const where = whereSql(filterConditions(this.#shape.filter, this.#table, rows, scope))
    const by =
      groupBy.length === 0
        ? ''
        : ` group by ${groupBy.map((_, index) => index + 1).join(', ')} order by ${groupBy.map((_, index) => index + 1).join(', ')}`
    // A level of groups and constants alone computes nothing over its rows.
    const from =
      wanted.length === 0
        ? ''
        : ` from (select ${wanted.join(', ')} from ${tableName(this.#table)} ${rows}${where}${by}${cut}) ${alias}`
    return { sql: `select ${memberList(members)}${from}`, members }
  }

  #itemSql(item: NumbersItem, level: Level, alias: string): string {
    switch (item.kind) {
      case 'constant':
        return textLiteral(item.value)
      case 'count':
        return `${alias}.${this.#computed('count(*)', level)}`
      case 'results':
        return this.#object(item.columns, (column) => {
          const sql = `${item.function}(\u0000.${quoted(column.column)})`
          const value = `${alias}.${this.#computed(sql, level)}`
          return shapedSql(value, this.#table.columnByName.get(column.column)!.type, column.shaping, this.#aliases)
        })
      case 'key':
        return this.#object(item.columns, (column) => {
          const index = level.groupBy.indexOf(column.column)
          if (index < 0) return 'null::text'
          return shapedSql(
            `${alias}.k${index}`,
            this.#table.columnByName.get(column.column)!.type,
            column.shaping,
            this.#aliases,
          )
        })
      case 'groups': {
        const offset = item.offset === null ? '' : ` offset $${item.offset}`
        const row = this.#aliases.next()
        const { sql, members } = this.#level(item.items, item.columns, ` limit ${item.limit}${offset}`)
        return `(select coalesce(json_agg(${objectOf(members, row)}), '[]') from (${sql}) ${row})`
      }
    }
  }

  #object(columns: readonly (ShapedColumn | NumbersConstant)[], sqlOf: (column: ShapedColumn) => string): string {
    const members = columns.map((item) => {
      return { property: item.property, sql: item.kind === 'constant' ? textLiteral(item.value) : sqlOf(item) }
    })
    return objectSql(members, this.#aliases)
  }

  #computed(sql: string, { computed }: Level): string {
    const known = computed.get(sql)
    if (known !== undefined) return known
    const name = `a${computed.size}`
    computed.set(sql, name)
    return name
  }
}
