import type { Catalog, DatabaseFunction } from './catalog.ts'
import type { Compiled } from './dialect.ts'
import { quoted, tableName } from './postgres-sql.ts'
import type { CallShape } from './rpc-request.ts'
import { type CallRequest, resultOf, signatureOf } from './rpc-request.ts'
import { statement } from './statement.ts'

/** Column 0 of each row is the JSON of a result; NULL for a NULL value and for `void`. */
export function compileCall(catalog: Catalog, { shape }: Pick<CallRequest, 'shape'>): Compiled {
  const signature = shape.signature.join()
  const called = catalog.functions.find(
    (one) => one.schema === shape.schema && one.name === shape.name && signatureOf(one).join() === signature,
  )
  if (!called) throw new Error(`the catalog has no function ${shape.schema}.${shape.name}(${signature})`)
  return { statement: statement(callSql(called, shape)), weight: 'heavy' }
}

function callSql(called: DatabaseFunction, shape: CallShape): string {
  const call = `${tableName(called)}(${shape.arguments.map((argument) => argumentSql(called, argument)).join(', ')})`
  const values = valuesSql(called, shape)
  const cut =
    shape.page === null
      ? ''
      : ` limit ${shape.page.limit}${shape.page.offset === null ? '' : ` offset $${shape.page.offset}`}`
  // Called in `from`, a function gives its rows and its declared columns; in `select`, a NULL row stays NULL.
  const from = values === '' ? ` from ${call} f` : ` from ${values} cross join lateral ${call} f`
  const inSelect = values === '' ? '' : ` from ${values}`
  switch (resultOf(called)) {
    case 'void':
      return `select null::text${from}`
    case 'value':
      return `select to_json(${call})::text${inSelect}`
    case 'values':
      return `select to_json(t.v)::text from (select f.v${from}(v)${cut}) t`
    case 'row':
      return called.returns.columns.length > 0
        ? `select row_to_json(t.*)::text from (select f.*${from}) t`
        : `select row_to_json(${call})::text${inSelect}`
    case 'rows':
      return `select row_to_json(t.*)::text from (select f.*${from}${cut}) t`
  }
}

function argumentSql(called: DatabaseFunction, { name, slot }: CallShape['arguments'][number]): string {
  const { type, variadic } = called.arguments.find((argument) => argument.name === name)!
  const value = slot === null ? `r.${quoted(name)}` : `$${slot}::${type.sqlName}`
  return `${variadic ? 'variadic ' : ''}${quoted(name)} => ${value}`
}

function valuesSql(called: DatabaseFunction, { arguments: given, body }: CallShape): string {
  if (body === null) return ''
  const columns = given.map(
    ({ name }) => `${quoted(name)} ${called.arguments.find((argument) => argument.name === name)!.type.sqlName}`,
  )
  return `json_to_record($${body}::json) as r(${columns.join(', ')})`
}
