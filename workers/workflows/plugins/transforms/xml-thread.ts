import { XMLBuilder, XMLParser, XMLValidator } from 'fast-xml-parser'
import { TaskFailure } from '../../plugin.ts'
import { placeIn } from '../text-place.ts'
import { typed } from './table.ts'

interface Options {
  readonly attributePrefix: string
  readonly textKey: string
}

interface Parse extends Options {
  readonly text: string
  readonly types: 'text' | 'auto'
  readonly lists: readonly string[]
  readonly trim: boolean
  readonly removeNamespaces: boolean
}

interface Stringify extends Options {
  readonly value: Readonly<Record<string, unknown>>
  readonly indent: number
  readonly declaration: boolean
}

const maxDepth = 200
const unread = /<!--[\s\S]*?-->|<!\[CDATA\[[\s\S]*?\]\]>/g
const otherReference = /&(?!(?:amp|lt|gt|apos|quot|#\d{1,7}|#x[0-9A-Fa-f]{1,6});)/
const xmlName = /^[\p{L}_:][\p{L}\p{N}\p{M}_:.\-·]*$/u
/** Source: https://www.w3.org/TR/xml/#charsets */
// biome-ignore lint/suspicious/noControlCharactersInRegex: these are what XML cannot hold
const noXmlCharacter = /[\0-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]/

/** Source: https://www.w3.org/TR/xml/ */
export function parse({ text, types, lists, ...options }: Parse): unknown {
  checkText(text)
  const parser = new XMLParser({
    attributeNamePrefix: options.attributePrefix,
    // Those of numbers come with those of HTML; other names have been refused.
    htmlEntities: true,
    ignoreAttributes: false,
    ignoreDeclaration: true,
    ignorePiTags: true,
    isArray: (name, path) => lists.includes(name) || lists.includes(String(path)),
    maxNestedTags: maxDepth,
    parseAttributeValue: false,
    parseTagValue: false,
    processEntities: true,
    removeNSPrefix: options.removeNamespaces,
    textNodeName: options.textKey,
    trimValues: options.trim,
  })
  const parsed = attempt(() => parser.parse(text) as Record<string, unknown>)
  const roots = Object.values(parsed).flat()
  if (roots.length !== 1) throw new TaskFailure('refused', `This is no XML: it has ${roots.length} root elements`)
  return types === 'auto' ? withTypes(parsed) : parsed
}

function checkText(text: string): void {
  const place = (offset: number) => placeIn(text, offset)
  const read = text.replace(unread, (part) => part.replace(/[^\n]/g, ' '))
  const type = /<!DOCTYPE[^>[]*\[/i.exec(read)
  if (type !== null) {
    throw new TaskFailure('refused', `Declarations in a document type are not read${place(type.index)}`)
  }
  const character = noXmlCharacter.exec(text)
  if (character !== null) throw new TaskFailure('refused', `A character that XML cannot hold${place(character.index)}`)
  const reference = otherReference.exec(read)
  if (reference !== null) throw new TaskFailure('refused', `A & that is no reference${place(reference.index)}`)
  const valid = attempt(() => XMLValidator.validate(text))
  if (valid === true) return
  const { msg, line, col } = valid.err
  const column = Number.isInteger(col) ? `, column ${col}` : ''
  throw new TaskFailure('refused', `This is no XML: ${msg.replace(/\.$/, '')} at line ${line}${column}`)
}

function attempt<Result>(work: () => Result): Result {
  try {
    return work()
  } catch (error) {
    throw new TaskFailure('refused', `This is no XML that can be read: ${(error as Error).message}`, error)
  }
}

function withTypes(value: unknown): unknown {
  if (typeof value === 'string') return typed(value)
  if (Array.isArray(value)) return value.map(withTypes)
  if (value === null || typeof value !== 'object') return value
  return Object.fromEntries(Object.entries(value).map(([key, each]) => [key, withTypes(each)]))
}

export function stringify({ value, indent, declaration, ...options }: Stringify): string {
  const [root, ...others] = Object.entries(value)
  if (root === undefined || others.length > 0 || Array.isArray(root[1])) {
    throw new TaskFailure('refused', 'properties.value needs exactly one key: the root element')
  }
  const builder = new XMLBuilder({
    attributeNamePrefix: options.attributePrefix,
    format: indent > 0,
    ignoreAttributes: false,
    indentBy: ' '.repeat(indent),
    maxNestedTags: maxDepth + 1,
    suppressBooleanAttributes: false,
    suppressEmptyNode: true,
    textNodeName: options.textKey,
  })
  const built = builder.build(writable(value, options, 'properties.value')) as string
  return `${declaration ? '<?xml version="1.0" encoding="UTF-8"?>\n' : ''}${built}`
}

/** @throws {TaskFailure} `refused` for what would not be well-formed */
function writable(value: unknown, options: Options, place: string, depth = 0): unknown {
  if (depth > maxDepth) throw new TaskFailure('refused', `properties.value nests deeper than ${maxDepth}`)
  if (value === null || value === undefined) return ''
  if (typeof value !== 'object') {
    if (!noXmlCharacter.test(String(value))) return String(value)
    throw new TaskFailure('refused', `${place} has a character that XML cannot hold`)
  }
  if (Array.isArray(value)) {
    return value.map((each, index) => {
      if (Array.isArray(each)) throw new TaskFailure('refused', `${place}[${index}] is a list within a list`)
      return writable(each, options, `${place}[${index}]`, depth + 1)
    })
  }
  const entries = Object.entries(value).map(([key, each]) => {
    const isAttribute = key.startsWith(options.attributePrefix)
    const name = isAttribute ? key.slice(options.attributePrefix.length) : key
    if (key !== options.textKey && !xmlName.test(name)) {
      throw new TaskFailure('refused', `${place}: ${JSON.stringify(name)} is no name in XML`)
    }
    if ((isAttribute || key === options.textKey) && typeof each === 'object' && each !== null) {
      throw new TaskFailure('refused', `${place}.${key} is neither a text nor a number`)
    }
    return [key, writable(each, options, `${place}.${key}`, depth + 1)]
  })
  return Object.fromEntries(entries)
}
