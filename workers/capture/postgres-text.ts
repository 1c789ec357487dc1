import type { Encode } from './row-event.ts'

// A value's text, as PostgreSQL prints it, becomes the JSON that `row_to_json` would make of it.

const jsonNumber = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

export const encodeText: Encode = (text) => JSON.stringify(text)

/** Numbers keep every digit; NaN and the infinities are no JSON numbers and become texts. */
export const encodeNumber: Encode = (text) => (jsonNumber.test(text) ? text : JSON.stringify(text))

export const encodeBoolean: Encode = (text) => (text === 't' ? 'true' : 'false')

/** JSON stays as it was written, on one line: line ends can only stand between its tokens. */
export const encodeJson: Encode = (text) => (/[\r\n]/.test(text) ? text.replace(/[\r\n]/g, ' ') : text)

export const encodeTimestamp: Encode = (text) => JSON.stringify(text.replace(' ', 'T'))

/** The session's time zone is UTC, so that the offset has no minutes of its own. */
export const encodeTimestampTz: Encode = (text) =>
  JSON.stringify(text.replace(' ', 'T').replace(/([+-]\d\d)( BC)?$/, '$1:00$2'))

/** `{1,NULL,"a b"}`, nested, with or without bounds in front. */
export function encodeArray(element: Encode, delimiter: string): Encode {
  return (text) => {
    const start = text.startsWith('[') ? text.indexOf('=') + 1 : 0
    // int2vector and oidvector are arrays without braces.
    if (text[start] !== '{') return text === '' ? '[]' : `[${text.split(' ').map(element).join(',')}]`
    let json = ''
    let at = start
    let first = true
    while (at < text.length) {
      const character = text[at]
      if (character === '{' || character === '"' || (character !== '}' && character !== delimiter)) {
        if (!first) json += ','
        first = true
      }
      if (character === '{') {
        json += '['
        at += 1
        continue
      }
      if (character === '}') {
        json += ']'
        at += 1
      } else if (character === delimiter) at += 1
      else {
        const item = character === '"' ? quotedItem(text, at, false) : bareItem(text, at, delimiter)
        json += character !== '"' && item.value === 'NULL' ? 'null' : element(item.value)
        at = item.end
      }
      first = false
    }
    return json
  }
}

export interface AttributeEncoder {
  /** The attribute's name and a colon, as JSON. */
  readonly head: string
  readonly encode: Encode
}

/** `(a,,"b c")`: nothing between commas is NULL. A text that does not fit the attributes stays a text. */
export function encodeComposite(attributes: readonly AttributeEncoder[]): Encode {
  return (text) => {
    const fields = compositeFields(text)
    if (fields === null || fields.length !== attributes.length) return JSON.stringify(text)
    const members = attributes.map(({ head, encode }, index) => {
      const field = fields[index] ?? null
      return head + (field === null ? 'null' : encode(field))
    })
    return `{${members.join(',')}}`
  }
}

function compositeFields(text: string): (string | null)[] | null {
  if (!text.startsWith('(') || !text.endsWith(')')) return null
  if (text === '()') return [null]
  const fields: (string | null)[] = []
  let at = 1
  for (;;) {
    const character = text[at]
    if (character === ',' || character === ')') fields.push(null)
    else {
      const item = compositeItem(text, at)
      fields.push(item.value)
      at = item.end
    }
    if (text[at] !== ',') return fields
    at += 1
  }
}

interface Item {
  readonly value: string
  readonly end: number
}

/** Quoted and bare parts of one field can follow each other. */
function compositeItem(text: string, start: number): Item {
  let value = ''
  let at = start
  while (at < text.length && text[at] !== ',' && text[at] !== ')') {
    if (text[at] === '"') {
      const quoted = quotedItem(text, at, true)
      value += quoted.value
      at = quoted.end
    } else {
      if (text[at] === '\\') at += 1
      value += text[at] ?? ''
      at += 1
    }
  }
  return { value, end: at }
}

function quotedItem(text: string, start: number, doubledQuotes: boolean): Item {
  let value = ''
  let at = start + 1
  for (;;) {
    let end = at
    while (end < text.length && text[end] !== '"' && text[end] !== '\\') end += 1
    value += text.slice(at, end)
    if (end >= text.length) return { value, end }
    if (text[end] === '\\') {
      value += text[end + 1] ?? ''
      at = end + 2
    } else if (doubledQuotes && text[end + 1] === '"') {
      value += '"'
      at = end + 2
    } else return { value, end: end + 1 }
  }
}

function bareItem(text: string, start: number, delimiter: string): Item {
  let value = ''
  let at = start
  while (at < text.length && text[at] !== delimiter && text[at] !== '}') {
    if (text[at] === '\\') at += 1
    value += text[at] ?? ''
    at += 1
  }
  return { value, end: at }
}
