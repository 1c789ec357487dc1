import { isDeepStrictEqual } from 'node:util'
import { RE2JS } from 're2js'
import { TaskFailure } from '../../plugin.ts'
import { compareValues } from '../compare-values.ts'
import { decimalOf } from '../decimals.ts'
import type { Condition } from './filter-properties.ts'

interface Asked {
  /** Of each condition, of each item. */
  readonly fields: readonly (readonly unknown[])[]
  readonly conditions: readonly Condition[]
  readonly match: 'all' | 'any'
  readonly count: number
}

type Check = (found: unknown) => boolean

export function holding({ fields, conditions, match, count }: Asked): boolean[] {
  const checks = conditions.map(checkOf)
  return Array.from({ length: count }, (_, item) => {
    const holds = (check: Check, index: number) => check(fields[index]![item])
    return match === 'all' ? checks.every(holds) : checks.some(holds)
  })
}

function checkOf({ is, value }: Condition, index: number): Check {
  const place = `properties.conditions[${index}].value`
  const order = (holds: (order: number) => boolean): Check => {
    return (found) => found !== null && holds(orderOf(found, value))
  }
  switch (is) {
    case 'equal':
      return (found) => isEqual(found, value)
    case 'not-equal':
      return (found) => !isEqual(found, value)
    case 'less':
      return order((order) => order < 0)
    case 'less-or-equal':
      return order((order) => order <= 0)
    case 'greater':
      return order((order) => order > 0)
    case 'greater-or-equal':
      return order((order) => order >= 0)
    case 'in':
    case 'not-in':
      return among(value, place, is === 'in')
    case 'empty':
      return isEmpty
    case 'not-empty':
      return (found) => !isEmpty(found)
    default:
      return textCheck(is, value, place)
  }
}

function among(value: unknown, place: string, isWanted: boolean): Check {
  if (!Array.isArray(value)) throw new TaskFailure('refused', `${place} is no list`)
  return (found) => value.some((each) => isEqual(found, each)) === isWanted
}

function textCheck(is: 'contains' | 'starts-with' | 'ends-with' | 'matches', value: unknown, place: string): Check {
  const text = String(value ?? '')
  if (is === 'contains') {
    return (found) => (Array.isArray(found) ? found.some((each) => isEqual(each, value)) : textOf(found).includes(text))
  }
  if (is === 'starts-with') return (found) => textOf(found).startsWith(text)
  if (is === 'ends-with') return (found) => textOf(found).endsWith(text)
  try {
    const pattern = RE2JS.compile(text)
    return (found) => pattern.test(textOf(found))
  } catch (error) {
    throw new TaskFailure('refused', `${place} is no pattern that RE2 takes: ${(error as Error).message}`, error)
  }
}

/** A number and a text of the same number are the same, whichever way either was written. */
function isEqual(one: unknown, other: unknown): boolean {
  return isDeepStrictEqual(one, other) || (isMixed(one, other) && orderOf(one, other) === 0)
}

/** Texts of numbers are in the order of the numbers: what comes out of a CSV is nothing but texts. */
function orderOf(one: unknown, other: unknown): number {
  const [first, second] = [decimalOf(one), decimalOf(other)]
  return first === null || second === null ? compareValues(one, other) : first.cmp(second)
}

function isMixed(one: unknown, other: unknown): boolean {
  return (
    (typeof one === 'number' && typeof other === 'string') || (typeof one === 'string' && typeof other === 'number')
  )
}

function isEmpty(found: unknown): boolean {
  if (found === null || found === undefined || found === '') return true
  return typeof found === 'object' && Object.keys(found).length === 0
}

function textOf(found: unknown): string {
  return found === null || found === undefined ? '' : String(found)
}
