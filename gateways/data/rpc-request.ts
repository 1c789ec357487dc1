import { Rejected } from '../../schemas/failure.ts'
import type { Catalog, DatabaseFunction } from './catalog.ts'
import type { OffsetPage } from './read-ast.ts'
import type { PageInfo } from './read-request.ts'
import type { Parameter } from './statement.ts'
import { hinted, perhaps, shown } from './suggestion.ts'

export interface CallShape {
  readonly kind: 'call'
  readonly schema: string
  readonly name: string
  /** Tells overloads apart: the types of the arguments, in order. */
  readonly signature: readonly string[]
  /** By name; slots of their texts, or null where the value comes from `body`. */
  readonly arguments: readonly { readonly name: string; readonly slot: number | null }[]
  /** Slot of the JSON object of the arguments. */
  readonly body: number | null
  /** Of functions that return a set. */
  readonly page: OffsetPage | null
}

/** `void`: nothing; `row`, `value`: one, or NULL; `rows`, `values`: a page of them. */
export type CallResult = 'void' | 'row' | 'rows' | 'value' | 'values'

export interface CallRequest {
  readonly shape: CallShape
  readonly parameters: readonly Parameter[]
  readonly result: CallResult
  readonly page: PageInfo | null
  readonly volatility: DatabaseFunction['volatility']
}

export function signatureOf(called: DatabaseFunction): readonly string[] {
  return called.arguments.map(({ type }) => type.sqlName)
}

export function resultOf({ returns }: DatabaseFunction): CallResult {
  if (returns.void) return 'void'
  const row = returns.columns.length > 0 || returns.type.base.kind === 'composite' || returns.type.name === 'record'
  return row ? (returns.set ? 'rows' : 'row') : returns.set ? 'values' : 'value'
}

/** All functions of the name that can be called by named arguments. @throws {Rejected} `data/unknown-function` */
export function overloadsOf(catalog: Catalog, schema: string, name: string): readonly DatabaseFunction[] {
  const inSchema = catalog.functions.filter(
    (one) => one.schema === schema && one.arguments.every((argument) => argument.name !== ''),
  )
  const overloads = inSchema.filter((one) => one.name === name)
  if (overloads.length > 0) return overloads
  throw new Rejected('data/unknown-function', `There is no function ${shown(name)} that takes named arguments`, {
    details: { function: name.slice(0, 100) },
    ...hinted(perhaps(name, new Set(inSchema.map((one) => one.name)))),
  })
}

/**
 * The overload that takes these arguments: all of them, and no other without a default. Of several, those that leave the fewest
 * arguments to their defaults.
 * @throws {Rejected} `data/unknown-function` for none, or for several that fit equally well
 */
export function overloadFor(overloads: readonly DatabaseFunction[], names: readonly string[]): DatabaseFunction {
  const fitting = overloads.filter(({ arguments: declared }) => {
    const known = new Set(declared.map(({ name }) => name))
    return (
      names.every((name) => known.has(name)) &&
      declared.every(({ name, optional, variadic }) => optional || variadic || names.includes(name))
    )
  })
  const fewest = Math.min(...fitting.map(({ arguments: declared }) => declared.length))
  const best = fitting.filter(({ arguments: declared }) => declared.length === fewest)
  if (best.length === 1) return best[0]!
  const { name } = overloads[0]!
  const signatures = overloads.slice(0, 20).map(described)
  if (best.length === 0) {
    const known = new Set(overloads.flatMap((one) => one.arguments.map((argument) => argument.name)))
    const stranger = names.find((argument) => !known.has(argument))
    const why = stranger === undefined ? 'these arguments' : `an argument ${shown(stranger)}`
    throw new Rejected('data/unknown-function', `There is no function ${name} with ${why}`, {
      details: { function: name, arguments: names.slice(0, 50), signatures },
      ...hinted(stranger === undefined ? undefined : perhaps(stranger, known)),
    })
  }
  throw new Rejected('data/unknown-function', `Several functions ${name} take these arguments`, {
    details: { function: name, arguments: names, signatures },
    hint: 'functions called by HTTP should differ in the names of their arguments',
  })
}

function described({ name, arguments: declared }: DatabaseFunction): string {
  const list = declared.map(
    (argument) =>
      `${argument.variadic ? 'variadic ' : ''}${argument.name} ${argument.type.name}${argument.optional ? ' = …' : ''}`,
  )
  return `${name}(${list.join(', ')})`
}
