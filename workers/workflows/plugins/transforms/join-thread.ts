import { TaskFailure } from '../../plugin.ts'
import { keyOf } from '../list-properties.ts'

interface Asked {
  readonly leftKeys: readonly unknown[]
  readonly rightKeys: readonly unknown[]
  readonly type: 'inner' | 'left' | 'right' | 'full' | 'semi' | 'anti'
  readonly maxItems: number
}

/** Where one side has no item. */
const nobody = 0xffff_ffff

/** Places of items that belong together, two at a time: of the first list, then of the second. */
export function pairs({ leftKeys, rightKeys, type, maxItems }: Asked) {
  const byKey = new Map<string, number[]>()
  for (const [place, value] of rightKeys.entries()) {
    if (isNothing(value)) continue
    const key = keyOf(value)
    const places = byKey.get(key)
    if (places === undefined) byKey.set(key, [place])
    else places.push(place)
  }
  const found: number[] = []
  const put = (left: number, right: number) => {
    if (found.length >= maxItems * 2) throw new TaskFailure('refused', `The join gives more than ${maxItems} items`)
    found.push(left, right)
  }
  const met = new Uint8Array(rightKeys.length)
  let unmatchedLeft = 0
  for (const [place, value] of leftKeys.entries()) {
    const places = (isNothing(value) ? undefined : byKey.get(keyOf(value))) ?? []
    if (places.length === 0) unmatchedLeft += 1
    for (const other of places) met[other] = 1
    if (type === 'semi' || type === 'anti') {
      if (places.length > 0 === (type === 'semi')) put(place, nobody)
    } else if (places.length > 0) for (const other of places) put(place, other)
    else if (type === 'left' || type === 'full') put(place, nobody)
  }
  if (type === 'right' || type === 'full')
    for (const [place, isMet] of met.entries()) if (isMet === 0) put(nobody, place)
  const unmatchedRight = met.reduce((count, isMet) => count + 1 - isMet, 0)
  return { places: Uint32Array.from(found), unmatchedLeft, unmatchedRight }
}

/** A key of several parts is nothing when one of them is. */
function isNothing(key: unknown): boolean {
  return key === null || (Array.isArray(key) && key.includes(null))
}
