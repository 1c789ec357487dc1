/*
 * The pieces of JSON text as they were written: numbers keep their digits. The text is known to be JSON.
 */

/** The members of an object, each value's own text. */
export function jsonMembers(text: string): Map<string, string> {
  const members = new Map<string, string>()
  const parts = partsOf(text)
  for (let index = 0; index + 1 < parts.length; index += 2) members.set(JSON.parse(parts[index]!), parts[index + 1]!)
  return members
}

/** The text of each element of an array. */
export function jsonElements(text: string): string[] {
  return partsOf(text)
}

/** What stands between the commas and colons of the outermost object or array. */
function partsOf(text: string): string[] {
  const parts: string[] = []
  let depth = 0
  let from = 0
  for (let at = 0; at < text.length; at++) {
    const character = text[at]!
    if (character === '"') at = endOfText(text, at)
    else if (character === '{' || character === '[') {
      depth += 1
      if (depth === 1) from = at + 1
    } else if (character === '}' || character === ']') {
      depth -= 1
      if (depth === 0) parts.push(text.slice(from, at).trim())
    } else if (depth === 1 && (character === ',' || character === ':')) {
      parts.push(text.slice(from, at).trim())
      from = at + 1
    }
  }
  return parts.length === 1 && parts[0] === '' ? [] : parts
}

function endOfText(text: string, start: number): number {
  let at = start + 1
  while (text[at] !== '"') at += text[at] === '\\' ? 2 : 1
  return at
}
