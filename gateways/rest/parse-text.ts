import type { ErrorCode } from '../../schemas/errors.ts'
import { Rejected } from '../../schemas/failure.ts'
import { hinted, shown } from '../data/suggestion.ts'

/** A parameter of the URL while it is read: its errors carry one code and name the parameter. */
export interface Place {
  readonly parameter: string
  readonly code: ErrorCode
}

export function refuse({ parameter, code }: Place, reason: string, hint?: string): never {
  throw new Rejected(code, `${parameter}: ${reason}`, { details: { field: parameter, reason }, ...hinted(hint) })
}

/**
 * Cuts at the commas that stand outside of quotes and brackets. Brackets of all kinds count alike, so that `[1,10)` is one
 * piece; in quotes a backslash takes the next character as it is.
 */
export function splitList(text: string, place: Place): string[] {
  const pieces: string[] = []
  let depth = 0
  let start = 0
  let inQuotes = false
  for (let at = 0; at < text.length; at++) {
    const character = text[at]!
    if (inQuotes) {
      if (character === '\\') at++
      else if (character === '"') inQuotes = false
    } else if (character === '"') inQuotes = true
    else if (character === '(' || character === '[' || character === '{') depth++
    else if (character === ')' || character === ']' || character === '}') {
      depth--
      if (depth < 0) refuse(place, `${shown(character)} closes nothing in ${shown(text)}`, quoteHint)
    } else if (character === ',' && depth === 0) {
      pieces.push(text.slice(start, at))
      start = at + 1
    }
  }
  if (inQuotes) refuse(place, `a quote is not closed in ${shown(text)}`, quoteHint)
  if (depth > 0) refuse(place, `a bracket is not closed in ${shown(text)}`, quoteHint)
  pieces.push(text.slice(start))
  return pieces
}

const quoteHint = 'values with commas, brackets or quotes go in double quotes, with \\" for a quote'

/** What stands between the outer parentheses. */
export function inParentheses(text: string, place: Place): string {
  const trimmed = text.trim()
  if (!trimmed.startsWith('(') || !trimmed.endsWith(')'))
    refuse(place, `expected a list in parentheses, not ${shown(text)}`)
  return trimmed.slice(1, -1)
}

/** A text in double quotes without them and its escapes; any other text as it is. */
export function unquoted(text: string, place: Place): string {
  if (!text.startsWith('"')) return text
  const { name, rest } = quotedName(text, place)
  if (rest !== '') refuse(place, `unexpected ${shown(rest)} after the closing quote`)
  return name
}

/** The name at the start, up to one of the stop characters or the end; a name in double quotes may hold them. */
export function leadingName(
  text: string,
  stops: string,
  place: Place,
): { readonly name: string; readonly rest: string } {
  if (text.startsWith('"')) return quotedName(text, place)
  let end = 0
  while (end < text.length && !stops.includes(text[end]!)) end++
  return { name: text.slice(0, end), rest: text.slice(end) }
}

function quotedName(text: string, place: Place): { readonly name: string; readonly rest: string } {
  let name = ''
  for (let at = 1; at < text.length; at++) {
    const character = text[at]!
    if (character === '"') return { name, rest: text.slice(at + 1) }
    if (character === '\\') at++
    name += text[at] ?? ''
  }
  return refuse(place, `a quote is not closed in ${shown(text)}`)
}
