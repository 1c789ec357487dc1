import type { Column, Table } from './catalog.ts'
import { isTrue, listMembers, moment } from './mysql-bind.ts'
import { quoted, tableName } from './mysql-sql.ts'
import { mysqlStatement } from './mysql-statement.ts'
import { mysqlOf } from './mysql-values.ts'
import type { ChangeDialect, Statement } from './statement.ts'

/** Writes operands as `workers/capture` writes values, so that they compare text by text. */
export const mysqlChanges: ChangeDialect = { writeOperand, readList: listMembers, reading }

function reading(table: Table): Statement {
  const columns = table.columns.map(({ name }) => quoted(name)).join(', ')
  return mysqlStatement([{ text: `select ${columns} from ${tableName(table)} limit 0`, writes: false, returns: false }])
}

function writeOperand(column: Column, text: string): string {
  switch (mysqlOf(column.type).kind) {
    case 'boolean':
      return String(isTrue(text))
    case 'number':
      return /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:e[+-]?\d+)?$/i.test(text.trim()) ? text.trim() : JSON.stringify(text)
    case 'datetime':
      return JSON.stringify(inColumn(column, text))
    case 'timestamp':
      return JSON.stringify(`${inColumn(column, text)}Z`)
    case 'json':
    case 'geometry':
      return text
    case 'bytes':
      return JSON.stringify(text.toLowerCase())
    case 'text':
      return JSON.stringify(text)
  }
}

/** With as many digits of a second as the column has. */
function inColumn({ typeSql }: Column, text: string): string {
  const digits = Number(/\((\d)\)/.exec(typeSql)?.[1] ?? 0)
  const [whole = '', fraction = ''] = moment(text).replace(' ', 'T').split('.')
  return digits === 0 ? whole : `${whole}.${fraction.padEnd(digits, '0').slice(0, digits)}`
}
