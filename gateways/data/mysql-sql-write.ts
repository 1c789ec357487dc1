import { Rejected } from '../../schemas/failure.ts'
import type { Catalog, Column, Table } from './catalog.ts'
import type { Compiled } from './dialect.ts'
import { Aliases, type Flavour, quoted, tableName, whereSql } from './mysql-sql.ts'
import { tableOf } from './mysql-sql-read.ts'
import { filterConditions, rowJson, type SqlScope } from './mysql-sql-select.ts'
import {
  type BodyRows,
  countMark,
  memberMark,
  mysqlStatement,
  rowsMark,
  type StepText,
  writtenMark,
} from './mysql-statement.ts'
import { conversionOf, keyTexts, parameter, stored } from './mysql-values.ts'
import type { DeleteShape, InsertSet, InsertShape, UpdateShape } from './write-ast.ts'
import type { WriteRequest } from './write-request.ts'

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

  insert(shape: InsertShape): StepText[] {
    if (shape.conflict !== null) unsupported('on_conflict')
    // A row of several is returned before those behind it are there.
    const readAfter = shape.many && shape.returning.select.expansions.length > 0
    return shape.sets.flatMap((set): StepText[] => {
      const text = `insert into ${tableName(this.#table)} (${set.columns.map(quoted).join(', ')}) values ${this.#rows(shape, set)}`
      if (!this.#flavour.returning) return this.#insertAndRead(shape, set, text)
      const own = quoted(this.#table.name)
      const returned = readAfter ? `null as json, ${this.#keys(own)}` : this.#result(shape, own)
      const step = { text: `${text} returning ${returned}`, writes: true, returns: true }
      return readAfter
        ? [step, this.#read(shape, (alias) => whereSql([this.#written(this.#foundBy(), alias)]))]
        : [step]
    })
  }

  /** Rows that are not returned are read by the key that was sent, or that the server has just counted up. */
  #insertAndRead(shape: InsertShape, { columns }: InsertSet, text: string): StepText[] {
    const keys = this.#foundBy()
    const sent = keys.filter(({ name }) => columns.includes(name))
    const counted = keys.filter(({ name }) => !columns.includes(name))
    for (const { name, identity } of counted) {
      if (identity !== null) continue
      throw new Rejected(
        'data/invalid-body',
        `${name} must be given: MySQL does not tell what it makes of its default`,
        {
          details: { field: name },
        },
      )
    }
    const rows = (alias: string) => {
      const conditions = sent.length === 0 ? [] : [this.#written(sent, alias)]
      const numbers = counted.map(({ name }) => `${alias}.${quoted(name)}`)
      const order = numbers.length === 0 ? '' : ` order by ${numbers.join(', ')}`
      return `${whereSql([...conditions, ...numbers.map(isCountedUp)])}${order}`
    }
    const sentKey = { columns: sent.map(({ name }) => name), whole: counted.length === 0 }
    return [{ text, writes: true, returns: false, sent: sentKey }, this.#read(shape, rows)]
  }

  /** What new rows are found by. */
  #foundBy(): Column[] {
    const keys = this.#keyColumns()
    if (keys.length > 0) return keys
    throw new Rejected('data/too-complex', `${this.#table.name} has no key to read new rows by`)
  }

  #written(keys: readonly Column[], alias: string): string {
    const written = writtenMark(
      keys.map(({ type }) => stored(type)),
      keys.map(({ type }) => conversionOf(type)),
    )
    return `(${keys.map(({ name }) => `${alias}.${quoted(name)}`).join(', ')}) in (${written})`
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

  update(shape: UpdateShape): StepText[] {
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
    const change: StepText = {
      text: `update ${tableName(this.#table)} set ${sets.join(', ')}${where(quoted(this.#table.name))}`,
      writes: true,
      returns: false,
    }
    return [change, this.#read(shape, where, true)]
  }

  delete(shape: DeleteShape): StepText[] {
    const where = this.#where(shape)
    const own = quoted(this.#table.name)
    const text = `delete from ${tableName(this.#table)}${where(own)}`
    if (this.#flavour.returning && shape.returning.select.expansions.length === 0)
      return [{ text: `${text} returning ${this.#result(shape, own)}`, writes: true, returns: true }]
    // What the row was related to is shown as it was.
    return [this.#read(shape, where, true), { text, writes: true, returns: false }]
  }

  #read(shape: WriteRequest['shape'], where: (alias: string) => string, locked = false): StepText {
    const alias = this.#scope.aliases.next()
    const rows = `${tableName(this.#table)} ${alias}${where(alias)}${locked ? ' for update' : ''}`
    return { text: `select ${this.#result(shape, alias)} from ${rows}`, writes: false, returns: true }
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

/** Of one statement the server's numbers follow each other; others may have their own in between. */
function isCountedUp(number: string): string {
  const [first, step] = ['last_insert_id()', '@@auto_increment_increment']
  const last = `${first} + (${countMark} - 1) * ${step}`
  return `${number} between ${first} and ${last} and ${number} % ${step} = ${first} % ${step}`
}

function unsupported(what: string): never {
  throw new Rejected('data/invalid-body', `${what} is not served for MySQL`)
}
