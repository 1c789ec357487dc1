import type { Catalog, Column, DatabaseType, Table } from './catalog.ts'
import type { Compiled } from './dialect.ts'
import { Aliases, type Flavour, quoted, tableName, textLiteral, whereSql } from './mysql-sql.ts'
import { tableOf } from './mysql-sql-read.ts'
import { filterConditions } from './mysql-sql-select.ts'
import { mysqlStatement, slotMark } from './mysql-statement.ts'
import type { MysqlType } from './mysql-types.ts'
import { comparable, jsonSql, type Member, mysqlOf, objectSql } from './mysql-values.ts'
import type { NumbersConstant, NumbersItem, NumbersShape } from './numbers-ast.ts'
import type { ShapedColumn } from './read-ast.ts'

/** One row, its JSON in column 0. */
export function compileNumbers(flavour: Flavour, catalog: Catalog, shape: NumbersShape): Compiled {
  const compiler = new NumbersCompiler(flavour, catalog, shape)
  return {
    statement: mysqlStatement([{ text: compiler.statement(), writes: false, returns: true }]),
    weight: 'heavy',
  }
}

/** What one level computes over its rows, each aggregate once. */
interface Level {
  readonly computed: Map<string, string>
  readonly groupBy: readonly string[]
}

class NumbersCompiler {
  readonly #flavour: Flavour
  readonly #catalog: Catalog
  readonly #shape: NumbersShape
  readonly #table: Table
  readonly #aliases = new Aliases()

  constructor(flavour: Flavour, catalog: Catalog, shape: NumbersShape) {
    this.#flavour = flavour
    this.#catalog = catalog
    this.#shape = shape
    this.#table = tableOf(catalog, shape)
  }

  statement(): string {
    const { json, from } = this.#level(this.#shape.items, [], '')
    return `select ${json} as json${from}`
  }

  /** `select <items> from (select <aggregates> from <table> …)` */
  #level(
    items: readonly NumbersItem[],
    groupBy: readonly string[],
    cut: string,
  ): { readonly json: string; readonly from: string } {
    const level: Level = { computed: new Map(), groupBy }
    const alias = this.#aliases.next()
    const json = objectSql(items.map((item) => this.#member(item, level, alias)))
    const rows = this.#aliases.next()
    const keys = groupBy.map((name, index) => `${comparable(rows, this.#column(name))} as k${index}`)
    const computed = [...level.computed].map(([sql, name]) => `${sql.replaceAll('\u0001', rows)} as ${name}`)
    const wanted = [...keys, ...computed]
    const scope = { catalog: this.#catalog, flavour: this.#flavour, aliases: this.#aliases }
    const where = whereSql(filterConditions(this.#shape.filter, this.#table, rows, scope))
    // PostgreSQL's order has NULL last.
    const order = groupBy.map((_, index) => `k${index} is null, k${index}`).join(', ')
    const by =
      groupBy.length === 0 ? '' : ` group by ${groupBy.map((_, index) => `k${index}`).join(', ')} order by ${order}`
    // A level of groups and constants alone computes nothing over its rows.
    const from =
      wanted.length === 0
        ? ''
        : ` from (select ${wanted.join(', ')} from ${tableName(this.#table)} ${rows}${where}${by}${cut}) ${alias}`
    return { json, from }
  }

  #member(item: NumbersItem, level: Level, alias: string): Member {
    const { property } = item
    switch (item.kind) {
      case 'constant':
        return { property, sql: textLiteral(JSON.stringify(item.value)), required: true }
      case 'count':
        return { property, sql: `concat(${alias}.${this.#computed('count(*)', level)})` }
      case 'results':
        return this.#object(property, item.columns, (column) => {
          const computed = this.#computed(this.#resultSql(item.function, this.#column(column.column)), level)
          return jsonSql(`${alias}.${computed}`, this.#column(column.column).type, column.shaping)
        })
      case 'key':
        return this.#object(property, item.columns, (column) => {
          const index = level.groupBy.indexOf(column.column)
          if (index < 0) return 'null'
          return jsonSql(`${alias}.k${index}`, keyType(this.#column(column.column)), column.shaping)
        })
      case 'groups': {
        const offset = item.offset === null ? '' : ` offset ${slotMark(item.offset, 'number')}`
        const { json, from } = this.#level(item.items, item.columns, ` limit ${item.limit}${offset}`)
        return {
          property,
          sql: `(select concat('[', coalesce(group_concat(${json} separator ','), ''), ']')${from})`,
          required: true,
        }
      }
    }
  }

  #object(
    property: string,
    columns: readonly (ShapedColumn | NumbersConstant)[],
    sqlOf: (column: ShapedColumn) => string,
  ): Member {
    const members = columns.map((item): Member => {
      if (item.kind === 'column') return { property: item.property, sql: sqlOf(item) }
      return { property: item.property, sql: textLiteral(JSON.stringify(item.value)), required: true }
    })
    return { property, sql: objectSql(members), required: true }
  }

  /** The least and the greatest label by their places, not by the alphabet. */
  #resultSql(name: string, column: Column): string {
    const { type } = column
    if (type.base.kind !== 'enum') return `${name}(${comparable('\u0001', column)})`
    const labels = type.base.enumValues.map(textLiteral).join(', ')
    return `elt(${name}(\u0001.${quoted(column.name)} + 0), ${labels})`
  }

  #column(name: string): Column {
    return this.#table.columnByName.get(name)!
  }

  #computed(sql: string, { computed }: Level): string {
    const known = computed.get(sql)
    if (known !== undefined) return known
    const name = `a${computed.size}`
    computed.set(sql, name)
    return name
  }
}

/** As what `comparable` makes of it. */
function keyType({ type }: Column): DatabaseType {
  if (mysqlOf(type).kind !== 'geometry') return type
  const mysql: MysqlType['mysql'] = { kind: 'json', base: 'json', unsigned: false }
  return Object.assign({ ...type }, { mysql })
}
