import { TaskFailure } from '../../plugin.ts'
import { approximate, type Decimal, decimalAt, decimalOf, quotient, rootOf, sumOf } from '../decimals.ts'
import { averageOf, medianOf } from '../statistics.ts'
import { placeIn } from '../text-place.ts'

type Value = Decimal | readonly Decimal[]

const maxDepth = 100
const maxExactPower = 1_000
const piDigits = '3.141592653589793238462643383279502884197'
const eDigits = '2.718281828459045235360287471352662497757'

const token =
  /\s*(?:(\d+(?:\.\d*)?(?:[eE][+-]?\d{1,3})?|\.\d+(?:[eE][+-]?\d{1,3})?)|([A-Za-z_][\w]*(?:\.[A-Za-z_]\w*|\.\d+)*)|(\*\*|[-+*/%^(),]))/y

/** @throws {TaskFailure} `refused` with the place in the expression */
export function evaluated(expression: string, variables: Readonly<Record<string, unknown>>): Decimal {
  return new Calculation(expression, variables).result()
}

/** One function a level of the grammar: sums, products, signs, powers, and what stands for itself. */
class Calculation {
  readonly #text: string
  readonly #variables: Readonly<Record<string, unknown>>
  #at = 0
  #kind: 'number' | 'name' | 'sign' | 'end' = 'end'
  #token = ''
  #begin = 0
  #depth = 0
  constructor(text: string, variables: Readonly<Record<string, unknown>>) {
    this.#text = text
    this.#variables = variables
    this.#next()
  }

