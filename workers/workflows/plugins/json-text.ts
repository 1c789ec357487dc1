import { TaskFailure } from '../plugin.ts'
import { placeIn } from './text-place.ts'

const token =
  // biome-ignore lint/suspicious/noControlCharactersInRegex: these are what texts in JSON cannot hold
  /[ \t\n\r]*(?:([{}[\],:])|("(?:[^"\\\u0000-\u001f]|\\(?:["\\/bfnrt]|u[0-9A-Fa-f]{4}))*")|(?:-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?|true|false|null)(?![\w.+-]))/y
/** Whether numbers may be in there that a double does not hold. */
const largeNumber = /\d{16}|\d[eE]\+?\d{3}/

/**
 * JSON as values; whole numbers that a double cannot tell from others as texts of their digits.
 *
 * @param line that the text has in a larger one
 * @throws {TaskFailure} `refused` with the place
 */
export function parsedJson(text: string, line?: number): unknown {
  try {
    return largeNumber.test(text) ? JSON.parse(text, keepDigits) : JSON.parse(text)
  } catch (error) {
    throw new TaskFailure('refused', `This is no JSON: ${told(text, line, (error as Error).message)}`, error)
  }
}

/** A value for each line that is not blank. @throws {TaskFailure} as above */
export function parsedLines(text: string): unknown[] {
  const values: unknown[] = []
  for (const [index, line] of text.split('\n').entries()) {
    if (line.trim() !== '') values.push(parsedJson(line, index + 1))
  }
  return values
}

function keepDigits(_key: string, value: unknown, { source }: { readonly source?: string } = {}): unknown {
  if (typeof value !== 'number' || source === undefined) return value
  const isWhole = Number.isInteger(value) && !/[.eE]/.test(source)
  const isExact = Number.isFinite(value) && (!isWhole || Number.isSafeInteger(value) || String(value) === source)
  return isExact ? value : source
}

function told(text: string, line: number | undefined, message: string): string {
  const offset = mistakeIn(text)
  if (offset === null) return message
  const what = offset >= text.length ? 'it ends too early' : `unexpected ${JSON.stringify(text[offset])}`
  return what + (line === undefined ? placeIn(text, offset) : ` at line ${line}, column ${offset + 1}`)
}

type Expected = 'value' | 'first value' | 'key' | 'first key' | 'colon' | 'comma'

/** Where a text ceases to be JSON; null when that cannot be said. */
function mistakeIn(text: string): number | null {
  const open: string[] = []
  let expected: Expected = 'value'
  let at = 0
  try {
    for (;;) {
      token.lastIndex = at
      const blanks = /[ \t\n\r]*/y
      blanks.lastIndex = at
      const begin = at + (blanks.exec(text)?.[0].length ?? 0)
      const [all, sign = '', string] = token.exec(text) ?? []
      if (all === undefined) return begin
      const next = after(expected, sign, string !== undefined, open)
      if (next === null) return begin
      expected = next
      at += all.length
      if (expected === 'comma' && open.length === 0) {
        blanks.lastIndex = at
        return at + (blanks.exec(text)?.[0].length ?? 0)
      }
    }
  } catch {
    return null
  }
}

/** What is expected after a token; null when the token itself was not. */
function after(expected: Expected, sign: string, isString: boolean, open: string[]): Expected | null {
  if (sign === '}' || sign === ']') {
    const isWanted = expected === 'comma' || expected === (sign === '}' ? 'first key' : 'first value')
    return isWanted && open.pop() === (sign === '}' ? '{' : '[') ? 'comma' : null
  }
  if (expected === 'colon') return sign === ':' ? 'value' : null
  if (expected === 'comma') {
    if (sign !== ',') return null
    return open.at(-1) === '{' ? 'key' : 'value'
  }
  if (expected === 'key' || expected === 'first key') return isString ? 'colon' : null
  if (sign === '') return 'comma'
  if (sign !== '{' && sign !== '[') return null
  open.push(sign)
  return sign === '{' ? 'first key' : 'first value'
}
