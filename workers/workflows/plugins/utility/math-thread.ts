import { TaskFailure } from '../../plugin.ts'
import { type Decimal, decimalAt, nearestNumber, plainNumber, rootOf, sumOf } from '../decimals.ts'
import { averageOf, percentileOf, sorted, varianceOf } from '../statistics.ts'
import { evaluated } from './math-expression.ts'

interface Rounding {
  readonly digits?: number
  readonly step?: number | string
  readonly mode: keyof typeof modes
}

/** As decimal.js counts them. */
const modes = { 'half-up': 4, 'half-even': 6, 'half-down': 5, up: 0, down: 1, ceil: 2, floor: 3 } as const

interface Evaluate extends Rounding {
  readonly expression: string
  readonly variables: Readonly<Record<string, unknown>>
}

export function evaluate({ expression, variables, ...rounding }: Evaluate) {
  const value = evaluated(expression, variables)
  return told(rounding.digits === undefined && rounding.step === undefined ? value : roundedTo(value, rounding))
}

export function round({ value, ...rounding }: Rounding & { readonly value: unknown }) {
  return told(roundedTo(decimalAt(value, 'properties.value'), rounding))
}

function told(value: Decimal) {
  return { value: nearestNumber(value), text: value.e > 200 || value.e < -200 ? value.toString() : value.toFixed() }
}

function roundedTo(value: Decimal, { digits = 0, step, mode }: Rounding): Decimal {
  if (step !== undefined) {
    const unit = decimalAt(step, 'properties.step')
    if (!unit.isPositive() || unit.isZero()) throw new TaskFailure('refused', 'properties.step is not above zero')
    return value.toNearest(unit, modes[mode])
  }
  if (digits >= 0) return value.toDecimalPlaces(digits, modes[mode])
  return value.toNearest(sumOf([]).plus(10).pow(-digits), modes[mode])
}

interface Statistics {
  readonly values: readonly unknown[]
  readonly percentiles: readonly number[]
}

export function statistics({ values, percentiles }: Statistics) {
  const present = values.flatMap((value, index) => {
    return value === null ? [] : [decimalAt(value, `properties.values[${index}]`)]
  })
  const ordered = sorted(present)
  const isEmpty = ordered.length === 0
  const given = (calculate: () => Decimal) => (isEmpty ? null : nearestNumber(calculate()))
  const variance = present.length < 2 ? null : varianceOf(present)
  return {
    count: present.length,
    sum: plainNumber(sumOf(present)),
    avg: given(() => averageOf(present)),
    min: given(() => ordered[0]!),
    max: given(() => ordered.at(-1)!),
    median: given(() => percentileOf(ordered, 50)),
    variance: variance === null ? null : nearestNumber(variance),
    stddev: variance === null ? null : nearestNumber(rootOf(variance)),
    percentiles: Object.fromEntries(
      isEmpty ? [] : percentiles.map((percent) => [percent, nearestNumber(percentileOf(ordered, percent))]),
    ),
  }
}
