/*
 * Reads JSON without turning it into values: a change's numbers keep all their digits, and what is handed on is the text the
 * database wrote. The texts come from our own capture, so that they are well-formed.
 */

/** The members of an object, by name, as the texts of their values. */
export function rawMembers(json: string): Map<string, string> {
  const members = new Map<string, string>()
  let at = skipSpace(json, 1)
  while (at < json.length && json[at] !== '}') {
    const nameEnd = valueEnd(json, at)
    const name = JSON.parse(json.slice(at, nameEnd)) as string
    const start = skipSpace(json, skipSpace(json, nameEnd) + 1)
    const end = valueEnd(json, start)
    members.set(name, json.slice(start, end))
    at = skipSpace(json, end)
    if (json[at] === ',') at = skipSpace(json, at + 1)
  }
  return members
}

/** The elements of an array, as texts. */
export function rawElements(json: string): string[] {
  const elements: string[] = []
  let at = skipSpace(json, 1)
  while (at < json.length && json[at] !== ']') {
    const end = valueEnd(json, at)
    elements.push(json.slice(at, end))
    at = skipSpace(json, end)
    if (json[at] === ',') at = skipSpace(json, at + 1)
  }
  return elements
}

/** An object of some of the members, in their order. */
export function writeMembers(members: ReadonlyMap<string, string>, keep: (name: string) => boolean): string {
  let json = ''
  for (const [name, value] of members) {
    if (keep(name)) json += `${json === '' ? '' : ','}${JSON.stringify(name)}:${value}`
  }
  return `{${json}}`
}

function skipSpace(json: string, start: number): number {
  let at = start
  while (json[at] === ' ' || json[at] === '\n' || json[at] === '\t' || json[at] === '\r') at += 1
  return at
}

function valueEnd(json: string, start: number): number {
  const first = json[start]
  if (first === '"') return stringEnd(json, start)
  if (first !== '{' && first !== '[') return scalarEnd(json, start)
  let depth = 0
  let at = start
  while (at < json.length) {
    const character = json[at]
    if (character === '"') {
      at = stringEnd(json, at)
      continue
    }
    if (character === '{' || character === '[') depth += 1
    else if ((character === '}' || character === ']') && --depth === 0) return at + 1
    at += 1
  }
  return at
}

function stringEnd(json: string, start: number): number {
  let at = start + 1
  for (;;) {
    const quote = json.indexOf('"', at)
    if (quote < 0) return json.length
    let backslashes = 0
    while (json[quote - 1 - backslashes] === '\\') backslashes += 1
    if (backslashes % 2 === 0) return quote + 1
    at = quote + 1
  }
}

function scalarEnd(json: string, start: number): number {
  let at = start
  while (at < json.length && !',]} \n\t\r'.includes(json[at]!)) at += 1
  return at
}
