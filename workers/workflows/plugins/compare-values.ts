/** Values of one kind go before those of the next; what is no such value comes after all of them, by its JSON. */
const kinds = ['boolean', 'number', 'string', 'object']

/** Below zero when the first goes before the second: by kind, then by size, texts by their code points or as told. */
export function compareValues(one: unknown, other: unknown, texts = byCodePoint): number {
  const kind = kinds.indexOf(typeof one)
  const otherKind = kinds.indexOf(typeof other)
  if (kind !== otherKind) return kind - otherKind
  if (typeof one === 'string') return texts(one, other as string)
  if (typeof one === 'object') return byCodePoint(JSON.stringify(one), JSON.stringify(other))
  return Number(one) - Number(other)
}

function byCodePoint(one: string, other: string): number {
  return one < other ? -1 : one > other ? 1 : 0
}
