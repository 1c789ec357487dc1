import { TaskFailure } from '../../plugin.ts'
import { compareValues } from '../compare-values.ts'
import { type Decimal, decimalAt, decimalOf, nearestNumber, plainNumber, sumOf } from '../decimals.ts'
import { keyOf } from '../list-properties.ts'
import { averageOf, deviationOf, medianOf } from '../statistics.ts'
import type { Measure } from './aggregate-properties.ts'

interface Asked {
  readonly count: number
  readonly keys: readonly string[]
  /** Of each key, of each item. */
  readonly keyValues: readonly (readonly unknown[] | null)[]
  readonly measures: readonly Measure[]
  /** Of each measure, of each item; null for one that looks at no field. */
  readonly measured: readonly (readonly unknown[] | null)[]
}

export function aggregate({ count, keys, keyValues, measures, measured }: Asked): Record<string, unknown>[] {
  const groups = new Map<string, number[]>()
  // Without keys there is one group, even of nothing.
  if (keys.length === 0) groups.set('[]', [])
  for (let item = 0; item < count; item++) {
    const key = keyOf(keyValues.map((values) => values![item]))
    const members = groups.get(key)
    if (members === undefined) groups.set(key, [item])
    else members.push(item)
  }
  return [...groups.values()].map((members) =>
    Object.fromEntries([
      ...keys.map((name, index) => [name, keyValues[index]![members[0]!]]),
      ...measures.map((measure, index) => [measure.name, calculated(measure, measured[index]!, members)]),
    ]),
  )
}

function calculated({ calculate, name, scale }: Measure, all: readonly unknown[] | null, members: readonly number[]) {
  if (all === null) return members.length
  const present = members.filter((item) => all[item] !== null)
  const values = present.map((item) => all[item])
  const numbers = () => present.map((item) => decimalAt(all[item], `${name} of item ${item + 1}`))
  const round = (value: Decimal) => (scale === undefined ? value : value.toDecimalPlaces(scale, 4))
  switch (calculate) {
    case 'count':
      return values.length
    case 'count-distinct':
      return new Set(values.map(keyOf)).size
    case 'sum':
      return plainNumber(round(sumOf(numbers())))
    case 'avg':
      return values.length === 0 ? null : nearestNumber(round(averageOf(numbers())))
    case 'median':
      return values.length === 0 ? null : nearestNumber(round(medianOf(numbers())))
    case 'stddev':
      return values.length < 2 ? null : nearestNumber(round(deviationOf(numbers())))
    case 'min':
      return values.length === 0 ? null : values.reduce((least, each) => (orderOf(each, least) < 0 ? each : least))
    case 'max':
      return values.length === 0 ? null : values.reduce((most, each) => (orderOf(each, most) > 0 ? each : most))
    case 'first':
      return values[0] ?? null
    case 'last':
      return values.at(-1) ?? null
    case 'list':
      return values
    case 'distinct':
      return [...new Map(values.map((value) => [keyOf(value), value])).values()]
  }
  throw new TaskFailure('refused', `${calculate satisfies never} is no calculation`)
}

/** Texts of numbers among numbers are numbers. */
function orderOf(one: unknown, other: unknown): number {
  if (typeof one === typeof other && typeof one !== 'string') return compareValues(one, other)
  const [first, second] = [decimalOf(one), decimalOf(other)]
  return first === null || second === null ? compareValues(one, other) : first.cmp(second)
}
