import { Rejected } from '../../schemas/failure.ts'
import type { Column, DatabaseType, Table } from './catalog.ts'
import { compareAsTexts, compareOf } from './changes-compare.ts'
import type { RawMembers } from './changes-event.ts'
import { rawElements } from './changes-json.ts'
import { isArray, isText, type OperatorName, operators } from './operators.ts'
import { parameter, typeName } from './postgres-sql.ts'
import type { Comparison, Filter, RelatedRows } from './read-ast.ts'
import { type CallContext, type Database, type Parameter, statement } from './statement.ts'

/**
 * What a filter says of a row. `null` is SQL's unknown: the row does not pass. `absent` means that it hangs on a column the
 * change does not carry (a DELETE has its key only, an UPDATE leaves out large values that did not change): the change is
 * delivered, because a client can pass over what it does not know, but cannot ask for what it never saw.
 */
type Verdict = true | false | null | 'absent'
type Predicate = (row: RawMembers) => Verdict

/** Whether a row as a change carries it passes. */
export type ChangeFilter = (row: RawMembers) => boolean

/**
 * Compiles a filter for changes. The operands are written by the database once, as the column's type and as JSON, so that they
 * compare with a change's values text by text.
 *
 * @throws {Rejected} `data/invalid-filter` for operators that only the database can evaluate, and its own error for an operand
 * that is no value of the column's type.
 */
export async function compileChangeFilter(
  filter: Filter | null,
  parameters: readonly Parameter[],
  table: Table,
  { database, context }: { readonly database: Database; readonly context: CallContext },
): Promise<ChangeFilter | null> {
  if (filter === null) return null
  const values = await writeOperands(operandsOf(filter, table), parameters, database, context)
  const predicate = compile(filter, { table, parameters, values })
  return (row) => {
    const verdict = predicate(row)
    return verdict === true || verdict === 'absent'
  }
}

interface Scope {
  readonly table: Table
  readonly parameters: readonly Parameter[]
  /** JSON texts of operands by slot. */
  readonly values: ReadonlyMap<number, string>
}

const equality: ReadonlySet<OperatorName> = new Set(['eq', 'neq', 'in', 'notin', 'isdistinct'])
const ordering: ReadonlySet<OperatorName> = new Set(['gt', 'gte', 'lt', 'lte'])
const textual: ReadonlySet<OperatorName> = new Set(['like', 'ilike', 'startswith', 'endswith', 'contains'])

/** The operators streams know, by what a column must be able to do. */
const changeOperators: readonly OperatorName[] = [...equality, ...ordering, ...textual, 'is', 'isnotnull']

interface OperandSql {
  readonly slot: number
  readonly sql: string
  readonly column: Column
  readonly list: boolean
}

/** @throws {Rejected} when a comparison cannot be made outside of the database. */
function operandsOf(filter: Filter, table: Table): OperandSql[] {
  switch (filter.kind) {
    case 'not':
      return operandsOf(filter.item, table)
    case 'and':
    case 'or':
      return filter.items.flatMap((item) => operandsOf(item, table))
    case 'compare':
      return operandsOfComparison(filter, table)
    default:
      return refuseRelated(filter)
  }
}

function operandsOfComparison(filter: Comparison, table: Table): OperandSql[] {
  const { operator, column, slots } = filter
  const field = table.columnByName.get(column)!
  const { type } = field
  const why = misfit(operator, type)
  if (why !== null) {
    throw new Rejected('data/invalid-filter', `${column}: ${operator} ${why}`, {
      details: { field: column, column, operator },
      hint: `change streams filter with ${changeOperators.join(', ')}`,
    })
  }
  if (textual.has(operator) || operator === 'is') return []
  const list = operators[operator].operand === 'list' && !isArray(type)
  return slots.map((slot) => ({
    slot,
    column: field,
    list,
    sql: list ? `$${slot}::${typeName(type.base)}[]` : parameter(slot, type),
  }))
}

function misfit(operator: OperatorName, type: DatabaseType): string | null {
  if (operator === 'is') return null
  if (textual.has(operator)) return isText(type) || type.base.kind === 'enum' ? null : 'needs a text column on a stream'
  if (equality.has(operator)) return unequal.has(type.base.name) ? `cannot compare ${type.base.name} on a stream` : null
  if (ordering.has(operator)) return compareOf(type) ? null : `cannot order ${type.base.name} on a stream`
  return 'cannot be evaluated on a stream'
}

/** Types without an equality of their own, or whose equal values are written in several ways. */
const unequal = new Set(['json', 'xml', 'point', 'interval', 'box', 'polygon', 'path', 'line', 'lseg', 'circle'])

async function writeOperands(
  operands: readonly OperandSql[],
  parameters: readonly Parameter[],
  database: Database,
  context: CallContext,
): Promise<ReadonlyMap<number, string>> {
  const values = new Map<number, string>()
  if (operands.length === 0) return values
  const { changes } = database
  if (changes !== undefined) {
    for (const { slot, column, list } of operands) {
      const text = parameters[slot - 1] ?? ''
      const write = (each: string) => changes.writeOperand(column, each)
      values.set(slot, list ? `[${changes.readList(text).map(write).join(',')}]` : write(text))
    }
    return values
  }
  const used = [...new Set(operands.map(({ slot }) => slot))].sort((one, other) => one - other)
  // Only the slots of the statement may be sent, so they are counted anew.
  const columns = operands.map(
    ({ slot, sql }) => `to_json(${sql.replace(`$${slot}`, `$${used.indexOf(slot) + 1}`)})::text`,
  )
  const text = `select ${columns.join(', ')}`
  const { rows } = await database.run(
    statement(text),
    used.map((slot) => parameters[slot - 1] ?? null),
    context,
  )
  for (const [index, { slot }] of operands.entries()) values.set(slot, rows[0]?.[index]?.toString('utf8') ?? 'null')
  return values
}

