import { distance as levenshtein } from 'fastest-levenshtein'
import { TaskFailure } from '../../plugin.ts'
import type { StringInput } from './string-properties.ts'

type Input = StringInput & { readonly text: string }

const maxCompared = 20_000
const maxMade = 16 * 1024 ** 2

export function changed(input: Input): string | number | boolean | string[] {
  const { operation } = input
  if (operation === 'qr-code') throw new TaskFailure('refused', 'A QR code is no text')
  return changes[operation](input)
}

const changes: {
  readonly [operation in Exclude<StringInput['operation'], 'qr-code'>]: (
    input: Input,
  ) => string | number | boolean | string[]
} = {
  upper: ({ text, locale }) => inLocale(locale, () => text.toLocaleUpperCase(locale)),
  lower: ({ text, locale }) => inLocale(locale, () => text.toLocaleLowerCase(locale)),
  capitalize: ({ text, locale }) => capitalized(text, locale),
  title: ({ text, locale }) =>
    text.replace(/[\p{L}\p{M}\p{N}'’]+/gu, (word) => capitalized(lowered(word, locale), locale)),
  camel: ({ text, locale }) => {
    const [first = '', ...rest] = wordsOf(text)
    return lowered(first, locale) + pascal(rest, locale)
  },
  pascal: ({ text, locale }) => pascal(wordsOf(text), locale),
  snake: ({ text, locale }) => lowered(wordsOf(text).join('_'), locale),
  kebab: ({ text, locale }) => lowered(wordsOf(text).join('-'), locale),
  constant: ({ text, locale }) => inLocale(locale, () => wordsOf(text).join('_').toLocaleUpperCase(locale)),
  slug: ({ text }) => slugOf(text),
  trim: ({ text }) => text.trim(),
  'trim-start': ({ text }) => text.trimStart(),
  'trim-end': ({ text }) => text.trimEnd(),
  'pad-start': (input) => padding(input) + input.text,
  'pad-end': (input) => input.text + padding(input),
  repeat: ({ text, times }) => {
    if (text.length * times > maxMade)
      throw new TaskFailure('refused', 'properties.times: the text would be larger than 16 MB')
    return text.repeat(times)
  },
  reverse: ({ text }) => charactersOf(text).reverse().join(''),
  length: ({ text }) => charactersOf(text).length,
  truncate: truncated,
  substring: ({ text, start, end }) => charactersOf(text).slice(start, end).join(''),
  split: ({ text, separator }) => (separator === '' ? charactersOf(text) : text.split(separator)),
  lines: ({ text }) => text.replace(/\r?\n$/, '').split(/\r?\n/),
  words: ({ text, locale }) => {
    const segments = inLocale(locale, () => new Intl.Segmenter(locale, { granularity: 'word' }).segment(text))
    return [...segments].filter(({ isWordLike }) => isWordLike).map(({ segment }) => segment)
  },
  join: ({ items = [], separator }) => {
    return items
      .map((item) => (typeof item === 'string' ? item : item === null ? '' : JSON.stringify(item)))
      .join(separator)
  },
  replace: ({ text, replacement, ...input }) => partsAround({ text, ...input }).join(replacement),
  contains: (input) => partsAround(input).length > 1,
  'starts-with': ({ text, search = '', ignoreCase }) => folded(text, ignoreCase).startsWith(folded(search, ignoreCase)),
  'ends-with': ({ text, search = '', ignoreCase }) => folded(text, ignoreCase).endsWith(folded(search, ignoreCase)),
  count: (input) => partsAround(input).length - 1,
  distance: distanceOf,
  similarity: (input) => {
    const longest = Math.max(input.text.length, input.other!.length)
    return longest === 0 ? 1 : 1 - distanceOf(input) / longest
  },
  'escape-html': ({ text }) => text.replace(/[&<>"']/g, (character) => `&${entities.get(character)};`),
  'unescape-html': ({ text }) => unescaped(text),
  normalize: ({ text }) => text.normalize('NFC'),
}

function inLocale<Result>(locale: string, work: () => Result): Result {
  try {
    return work()
  } catch (cause) {
    if (cause instanceof TaskFailure) throw cause
    throw new TaskFailure('refused', `properties.locale is no language tag: ${locale}`, cause)
  }
}

function lowered(text: string, locale: string): string {
  return inLocale(locale, () => text.toLocaleLowerCase(locale))
}

function capitalized(text: string, locale: string): string {
  const [first = ''] = text
  return inLocale(locale, () => first.toLocaleUpperCase(locale)) + text.slice(first.length)
}

/** `userID2fa-name` is user, ID, 2, fa, name. */
function wordsOf(text: string): string[] {
  return text.match(/\p{Lu}+(?!\p{Ll})|\p{Lu}?[\p{Ll}\p{M}\p{Lo}]+|\p{N}+/gu) ?? []
}

function pascal(words: readonly string[], locale: string): string {
  return words.map((word) => capitalized(lowered(word, locale), locale)).join('')
}

const spelled: Readonly<Record<string, string>> = {
  ß: 'ss',
  æ: 'ae',
  œ: 'oe',
  ø: 'o',
  đ: 'd',
  ð: 'd',
  ł: 'l',
  þ: 'th',
  ı: 'i',
  '&': ' and ',
}

function slugOf(text: string): string {
  return text
    .toLowerCase()
    .replace(/[ßæœøđðłþı&]/g, (letter) => spelled[letter]!)
    .normalize('NFKD')
    .replace(/\p{M}+/gu, '')
    .replace(/[^a-z0-9]+/g, '-')
    .replace(/^-|-$/g, '')
}

function charactersOf(text: string): string[] {
  return Array.from(new Intl.Segmenter('en', { granularity: 'grapheme' }).segment(text), ({ segment }) => segment)
}

function padding({ text, length = 0, fill }: Input): string {
  const missing = length - charactersOf(text).length
  if (missing <= 0) return ''
  const characters = charactersOf(fill)
  return Array.from({ length: missing }, (_, index) => characters[index % characters.length]).join('')
}

function truncated({ text, length = 0, ellipsis }: Input): string {
  const characters = charactersOf(text)
  if (characters.length <= length) return text
  const end = charactersOf(ellipsis)
  return [...characters.slice(0, Math.max(length - end.length, 0)), ...end].slice(0, length).join('')
}

/** The parts of a text around what is looked for. */
function partsAround({ text, search = '', ignoreCase }: Pick<Input, 'text' | 'search' | 'ignoreCase'>): string[] {
  if (!ignoreCase) return text.split(search)
  const quoted = search.replace(/[\\^$.*+?()[\]{}|/-]/g, '\\$&')
  return text.split(new RegExp(quoted, 'iu'))
}

function folded(text: string, ignoreCase: boolean): string {
  return ignoreCase ? text.toLowerCase() : text
}

function distanceOf({ text, other = '', ignoreCase }: Input): number {
  if (text.length > maxCompared || other.length > maxCompared) {
    throw new TaskFailure('refused', `Texts of more than ${maxCompared} characters are not compared`)
  }
  return levenshtein(folded(text, ignoreCase), folded(other, ignoreCase))
}

const entities = new Map([
  ['&', 'amp'],
  ['<', 'lt'],
  ['>', 'gt'],
  ['"', 'quot'],
  ["'", '#39'],
])
const characters = new Map([...entities].map(([character, name]) => [name, character]))

/** The five that `escape-html` makes, `&apos;`, `&nbsp;`, and those by number. */
function unescaped(text: string): string {
  return text.replace(
    /&(?:#(\d{1,7})|#[xX]([0-9A-Fa-f]{1,6})|(amp|lt|gt|quot|apos|nbsp));/g,
    (all, digits, hex, name) => {
      if (name !== undefined) return name === 'apos' ? "'" : name === 'nbsp' ? '\u00a0' : characters.get(name)!
      const code = digits === undefined ? Number.parseInt(hex, 16) : Number(digits)
      const isCharacter = code > 0 && code <= 0x10_ffff && (code < 0xd800 || code > 0xdfff)
      return isCharacter ? String.fromCodePoint(code) : all
    },
  )
}
