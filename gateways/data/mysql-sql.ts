import type { Table } from './catalog.ts'

/** What SQL a server speaks. */
export interface Flavour {
  /** They differ in what a subquery sees of the row around it, and in how JSON is compared. */
  readonly server: 'mariadb' | 'mysql'
  /** Whether INSERT and DELETE return rows. */
  readonly returning: boolean
}

export const mariadbFlavour: Flavour = { server: 'mariadb', returning: true }
export const mysqlFlavour: Flavour = { server: 'mysql', returning: false }

/** Identifiers come from the catalog, never from a request; they are quoted all the same. */
export function quoted(identifier: string): string {
  return `\`${identifier.replaceAll('`', '``')}\``
}

export function tableName({ schema, name }: Pick<Table, 'schema' | 'name'>): string {
  return `${quoted(schema)}.${quoted(name)}`
}

/** What a server may read in two ways, depending on its settings, is written in hexadecimal. */
export function textLiteral(text: string): string {
  if (text.includes('\\') || text.includes('\u0000')) return `_utf8mb4 x'${Buffer.from(text).toString('hex')}'`
  return `'${text.replaceAll("'", "''")}'`
}

/** ` where …`, or nothing. */
export function whereSql(conditions: readonly string[]): string {
  return conditions.length === 0 ? '' : ` where ${conditions.join(' and ')}`
}

/** Gives every table of a statement an alias of its own, none of them the name of the table that is written. */
export class Aliases {
  readonly #prefix: string
  #count = 0

  constructor(except = '') {
    this.#prefix = /^t\d+$/i.test(except) ? 'u' : 't'
  }

  next(): string {
    return `${this.#prefix}${this.#count++}`
  }
}
