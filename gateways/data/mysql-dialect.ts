import type { Dialect } from './dialect.ts'
import type { Flavour } from './mysql-sql.ts'
import { compileNumbers } from './mysql-sql-numbers.ts'
import { compileList } from './mysql-sql-read.ts'
import { compileWrite } from './mysql-sql-write.ts'

/** Its statements are `MysqlStatement`s. */
export function mysqlDialect(flavour: Flavour): Dialect {
  return {
    name: 'mysql',
    compileList: (catalog, request) => compileList(flavour, catalog, request),
    compileNumbers: (catalog, shape) => compileNumbers(flavour, catalog, shape),
    compileWrite: (catalog, request) => compileWrite(flavour, catalog, request),
  }
}
