import { Rejected } from '../../schemas/failure.ts'
import { comparison, type Field, type FilterContext } from '../data/filter.ts'
import { valueFault } from '../data/filter-value.ts'
import { isOperator, type OperatorName, operators } from '../data/operators.ts'
import type { Filter } from '../data/read-ast.ts'
import { perhaps, shown } from '../data/suggestion.ts'
import { inParentheses, leadingName, type Place, refuse, splitList, unquoted } from './parse-text.ts'

/** Finds what a name in a filter stands for. @throws {Rejected} when there is none. */
export type FieldLookup = (name: string, place: string) => Field

/** Everything about a request that its filters share. */
export type FilterScope = Omit<FilterContext, 'place'>

/**
 * `<operator>.<value>` of `?<column>=`. A text that does not begin with an operator is compared as it is, unless it cannot be a value of
 * the column and reads as a mistyped operator.
 */
export function parseCondition(field: Field, text: string, parameter: string, scope: FilterScope): Filter {
  const place = filterPlace(parameter)
  const head = predicateHead(text)
  if (head === null && /^[a-z]+[.(]/i.test(text) && valueFault(field.type, text) !== null) unknownOperator(text, place)
  if (head === null) return comparison(field, 'eq', { text }, { ...scope, place: parameter })
  return parsePredicate(field, text, place, scope, 'raw')
}

/** `(a.eq.1,or(b.gt.2,not.c.is.null))` of `?or=` and `?and=`. */
export function parseGroup(
  kind: 'and' | 'or',
  text: string,
  parameter: string,
  fields: FieldLookup,
  scope: FilterScope,
): Filter {
  checkLength(text, parameter, scope)
  return group(kind, text, filterPlace(parameter), fields, scope, 1)
}

/** One member of a group on its own. */
export function parseMember(text: string, parameter: string, fields: FieldLookup, scope: FilterScope): Filter {
  return member(text, filterPlace(parameter), fields, scope, 1)
}

/** Whether the text reads `<name>.<operator>.…`, `and(…)` or `or(…)`. */
export function looksLikeMember(text: string): boolean {
  if (/^(?:not\.)*(?:and|or)\s*\(/.test(text)) return true
  const bare = text.replace(/^(?:not\.)+/, '')
  const dot = bare.startsWith('"') ? bare.indexOf('".') + 1 : bare.indexOf('.')
  return dot > 0 && predicateHead(bare.slice(dot + 1)) !== null
}

function filterPlace(parameter: string): Place {
  return { parameter, code: 'data/invalid-filter' }
}

export function checkLength(text: string, parameter: string, { limits }: Pick<FilterScope, 'limits'>): void {
  if (text.length <= limits.maxValueLength) return
  throw new Rejected('data/too-complex', `${parameter}: more than ${limits.maxValueLength} characters`, {
    details: { field: parameter },
  })
}

function group(
  kind: 'and' | 'or',
  text: string,
  place: Place,
  fields: FieldLookup,
  scope: FilterScope,
  depth: number,
): Filter {
  if (depth > scope.limits.maxFilterDepth) {
    throw new Rejected(
      'data/too-complex',
      `${place.parameter}: groups nest deeper than ${scope.limits.maxFilterDepth}`,
      {
        details: { field: place.parameter },
      },
    )
  }
  const items = splitList(inParentheses(text, place), place).map((piece) =>
    member(piece.trim(), place, fields, scope, depth),
  )
  return items.length === 1 ? items[0]! : { kind, items }
}

function member(text: string, place: Place, fields: FieldLookup, scope: FilterScope, depth: number): Filter {
  let rest = text
  let negated = false
  while (rest.startsWith('not.')) {
    rest = rest.slice(4)
    negated = !negated
  }
  const kind = /^(and|or)\s*\(/.exec(rest)?.[1]
  if (kind === 'and' || kind === 'or')
    return not(negated, group(kind, rest.slice(kind.length), place, fields, scope, depth + 1))
  const { name, rest: predicate } = leadingName(rest, '.', place)
  if (name === '' || !predicate.startsWith('.')) {
    refuse(place, `expected <column>.<operator>.<value>, and(…) or or(…), not ${shown(text)}`)
  }
  return not(negated, parsePredicate(fields(name, place.parameter), predicate.slice(1), place, scope, 'quotable'))
}

/** @param style in a group a value can be quoted, in a parameter of its own it is taken as it is. */
function parsePredicate(
  field: Field,
  text: string,
  place: Place,
  scope: FilterScope,
  style: 'raw' | 'quotable',
): Filter {
  let rest = text
  let negated = false
  while (rest.startsWith('not.')) {
    rest = rest.slice(4)
    negated = !negated
  }
  const head = predicateHead(rest)
  if (head === null || head.operator === 'not') return unknownOperator(rest, place)
  const { operator, configuration, value } = head
  const context = { ...scope, place: place.parameter }
  const { operand } = operators[operator]
  if (configuration !== undefined && operand !== 'search') refuse(place, `${operator} takes no configuration`)
  if (operand === 'list' || operand === 'texts') {
    return not(negated, comparison(field, operator, { text: value, list: listMembers(value, operand, place) }, context))
  }
  const plain = style === 'raw' ? value : unquoted(value, place)
  return not(
    negated,
    comparison(field, operator, { text: plain, ...(configuration === undefined ? {} : { configuration }) }, context),
  )
}

interface PredicateHead {
  readonly operator: OperatorName | 'not'
  readonly configuration: string | undefined
  readonly value: string
}

const headPattern = /^([a-z]+)(?:\((\w{1,63})\))?(\.|$)/

/** What stands before the first dot, when it is an operator; only `isnotnull` may stand without a dot. */
function predicateHead(text: string): PredicateHead | null {
  const match = headPattern.exec(text)
  if (!match) return null
  const [whole, operator = '', configuration, dot] = match
  if (dot === '') return operator === 'isnotnull' ? { operator, configuration, value: '' } : null
  if (operator !== 'not' && !isOperator(operator)) return null
  return { operator, configuration, value: text.slice(whole.length) }
}

function unknownOperator(text: string, place: Place): never {
  const name = /^[^.(]*/.exec(text)![0]
  return refuse(place, `${shown(name)} is not a filter operator`, perhaps(name, Object.keys(operators)))
}

/** Members are trimmed unless quoted; empty ones are left out. Keys also come in braces or alone. */
function listMembers(text: string, operand: 'list' | 'texts', place: Place): string[] {
  const braces = operand === 'texts' && text.startsWith('{') && text.endsWith('}')
  const alone = operand === 'texts' && !braces && !text.startsWith('(')
  const inner = braces ? text.slice(1, -1) : alone ? text : inParentheses(text, place)
  return splitList(inner, place)
    .map((piece) => piece.trim())
    .filter((piece) => piece !== '')
    .map((piece) => unquoted(piece, place))
}

function not(negated: boolean, filter: Filter): Filter {
  return negated ? { kind: 'not', item: filter } : filter
}
