import { TaskFailure } from '../../plugin.ts'
import { compareValues } from '../compare-values.ts'
import { decimalOf } from '../decimals.ts'

interface By {
  readonly order: 'ascending' | 'descending'
  readonly as: 'value' | 'number' | 'text' | 'natural'
  readonly ignoreCase: boolean
  readonly nulls: 'first' | 'last'
}

interface Asked {
  /** Of each of `by`, of each item. */
  readonly keys: readonly (readonly unknown[])[]
  readonly by: readonly By[]
  readonly locale: string
  readonly count: number
}

type Compare = (one: unknown, other: unknown) => number

/** The places of the items in their new order. */
export function order({ keys, by, locale, count }: Asked): Uint32Array {
  const columns = by.map((each, index) => ({
    keys: each.as === 'number' ? keys[index]!.map((key) => decimalOf(key)) : keys[index]!,
    compare: compareBy(each, locale),
  }))
  return Uint32Array.from({ length: count }, (_, index) => index).sort((one, other) => {
    for (const { keys, compare } of columns) {
      const order = compare(keys[one], keys[other])
      if (order !== 0) return order
    }
    return one - other
  })
}

function compareBy({ order, as, ignoreCase, nulls }: By, locale: string): Compare {
  const compare = compareAs(as, ignoreCase, locale)
  const sign = order === 'ascending' ? 1 : -1
  const before = nulls === 'first' ? -1 : 1
  return (one, other) => {
    if (one === null || other === null) return one === other ? 0 : one === null ? before : -before
    return sign * compare(one, other)
  }
}

function compareAs(as: By['as'], ignoreCase: boolean, locale: string): Compare {
  if (as === 'value') return compareValues
  if (as === 'number') return (one, other) => (one as NonNullable<ReturnType<typeof decimalOf>>).cmp(other as number)
  const collator = collatorOf(locale, { numeric: as === 'natural', sensitivity: ignoreCase ? 'base' : 'variant' })
  return (one, other) => collator.compare(textOf(one), textOf(other))
}

function collatorOf(locale: string, options: Intl.CollatorOptions): Intl.Collator {
  try {
    return new Intl.Collator(locale, options)
  } catch (cause) {
    throw new TaskFailure('refused', `properties.locale is no language tag: ${locale}`, cause)
  }
}

function textOf(value: unknown): string {
  return typeof value === 'string' ? value : JSON.stringify(value)
}
