/**
 * About how many bytes a value has as JSON, counting what is there several times as often; what it holds of bytes is left out. Stops
 * counting once it is more than `most`.
 */
export function valueSize(value: unknown, most: number): number {
  let size = 0
  const open: unknown[] = [value]
  while (open.length > 0 && size <= most) {
    const each = open.pop()
    size += typeof each === 'string' ? each.length + 3 : 6
    if (each === null || typeof each !== 'object' || ArrayBuffer.isView(each)) continue
    if (Array.isArray(each)) {
      // One by one would fill the stack with a list that is too large anyway.
      if (each.length * 2 > most - size) return most + 1
      for (const inner of each) open.push(inner)
    } else {
      for (const [key, inner] of Object.entries(each)) {
        size += key.length + 4
        open.push(inner)
      }
    }
  }
  return size
}
