import type { Dialect } from './dialect.ts'
import { compileNumbers } from './postgres-sql-numbers.ts'
import { compileList } from './postgres-sql-read.ts'
import { compileWrite } from './postgres-sql-write.ts'

export const postgresDialect: Dialect = { name: 'postgresql', compileList, compileNumbers, compileWrite }
