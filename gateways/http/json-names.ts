const maxLevels = 1_000

/** What is wrong with the names of a text that is JSON: parsers differ in which of two values of one name counts. Null: nothing. */
export function namesMistake(json: string): { readonly field: string; readonly reason: string } | null {
  const open: Set<string>[] = []
  for (let at = 0; at < json.length; at++) {
    const sign = json[at]
    if (sign === '}') open.pop()
    if (sign === '{') {
      open.push(new Set())
      if (open.length > maxLevels) return { field: 'body', reason: `has more than ${maxLevels} levels` }
    }
    if (sign !== '"') continue
    const end = textEnd(json, at)
    if (isName(json, end)) {
      const name = JSON.parse(json.slice(at, end)) as string
      const names = open.at(-1)!
      if (names.has(name)) return { field: name.slice(0, 100), reason: 'is given twice' }
      names.add(name)
    }
    at = end - 1
  }
  return null
}

/** Behind the closing quote. */
function textEnd(json: string, start: number): number {
  let at = start + 1
  while (json[at] !== '"') at += json[at] === '\\' ? 2 : 1
  return at + 1
}

function isName(json: string, textEnd: number): boolean {
  let at = textEnd
  while (json[at] === ' ' || json[at] === '\n' || json[at] === '\r' || json[at] === '\t') at++
  return json[at] === ':'
}