function compile(filter: Filter, scope: Scope): Predicate {
  switch (filter.kind) {
    case 'and':
      return combine(filter.items, scope, [false, null, 'absent'])
    case 'or':
      return combine(filter.items, scope, [true, 'absent', null])
    case 'not': {
      const item = compile(filter.item, scope)
      return (row) => {
        const verdict = item(row)
        return typeof verdict === 'boolean' ? !verdict : verdict
      }
    }
    case 'compare':
      return compileComparison(filter, scope)
    default:
      return refuseRelated(filter)
  }
}

function refuseRelated({ relation }: RelatedRows): never {
  throw new Rejected('data/invalid-filter', `${relation}: a change does not carry related rows`, {
    details: { field: relation },
    hint: 'filter a stream by columns of its own table',
  })
}

/** @param strongest the verdicts that decide, the strongest first; what decides nothing is the neutral element. */
function combine(items: readonly Filter[], scope: Scope, strongest: readonly Verdict[]): Predicate {
  const predicates = items.map((item) => compile(item, scope))
  const neutral = strongest[0] !== true
  return (row) => {
    let weakest = strongest.length
    for (const predicate of predicates) {
      const rank = strongest.indexOf(predicate(row))
      if (rank === 0) return strongest[0]!
      if (rank > 0 && rank < weakest) weakest = rank
    }
    return weakest < strongest.length ? strongest[weakest]! : neutral
  }
}

function compileComparison(comparison: Comparison, scope: Scope): Predicate {
  const { column, operator } = comparison
  const { type } = scope.table.columnByName.get(column)!
  const test = operator === 'is' ? truthTest(comparison) : valueTest(comparison, type, scope)
  return (row) => {
    const value = row.get(column)
    return value === undefined ? 'absent' : test(value)
  }
}

type Test = (value: string) => Verdict

function truthTest({ truth }: Comparison): Test {
  if (truth === 'null' || truth === 'unknown') return (value) => value === 'null'
  return (value) => value === truth
}

function valueTest({ operator, slots }: Comparison, type: DatabaseType, { values, parameters }: Scope): Test {
  const slot = slots[0] ?? 0
  const compare = compareOf(type) ?? compareAsTexts
  const operand = values.get(slot) ?? 'null'
  const known =
    (test: (value: string) => boolean): Test =>
    (value) =>
      value === 'null' ? null : test(value)
  switch (operator) {
    case 'eq':
      return known((value) => compare(value, operand) === 0)
    case 'neq':
      return known((value) => compare(value, operand) !== 0)
    case 'isdistinct':
      return (value) => value === 'null' || compare(value, operand) !== 0
    case 'gt':
      return known((value) => compare(value, operand) > 0)
    case 'gte':
      return known((value) => compare(value, operand) >= 0)
    case 'lt':
      return known((value) => compare(value, operand) < 0)
    case 'lte':
      return known((value) => compare(value, operand) <= 0)
    case 'in':
    case 'notin': {
      const members = isArray(type) ? slots.map((each) => values.get(each) ?? 'null') : rawElements(operand)
      const wanted = operator === 'in'
      return known((value) => members.some((member) => compare(value, member) === 0) === wanted)
    }
    default:
      return known(textTest(operator, parameters[slot - 1] ?? ''))
  }
}

function textTest(operator: OperatorName, operand: string): (value: string) => boolean {
  const text = (value: string) => JSON.parse(value) as string
  switch (operator) {
    case 'startswith':
      return (value) => text(value).startsWith(operand)
    case 'endswith':
      return (value) => text(value).endsWith(operand)
    case 'contains':
      return (value) => text(value).includes(operand)
    case 'ilike': {
      const pattern = likePattern(operand.toLowerCase())
      return (value) => matchesLike([...text(value).toLowerCase()], pattern)
    }
    default: {
      const pattern = likePattern(operand)
      return (value) => matchesLike([...text(value)], pattern)
    }
  }
}

const anyText = Symbol('%')
const anyCharacter = Symbol('_')
type LikePattern = readonly (string | typeof anyText | typeof anyCharacter)[]

function likePattern(operand: string): LikePattern {
  const characters = [...operand]
  const pattern: (string | typeof anyText | typeof anyCharacter)[] = []
  for (let at = 0; at < characters.length; at++) {
    const character = characters[at]!
    if (character === '\\' && at + 1 < characters.length) pattern.push(characters[++at]!)
    else if (character === '%') pattern.push(anyText)
    else pattern.push(character === '_' ? anyCharacter : character)
  }
  return pattern
}

/** Goes back only to the last `%`: never more steps than characters times pattern. */
function matchesLike(text: readonly string[], pattern: LikePattern): boolean {
  let at = 0
  let next = 0
  let lastAny = -1
  let resume = 0
  while (at < text.length) {
    const wanted = pattern[next]
    if (wanted === anyText) {
      lastAny = next++
      resume = at
    } else if (next < pattern.length && (wanted === anyCharacter || wanted === text[at])) {
      at += 1
      next += 1
    } else if (lastAny >= 0) {
      next = lastAny + 1
      at = ++resume
    } else return false
  }
  while (pattern[next] === anyText) next += 1
  return next === pattern.length
}
