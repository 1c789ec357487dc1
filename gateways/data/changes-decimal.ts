interface Decimal {
  readonly negative: boolean
  /** Without zeros at either end; empty for zero. */
  readonly digits: string
  /** Digits in front of the decimal point, counted from the first digit. */
  readonly point: number
}

const pattern = /^(-?)(\d+)(?:\.(\d+))?(?:[eE]([+-]?\d+))?$/

/**
 * Compares numbers as PostgreSQL's numeric does, with all digits: negative, zero or positive. The texts are JSON numbers, or
 * the JSON texts `"NaN"`, `"Infinity"` and `"-Infinity"`.
 */
export function compareDecimals(one: string, other: string): number {
  if (one === other) return 0
  const rank = rankOf(one) - rankOf(other)
  if (rank !== 0 || rankOf(one) !== 0) return rank
  const left = parse(one)
  const right = parse(other)
  if (left.digits === '' || right.digits === '') return signOf(left) - signOf(right)
  if (left.negative !== right.negative) return left.negative ? -1 : 1
  const magnitude =
    left.point === right.point ? compareTexts(left.digits, right.digits) : Math.sign(left.point - right.point)
  return left.negative ? -magnitude : magnitude
}

/** NaN is greater than everything and equal to itself. */
function rankOf(text: string): number {
  if (text === '"NaN"') return 2
  if (text === '"Infinity"') return 1
  return text === '"-Infinity"' ? -1 : 0
}

function parse(text: string): Decimal {
  const match = pattern.exec(text)
  if (!match) return { negative: false, digits: '', point: 0 }
  const [, sign, whole = '', fraction = '', exponent = '0'] = match
  const all = whole + fraction
  const leading = all.length - all.replace(/^0+/, '').length
  const digits = all.slice(leading).replace(/0+$/, '')
  return { negative: sign === '-', digits, point: whole.length + Number(exponent) - leading }
}

function signOf({ digits, negative }: Decimal): number {
  if (digits === '') return 0
  return negative ? -1 : 1
}

function compareTexts(one: string, other: string): number {
  if (one === other) return 0
  return one < other ? -1 : 1
}
