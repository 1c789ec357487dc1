/** ` at line 3, column 5`, both from 1. */
export function placeIn(text: string, offset: number): string {
  const before = text.slice(0, offset)
  const line = before.split('\n').length
  return ` at line ${line}, column ${offset - before.lastIndexOf('\n')}`
}
