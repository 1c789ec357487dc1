import { Decimal as Base } from 'decimal.js'
import { TaskFailure } from '../plugin.ts'

export type Decimal = Base

/** Sums, differences and products of whatever a double or a decimal text holds keep all their digits. */
const Exact = Base.clone({ precision: 2_500, maxE: 5_000, minE: -5_000 })
/** What has no end is cut after 40 digits. */
const Divided = Base.clone({ precision: 40, maxE: 5_000, minE: -5_000, rounding: Base.ROUND_HALF_EVEN })

const written = /^[+-]?(?:\d{1,200}(?:\.\d{0,200})?|\.\d{1,200})(?:[eE][+-]?\d{1,3})?$/

/** Null for what is neither a finite number nor a text of one. */
export function decimalOf(value: unknown): Decimal | null {
  if (typeof value === 'number') return Number.isFinite(value) ? new Exact(value) : null
  return typeof value === 'string' && written.test(value.trim()) ? new Exact(value.trim()) : null
}

/** @throws {TaskFailure} `refused` naming the place */
export function decimalAt(value: unknown, place: string): Decimal {
  const decimal = decimalOf(value)
  if (decimal !== null) return decimal
  const shown = (JSON.stringify(value) ?? String(value)).slice(0, 100)
  throw new TaskFailure('refused', `${place} is no number: ${shown}`)
}

export function sumOf(values: readonly Decimal[]): Decimal {
  return values.reduce((sum, value) => sum.plus(value), new Exact(0))
}

/** To 40 digits. */
export function quotient(dividend: Decimal, divisor: Decimal | number): Decimal {
  return new Exact(new Divided(dividend).div(divisor))
}

/** To 40 digits. */
export function rootOf(value: Decimal): Decimal {
  return new Exact(new Divided(value).sqrt())
}

/** What a function without exact results gives, to 40 digits. */
export function approximate(value: Decimal, work: (value: Decimal) => Decimal): Decimal {
  return new Exact(work(new Divided(value)))
}

/** As a number where a double says exactly the same, else as a text of its digits. */
export function plainNumber(value: Decimal): number | string {
  const number = value.toNumber()
  if (Number.isFinite(number) && new Exact(number).eq(value)) return number === 0 ? 0 : number
  return value.e > 200 || value.e < -200 ? value.toString() : value.toFixed()
}

/** As `plainNumber`, but the nearest number where digits go on, as those of 1/3 do. */
export function nearestNumber(value: Decimal): number | string {
  return value.isInteger() || value.precision() <= 35 ? plainNumber(value) : value.toNumber()
}
