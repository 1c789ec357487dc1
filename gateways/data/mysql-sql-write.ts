import { Rejected } from '../../schemas/failure.ts'
import type { Catalog, Column, Table } from './catalog.ts'
import type { Compiled } from './dialect.ts'
import { Aliases, type Flavour, quoted, tableName, whereSql } from './mysql-sql.ts'
import { tableOf } from './mysql-sql-read.ts'
import { filterConditions, rowJson, type SqlScope } from './mysql-sql-select.ts'
import { type BodyRows, memberMark, mysqlStatement, rowsMark, type Step, writtenMark } from './mysql-statement.ts'
import { conversionOf, keyTexts, parameter, stored } from './mysql-values.ts'
import type { DeleteShape, InsertSet, InsertShape, UpdateShape } from './write-ast.ts'
import type { WriteRequest } from './write-request.ts'

type Text = Omit<Step & { readonly text: string }, 'pieces'>

/**
 * The result has the same columns as PostgreSQL's. Where a write cannot return what it wrote, it is read in the same transaction.
 */
export function compileWrite(flavour: Flavour, catalog: Catalog, { shape }: Pick<WriteRequest, 'shape'>): Compiled {
  const table = tableOf(catalog, shape)
  const compiler = new WriteCompiler(flavour, catalog, table)
  const steps =
    shape.kind === 'insert'
      ? compiler.insert(shape)
      : shape.kind === 'update'
        ? compiler.update(shape)
        : compiler.delete(shape)
  return { statement: mysqlStatement(steps), weight: 'heavy' }
}

class WriteCompiler {
  readonly #flavour: Flavour
  readonly #table: Table
  readonly #scope: SqlScope

  constructor(flavour: Flavour, catalog: Catalog, table: Table) {
    this.#flavour = flavour
    this.#table = table
    this.#scope = { catalog, flavour, aliases: new Aliases(table.name) }
  }

  insert(shape: InsertShape): Text[] {
    if (shape.conflict !== null) unsupported('on_conflict')
    const { select } = shape.returning
    // A row of several is returned before those behind it are there.
    const readAfter = this.#flavour === 'mysql' || (shape.many && select.expansions.length > 0)
    const steps = shape.sets.map((set): Text => {
      const text = `insert into ${tableName(this.#table)} (${set.columns.map(quoted).join(', ')}) values ${this.#rows(shape, set)}`
      if (!readAfter)
        return {
          text: `${text} returning ${this.#result(shape, quoted(this.#table.name))}`,
          writes: true,
          returns: true,
        }
      if (this.#flavour === 'mysql') return { text, writes: true, returns: false }
      return {
        text: `${text} returning null as json, ${this.#keys(quoted(this.#table.name))}`,
        writes: true,
        returns: true,
      }
    })
    return readAfter ? steps.flatMap((step) => [step, this.#readWritten(shape)]) : steps
  }

  /** The rows by the keys that were returned, in their order. */
  #readWritten(shape: InsertShape): Text {
    const alias = this.#scope.aliases.next()
    const keys = this.#keyColumns()
    if (keys.length === 0)
      throw new Rejected('data/too-complex', `${this.#table.name} has no key to read new rows with their relations by`)
    const written = writtenMark(
      keys.map(({ type }) => stored(type)),
      keys.map(({ type }) => conversionOf(type)),
    )
    const key = keys.map(({ name }) => `${alias}.${quoted(name)}`).join(', ')
    return {
      text: `select ${this.#result(shape, alias)} from ${tableName(this.#table)} ${alias} where (${key}) in (${written})`,
      writes: false,
      returns: true,
    }
  }

  #rows({ body, many }: InsertShape, { columns, places, emptyRows }: InsertSet): string {
    const rows: BodyRows = {
      columns: columns.map((name) => {
        const { type } = this.#table.columnByName.get(name)!
        return { name, as: conversionOf(type), sql: stored(type) }
      }),
      body: emptyRows === null ? body : null,
      many,
      places,
      emptyRows,
    }
    return rowsMark(rows)
  }

  update(shape: UpdateShape): Text[] {
    const where = this.#where(shape)
    const sets = [
      ...shape.columns.map((name) => {
        const { type } = this.#table.columnByName.get(name)!
        return `${quoted(name)} = ${stored(type).replace('?', memberMark(shape.body!, conversionOf(type), name))}`
      }),
      ...shape.reset.map((name) => `${quoted(name)} = default(${quoted(name)})`),
    ]
    const [key] = this.#table.primaryKey
    if (sets.length === 0) sets.push(`${quoted(key!)} = ${quoted(key!)}`)
    const change: Text = {
      text: `update ${tableName(this.#table)} set ${sets.join(', ')}${where(quoted(this.#table.name))}`,
      writes: true,
      returns: false,
    }
    return [change, this.#read(shape, where)]
  }

  delete(shape: DeleteShape): Text[] {
    const where = this.#where(shape)
    const own = quoted(this.#table.name)
    const text = `delete from ${tableName(this.#table)}${where(own)}`
    if (this.#flavour === 'mariadb' && shape.returning.select.expansions.length === 0)
      return [{ text: `${text} returning ${this.#result(shape, own)}`, writes: true, returns: true }]
    // What the row was related to is shown as it was.
    return [this.#read(shape, where), { text, writes: true, returns: false }]
  }

  #read(shape: UpdateShape | DeleteShape, where: (alias: string) => string): Text {
    const alias = this.#scope.aliases.next()
    const rows = `${tableName(this.#table)} ${alias}${where(alias)}`
    return { text: `select ${this.#result(shape, alias)} from ${rows} for update`, writes: false, returns: true }
  }

  #where({ target, match }: UpdateShape | DeleteShape): (alias: string) => string {
    if (match !== null) unsupported('If-Match')
    return (alias) => {
      if (target.kind === 'filter') return whereSql(filterConditions(target.filter, this.#table, alias, this.#scope))
      return whereSql(
        this.#keyColumns().map(
          ({ name, type }, index) => `${alias}.${quoted(name)} = ${parameter(target.key[index]!, type)}`,
        ),
      )
    }
  }

  #result({ returning: { kind, select } }: WriteRequest['shape'], alias: string): string {
    const json = kind === 'rows' ? rowJson(this.#table, select, alias, this.#scope) : 'null'
    return `${json} as json, ${this.#keys(alias)}`
  }

  #keys(alias: string): string {
    const keys = this.#keyColumns()
    return `${keys.length === 0 ? 'null' : keyTexts(keys, alias)} as \`keys\``
  }

  #keyColumns(): Column[] {
    return this.#table.primaryKey.map((name) => this.#table.columnByName.get(name)!)
  }
}

function unsupported(what: string): never {
  throw new Rejected('data/invalid-body', `${what} is not served for MySQL`)
}
