import { Rejected } from '../../schemas/failure.ts'
import type { DatabaseType } from './catalog.ts'
import { isJsonText, valueFault } from './filter-value.ts'
import { isArray, misfit, type OperatorName, operators } from './operators.ts'
import type { Comparison, Filter, Truth } from './read-ast.ts'
import type { ReadLimits } from './read-limits.ts'
import type { Slots } from './read-request.ts'
import { hinted, shown } from './suggestion.ts'

/** What can be filtered on: a column, or a result of an aggregation. */
export interface Field {
  readonly name: string
  readonly type: DatabaseType
}

export interface Operand {
  readonly text: string
  /** The members, for the operators that take a list. */
  readonly list?: readonly string[]
  /** Text search configuration, for the operators that take one. */
  readonly configuration?: string
}

/** Where a request's filters are gathered, and the place in the request that errors name. */
export interface FilterContext {
  readonly slots: Slots
  readonly limits: ReadLimits
  /** Counted over the whole request. */
  readonly used: { filters: number }
  readonly place: string
}

/**
 * One comparison, its operand checked and put into a slot.
 * @throws {Rejected} `data/invalid-filter` when the operator does not fit the column, `data/invalid-value` when the operand
 * does not, `data/too-complex` over the limits.
 */
export function comparison(field: Field, operator: OperatorName, operand: Operand, context: FilterContext): Filter {
  countFilter(context)
  const why = misfit(operator, field.type)
  if (why !== null) refuse(`${operator} ${why}`, field, context)
  if (operator === 'isnotnull') return flagOf(operand.text, field, context)
  const base = { kind: 'compare', column: field.name, operator } as const
  switch (operators[operator].operand) {
    case 'truth':
      return { ...base, slots: [], truth: truthOf(operand.text, field, context) }
    case 'list':
      return { ...base, slots: listSlots(field, operand, context) }
    case 'texts':
      return {
        ...base,
        slots: [context.slots.add(arrayLiteral(bounded(operand.list ?? [operand.text], context)), context.place)],
      }
    case 'search':
      return { ...base, slots: searchSlots(field, operand, context) }
    default:
      return { ...base, slots: [context.slots.add(checked(field, operator, operand.text, context), context.place)] }
  }
}

function checked(field: Field, operator: OperatorName, text: string, context: FilterContext): string {
  if (text.length > context.limits.maxValueLength)
    tooComplex(`a value of more than ${context.limits.maxValueLength} characters`, context)
  if (text.includes('\0')) invalidValue(field, text, 'holds the character U+0000', context)
  const { operand } = operators[operator]
  if (operand === 'json' && !isJsonText(text)) invalidValue(field, text, 'is not JSON', context)
  if (operand === 'integer' && !/^\d{1,9}$/.test(text)) invalidValue(field, text, 'is not a whole number', context)
  const fault = operand === 'value' ? valueFault(field.type, text) : null
  if (fault !== null) invalidValue(field, text, fault.reason, context, fault.hint)
  return text
}

/** Array columns compare with each member on its own: an array of arrays would flatten. */
function listSlots(field: Field, operand: Operand, context: FilterContext): number[] {
  const members = bounded(operand.list ?? [operand.text], context).map((text) => checked(field, 'eq', text, context))
  if (isArray(field.type)) return members.map((text) => context.slots.add(text, context.place))
  return [context.slots.add(arrayLiteral(members), context.place)]
}

function searchSlots(field: Field, operand: Operand, context: FilterContext): number[] {
  const query = context.slots.add(checked(field, 'fts', operand.text, context), context.place)
  return operand.configuration === undefined
    ? [query]
    : [query, context.slots.add(operand.configuration, context.place)]
}

function truthOf(text: string, field: Field, context: FilterContext): Truth {
  const truth = text.toLowerCase()
  if (truth !== 'null' && truth !== 'true' && truth !== 'false' && truth !== 'unknown') {
    return refuse(`is takes null, true, false or unknown, not ${shown(text)}`, field, context)
  }
  if (truth !== 'null' && field.type.base.name !== 'bool') refuse(`is.${truth} needs a boolean column`, field, context)
  return truth
}

function flagOf(text: string, field: Field, context: FilterContext): Filter {
  const isNull: Comparison = { kind: 'compare', column: field.name, operator: 'is', slots: [], truth: 'null' }
  if (text === '' || text === 'true') return { kind: 'not', item: isNull }
  if (text === 'false') return isNull
  return refuse(`isnotnull takes true, false or nothing, not ${shown(text)}`, field, context)
}

function bounded(members: readonly string[], context: FilterContext): readonly string[] {
  const { maxListLength, maxValueLength } = context.limits
  if (members.length > maxListLength) tooComplex(`a list of more than ${maxListLength} values`, context)
  for (const text of members) {
    if (text.length > maxValueLength) tooComplex(`a value of more than ${maxValueLength} characters`, context)
    if (text.includes('\0')) {
      throw new Rejected('data/invalid-value', `${context.place}: a value holds the character U+0000`, {
        details: { field: context.place },
      })
    }
  }
  return members
}

function countFilter(context: FilterContext): void {
  context.used.filters += 1
  if (context.used.filters > context.limits.maxFilters)
    tooComplex(`more than ${context.limits.maxFilters} filters`, context)
}

/** PostgreSQL array literal of texts; every member is quoted, so that `null` stays a text. */
export function arrayLiteral(members: readonly string[]): string {
  return `{${members.map((text) => `"${text.replace(/["\\]/g, '\\$&')}"`).join(',')}}`
}

function refuse(reason: string, field: Field, context: FilterContext): never {
  throw new Rejected(
    'data/invalid-filter',
    `${context.place}: ${reason} (column "${field.name}" is ${field.type.name})`,
    {
      details: { field: context.place, column: field.name, reason },
    },
  )
}

function invalidValue(field: Field, text: string, reason: string, context: FilterContext, hint?: string): never {
  throw new Rejected(
    'data/invalid-value',
    `${context.place}: ${shown(text)} ${reason} (column "${field.name}" is ${field.type.name})`,
    {
      details: { field: context.place, column: field.name, reason },
      ...hinted(hint),
    },
  )
}

function tooComplex(what: string, context: FilterContext): never {
  throw new Rejected('data/too-complex', `${context.place}: ${what}`, { details: { field: context.place } })
}
