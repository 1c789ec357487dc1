import { type Decimal, quotient, rootOf, sumOf } from './decimals.ts'

export function averageOf(values: readonly Decimal[]): Decimal {
  return quotient(sumOf(values), values.length)
}

export function medianOf(values: readonly Decimal[]): Decimal {
  return percentileOf(sorted(values), 50)
}

export function sorted(values: readonly Decimal[]): readonly Decimal[] {
  return values.toSorted((one, other) => one.cmp(other))
}

/** Of values in order, between two of them on the line from one to the other. */
export function percentileOf(values: readonly Decimal[], percent: number): Decimal {
  const place = quotient(
    sumOf([])
      .plus(percent)
      .times(values.length - 1),
    100,
  )
  const before = place.floor()
  const low = values[before.toNumber()]!
  const high = values[Math.min(before.toNumber() + 1, values.length - 1)]!
  return low.plus(high.minus(low).times(place.minus(before)))
}

/** Of a sample. */
export function deviationOf(values: readonly Decimal[]): Decimal {
  return rootOf(varianceOf(values))
}

/** Of a sample: from the exact sum of squares, so that nothing cancels out. */
export function varianceOf(values: readonly Decimal[]): Decimal {
  const sum = sumOf(values)
  const squares = sumOf(values.map((value) => value.times(value)))
  const times = values.length
  return quotient(squares.times(times).minus(sum.times(sum)), times * (times - 1))
}
