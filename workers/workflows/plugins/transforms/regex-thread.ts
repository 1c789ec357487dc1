import { type Matcher, RE2JS, RE2JSException } from 're2js'
import { TaskFailure } from '../../plugin.ts'

interface Asked {
  readonly text: string
  readonly pattern: string
  readonly flags: string
  readonly limit: number
}

interface Found {
  readonly match: string
  readonly index: number
  readonly groups: (string | null)[]
  readonly named: Record<string, string | null>
}

const maxTextLength = 16 * 1024 ** 2

/** Source: https://github.com/google/re2/wiki/Syntax */
function compiled(pattern: string, flags: string, place = 'properties.pattern'): RE2JS {
  const wanted = { i: RE2JS.CASE_INSENSITIVE, m: RE2JS.MULTILINE, s: RE2JS.DOTALL }
  try {
    return RE2JS.compile(
      pattern,
      [...flags].reduce((all, flag) => all | wanted[flag as 'i'], 0),
    )
  } catch (error) {
    if (!(error instanceof RE2JSException)) throw error
    throw new TaskFailure('refused', `${place} is no pattern that RE2 takes: ${error.message}`, error)
  }
}

export function test({ text, pattern, flags }: Asked) {
  const found = compiled(pattern, flags).matcher(text).find()
  return { found, count: found ? 1 : 0 }
}

export function match(asked: Asked) {
  const [first = null] = matchesOf({ ...asked, limit: 1 })
  return { found: first !== null, match: first, count: first === null ? 0 : 1 }
}

export function matchAll(asked: Asked) {
  const matches = [...matchesOf(asked)]
  return { found: matches.length > 0, matches, count: matches.length }
}

export function replace({ replacement, ...asked }: Asked & { readonly replacement: string }) {
  const { text } = asked
  const pieces: string[] = []
  let end = 0
  let length = 0
  let count = 0
  for (const found of matchesOf(asked)) {
    const put = filledIn(replacement, found)
    pieces.push(text.slice(end, found.index), put)
    end = found.index + found.match.length
    length += put.length
    count += 1
    if (length > maxTextLength) throw new TaskFailure('refused', 'The text with replacements is larger than 16 MB')
  }
  return { found: count > 0, text: pieces.join('') + text.slice(end), count }
}

export function split(asked: Asked) {
  const { text, limit } = asked
  const parts: string[] = []
  let end = 0
  for (const { index, match } of matchesOf({ ...asked, limit: limit - 1 })) {
    const isEmpty = match === '' && (index === 0 || index === text.length)
    if (isEmpty) continue
    parts.push(text.slice(end, index))
    end = index + match.length
  }
  parts.push(text.slice(end))
  return { found: parts.length > 1, parts, count: parts.length }
}

function* matchesOf({ text, pattern, flags, limit }: Asked): Generator<Found> {
  const expression = compiled(pattern, flags)
  const names = expression.namedGroups()
  const matcher = expression.matcher(text)
  for (let count = 0; count < limit && matcher.find(); count++) yield foundBy(matcher, names)
}

function foundBy(matcher: Matcher, names: Record<string, number>): Found {
  const groups = Array.from({ length: matcher.groupCount() }, (_, group) => matcher.group(group + 1))
  return {
    match: matcher.group() ?? '',
    index: matcher.start(),
    groups,
    named: Object.fromEntries(Object.entries(names).map(([name, group]) => [name, groups[group - 1] ?? null])),
  }
}

function filledIn(replacement: string, { match, groups, named }: Found): string {
  return replacement.replace(/\$(?:(\$|&)|(\d{1,2})|<([A-Za-z_]\w*)>)/g, (all, sign, digits, name) => {
    if (sign !== undefined) return sign === '$' ? '$' : match
    if (name !== undefined) {
      if (Object.hasOwn(named, name)) return named[name] ?? ''
      throw new TaskFailure('refused', `properties.replacement: there is no group ${name}`)
    }
    const group = Number(digits)
    if (group === 0) return match
    if (group <= groups.length) return groups[group - 1] ?? ''
    throw new TaskFailure('refused', `properties.replacement: there is no group ${all.slice(1)}`)
  })
}