  result(): Decimal {
    const value = this.#number(this.#sum())
    if (this.#kind !== 'end') throw this.#mistake(`unexpected ${this.#token}`)
    return value
  }

  #sum(): Value {
    if (++this.#depth > maxDepth) throw this.#mistake('it nests too deep')
    let value = this.#product()
    for (let sign = this.#take('+', '-'); sign !== null; sign = this.#take('+', '-')) {
      const [left, right] = [this.#number(value), this.#number(this.#product())]
      value = this.#finite(sign === '+' ? left.plus(right) : left.minus(right))
    }
    this.#depth -= 1
    return value
  }

  #product(): Value {
    let value = this.#signed()
    for (let sign = this.#take('*', '/', '%'); sign !== null; sign = this.#take('*', '/', '%')) {
      const [left, right] = [this.#number(value), this.#number(this.#signed())]
      if (sign !== '*' && right.isZero()) throw this.#mistake('division by zero')
      value = this.#finite(sign === '*' ? left.times(right) : sign === '/' ? quotient(left, right) : left.mod(right))
    }
    return value
  }

  #signed(): Value {
    let isNegative = false
    let isSigned = false
    for (let sign = this.#take('+', '-'); sign !== null; sign = this.#take('+', '-')) {
      isSigned = true
      if (sign === '-') isNegative = !isNegative
    }
    const value = this.#power()
    if (!isSigned) return value
    return isNegative ? this.#number(value).negated() : this.#number(value)
  }

  #power(): Value {
    const base = this.#operand()
    if (this.#take('^', '**') === null) return base
    if (++this.#depth > maxDepth) throw this.#mistake('it nests too deep')
    const exponent = this.#number(this.#signed())
    this.#depth -= 1
    return this.#finite(powerOf(this.#number(base), exponent))
  }

  #operand(): Value {
    const [kind, text] = [this.#kind, this.#token]
    if (kind === 'number') {
      const value = decimalOf(text)
      if (value === null) throw this.#mistake(`${text.slice(0, 40)} has too many digits`)
      this.#next()
      return value
    }
    if (this.#take('(') !== null) {
      const value = this.#sum()
      if (this.#take(')') === null) throw this.#mistake('a ) is missing')
      return value
    }
    if (kind !== 'name') throw this.#mistake(kind === 'end' ? 'it ends too early' : `unexpected ${text}`)
    const begin = this.#begin
    this.#next()
    return this.#take('(') === null ? this.#variable(text, begin) : this.#call(text, begin)
  }

  #call(name: string, begin: number): Decimal {
    const given: Value[] = []
    while (this.#take(')') === null) {
      if (given.length > 0 && this.#take(',') === null) throw this.#mistake('a ) is missing')
      given.push(this.#sum())
    }
    const work = Object.hasOwn(functions, name) ? functions[name]! : null
    if (work === null) throw this.#mistake(`there is no function ${name}`, begin)
    const result = work(given.flat() as Decimal[])
    if (result === null) throw this.#mistake(`${name} takes other arguments`, begin)
    return this.#finite(result, begin)
  }

  #variable(path: string, begin: number): Value {
    let found: unknown = this.#variables
    for (const step of path.split('.')) {
      const isThere = found !== null && typeof found === 'object' && Object.hasOwn(found, step)
      found = isThere ? (found as Record<string, unknown>)[step] : undefined
    }
    if (found === undefined && path === 'pi') return decimalAt(piDigits, path)
    if (found === undefined && path === 'e') return decimalAt(eDigits, path)
    if (found === undefined) throw this.#mistake(`there is no variable ${path}`, begin)
    if (!Array.isArray(found)) return decimalAt(found, `properties.variables.${path}`)
    return found.map((each, index) => decimalAt(each, `properties.variables.${path}[${index}]`))
  }

  #number(value: Value): Decimal {
    if (Array.isArray(value)) throw this.#mistake('a list is no number: give it to sum, avg, min, max, median or count')
    return value as Decimal
  }

  #finite(value: Decimal, begin?: number): Decimal {
    if (value.isFinite()) return value
    throw this.#mistake(value.isNaN() ? 'the result is no number' : 'the result is too large', begin)
  }

  #take(...signs: readonly string[]): string | null {
    const taken = this.#token
    if (this.#kind !== 'sign' || !signs.includes(taken)) return null
    this.#next()
    return taken
  }

  #next(): void {
    token.lastIndex = this.#at
    const [all, number, name, sign] = token.exec(this.#text) ?? []
    if (all === undefined) {
      this.#begin = this.#at + (/\s*/y.exec(this.#text.slice(this.#at))?.[0].length ?? 0)
      this.#kind = 'end'
      this.#token = this.#text[this.#begin] ?? ''
      if (this.#token !== '') throw this.#mistake(`unexpected ${this.#token}`)
      return
    }
    this.#at += all.length
    this.#token = number ?? name ?? sign!
    this.#begin = this.#at - this.#token.length
    this.#kind = number !== undefined ? 'number' : name !== undefined ? 'name' : 'sign'
  }

  #mistake(what: string, at = this.#begin): TaskFailure {
    return new TaskFailure('refused', `properties.expression: ${what}${placeIn(this.#text, at)}`)
  }
}

/** Whole powers are exact while they are not too large. */
function powerOf(base: Decimal, exponent: Decimal): Decimal {
  const isExact = exponent.isInteger() && !exponent.isNegative() && exponent.lte(maxExactPower)
  return isExact ? base.pow(exponent) : approximate(base, (value) => value.pow(exponent))
}

type Work = (given: readonly Decimal[]) => Decimal | null

const one =
  (work: (value: Decimal) => Decimal): Work =>
  (given) =>
    given.length === 1 ? work(given[0]!) : null
const several =
  (work: (values: readonly Decimal[]) => Decimal): Work =>
  (given) =>
    given.length > 0 ? work(given) : null
const rough = (work: (value: Decimal) => Decimal): Work => one((value) => approximate(value, work))

const functions: Readonly<Record<string, Work>> = {
  abs: one((value) => value.abs()),
  ceil: one((value) => value.ceil()),
  floor: one((value) => value.floor()),
  trunc: one((value) => value.trunc()),
  sign: one((value) => sumOf([]).plus(value.cmp(0))),
  sqrt: one(rootOf),
  cbrt: rough((value) => value.cbrt()),
  exp: rough((value) => value.exp()),
  ln: rough((value) => value.ln()),
  log10: rough((value) => value.log(10)),
  log: ([value, base, ...others]) => {
    if (value === undefined || base === undefined || others.length > 0) return null
    return approximate(value, (exact) => exact.log(base))
  },
  pow: ([base, exponent, ...others]) => {
    return base === undefined || exponent === undefined || others.length > 0 ? null : powerOf(base, exponent)
  },
  round: ([value, digits = sumOf([]), ...others]) => {
    const isFit = digits.isInteger() && digits.gte(0) && digits.lte(100)
    return value === undefined || others.length > 0 || !isFit ? null : value.toDecimalPlaces(digits.toNumber(), 4)
  },
  min: several((values) => values.reduce((least, each) => (each.lt(least) ? each : least))),
  max: several((values) => values.reduce((most, each) => (each.gt(most) ? each : most))),
  avg: several(averageOf),
  median: several(medianOf),
  sum: (given) => sumOf(given),
  count: (given) => sumOf([]).plus(given.length),
}
