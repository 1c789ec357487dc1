import { DOMException } from './dom-exception.ts'
import { ownFrames } from './failure.ts'
import { bytesOf, getPrototypeOf, isArrayBuffer, typedArrayName } from './intrinsics.ts'

/** Values as text, like Node's util.inspect for what is common in a console. */
const MAX_ITEMS = 100
const MAX_DEPTH = 2
const MAX_TEXT = 10_000
const LINE = 72

interface Walk {
  readonly path: object[]
  circular: object | null
  budget: number
}

export const inspect = (value: unknown, depth = MAX_DEPTH): string => {
  const walk: Walk = { path: [], circular: null, budget: 20_000 }
  try {
    return show(value, walk, depth)
  } catch {
    return '[a value that cannot be shown]'
  }
}

function show(value: unknown, walk: Walk, depth: number): string {
  switch (typeof value) {
    case 'string':
      return quoted(value)
    case 'bigint':
      return `${value}n`
    case 'number':
      return Object.is(value, -0) ? '-0' : `${value}`
    case 'symbol':
      return value.toString()
    case 'function':
      return functionText(value, walk, depth)
    case 'object':
      return value === null ? 'null' : objectText(value, walk, depth)
    default:
      return `${value as boolean | undefined}`
  }
}

function quoted(given: string): string {
  const text =
    given.length > MAX_TEXT ? `${given.slice(0, MAX_TEXT)}... ${given.length - MAX_TEXT} more characters` : given
  const mark = !text.includes("'") ? "'" : !text.includes('"') ? '"' : !text.includes('`') ? '`' : "'"
  const escapes: Record<string, string> = {
    '\n': '\\n',
    '\t': '\\t',
    '\r': '\\r',
    '\b': '\\b',
    '\f': '\\f',
    '\\': '\\\\',
  }
  // biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what is escaped
  const body = text.replace(/[\x00-\x1f\x7f\\']/g, (one) => {
    if (one === "'") return mark === "'" ? "\\'" : one
    return escapes[one] ?? `\\x${one.charCodeAt(0).toString(16).toUpperCase().padStart(2, '0')}`
  })
  return mark + body + mark
}

function functionText(value: { name?: unknown }, walk: Walk, depth: number): string {
  const source = Function.prototype.toString.call(value)
  const named = typeof value.name === 'string' && value.name !== '' ? value.name : null
  const base = source.startsWith('class')
    ? `[class ${named ?? '(anonymous)'}]`
    : `[${constructorName(value) ?? 'Function'}${named === null ? ' (anonymous)' : `: ${named}`}]`
  return Object.keys(value).length === 0 ? base : members(value, `${base} `, [], walk, depth, ['{', '}'])
}

function constructorName(value: object): string | null {
  for (let at: object | null = value; at !== null; at = getPrototypeOf(at)) {
    const own = Object.getOwnPropertyDescriptor(at, 'constructor')
    if (typeof own?.value === 'function' && own.value.name !== '') return String(own.value.name)
  }
  return null
}

function objectText(value: object, walk: Walk, depth: number): string {
  if (walk.path.includes(value)) {
    walk.circular = value
    return '[Circular *1]'
  }
  if (--walk.budget < 0) return '[…]'
  if (value instanceof Error || value instanceof DOMException) return errorText(value, walk, depth)
  if (value instanceof Date) return Number.isNaN(value.getTime()) ? 'Invalid Date' : value.toISOString()
  if (value instanceof RegExp) return `/${value.source}/${value.flags}`
  const name = constructorName(value)
  if (depth < 0) return Array.isArray(value) ? '[Array]' : `[${name ?? 'Object: null prototype'}]`
  walk.path.push(value)
  const text = collection(value, name, walk, depth)
  walk.path.pop()
  if (walk.circular !== value) return text
  walk.circular = null
  return `<ref *1> ${text}`
}

function collection(value: object, name: string | null, walk: Walk, depth: number): string {
  if (Array.isArray(value)) {
    const shown = arrayItems(value, walk, depth)
    return members(value, name === 'Array' ? '' : `${name}(${value.length}) `, shown, walk, depth, ['[', ']'])
  }
  if (value instanceof Map) {
    const items = [...value]
      .slice(0, MAX_ITEMS)
      .map(([key, one]) => `${show(key, walk, depth - 1)} => ${show(one, walk, depth - 1)}`)
    return members(value, `${name}(${value.size}) `, more(items, value.size), walk, depth, ['{', '}'])
  }
  if (value instanceof Set) {
    const items = [...value].slice(0, MAX_ITEMS).map((one) => show(one, walk, depth - 1))
    return members(value, `${name}(${value.size}) `, more(items, value.size), walk, depth, ['{', '}'])
  }
  if (value instanceof Promise) return 'Promise { … }'
  if (value instanceof WeakMap || value instanceof WeakSet) return `${name} { <items unknown> }`
  if (value instanceof Number || value instanceof Boolean || value instanceof String)
    return `[${name}: ${show(value.valueOf(), walk, depth)}]`
  const bytes = bytesOf(value)
  if (bytes !== null) return binary(value, name, bytes)
  const iterator = Object.getOwnPropertyDescriptor(value, 'constructor') === undefined && entriesOf(value, name)
  if (iterator) {
    const items = iterator.map(([key, one]) => `${quoted(key)} => ${show(one, walk, depth - 1)}`)
    return members(value, `${name} `, items, walk, depth, ['{', '}'])
  }
  if (name === 'URL' || name === 'Blob' || name === 'File') return `${name} ${webText(value)}`
  const label = name === 'Object' ? '' : name === null ? '[Object: null prototype] ' : `${name} `
  return members(value, label, [], walk, depth, ['{', '}'])
}

function webText(value: object): string {
  const { href, size, type } = value as { href?: string; size?: number; type?: string }
  return href === undefined ? `{ size: ${size}, type: ${quoted(`${type}`)} }` : `{ href: ${quoted(href)} }`
}

/** Headers, URLSearchParams and FormData show their entries. */
function entriesOf(value: object, name: string | null): [string, unknown][] | null {
  if (name !== 'Headers' && name !== 'URLSearchParams' && name !== 'FormData') return null
  const { entries } = value as { entries?: () => Iterable<[string, unknown]> }
  return typeof entries === 'function' ? [...entries.call(value)].slice(0, MAX_ITEMS) : null
}

function arrayItems(value: unknown[], walk: Walk, depth: number): string[] {
  const items: string[] = []
  let at = 0
  for (; at < value.length && items.length < MAX_ITEMS; at++) {
    let empty = 0
    while (at < value.length && !(at in value) && empty < MAX_TEXT) {
      empty++
      at++
    }
    if (empty > 0) items.push(`<${empty} empty item${empty === 1 ? '' : 's'}>`)
    if (at < value.length && at in value) items.push(show(value[at], walk, depth - 1))
  }
  return at < value.length ? [...items, moreText(value.length - at)] : items
}

const moreText = (left: number): string => `... ${left} more item${left === 1 ? '' : 's'}`
const more = (items: string[], size: number): string[] =>
  size > items.length ? [...items, moreText(size - items.length)] : items

function binary(value: object, name: string | null, bytes: Uint8Array): string {
  const kind = typedArrayName(value)
  if (isArrayBuffer(value) || kind === undefined) {
    const hex = [...bytes.subarray(0, 50)].map((byte) => byte.toString(16).padStart(2, '0')).join(' ')
    return `${name} { [Uint8Contents]: <${hex}${bytes.length > 50 ? ' ...' : ''}>, byteLength: ${bytes.length} }`
  }
  const items = [...(value as Uint8Array).subarray(0, MAX_ITEMS)].map((one) =>
    show(one, { path: [], circular: null, budget: 1 }, 0),
  )
  const size = (value as Uint8Array).length
  return layout(`${name}(${size}) `, more(items, size), ['[', ']'])
}

function errorText(error: Error, walk: Walk, depth: number): string {
  const head =
    typeof error.stack === 'string' && error.stack !== '' ? ownFrames(error.stack) : `[${error.name}: ${error.message}]`
  walk.path.push(error)
  const extra = Object.keys(error).map((name) => member(error, name, walk, depth))
  if (Object.hasOwn(error, 'cause')) extra.push(`[cause]: ${show(error.cause, walk, depth - 1)}`)
  walk.path.pop()
  return extra.length === 0 ? head : layout(`${head} `, extra, ['{', '}'])
}

function members(
  value: object,
  label: string,
  items: string[],
  walk: Walk,
  depth: number,
  brackets: readonly [string, string],
): string {
  const all = [...items]
  const names = Reflect.ownKeys(value)
  for (const name of names) {
    if (Array.isArray(value) && typeof name === 'string' && /^\d+$/.test(name)) continue
    if (!Object.getOwnPropertyDescriptor(value, name)?.enumerable) continue
    if (all.length > MAX_ITEMS) {
      all.push('...')
      break
    }
    all.push(member(value, name, walk, depth))
  }
  return layout(label, all, brackets)
}

function member(value: object, name: string | symbol, walk: Walk, depth: number): string {
  const found = Object.getOwnPropertyDescriptor(value, name)
  const key = typeof name === 'symbol' ? `[${name.toString()}]` : /^[A-Za-z_$][\w$]*$/.test(name) ? name : quoted(name)
  if (found?.get !== undefined) return `${key}: [${found.set === undefined ? 'Getter' : 'Getter/Setter'}]`
  if (found?.set !== undefined) return `${key}: [Setter]`
  return `${key}: ${show(found?.value, walk, depth - 1)}`
}

function layout(label: string, items: readonly string[], [open, close]: readonly [string, string]): string {
  if (items.length === 0) return `${label}${open}${close}`
  const line = items.join(', ')
  if (line.length + label.length <= LINE && !line.includes('\n')) return `${label}${open} ${line} ${close}`
  return `${label}${open}\n${items.map((item) => `  ${item.replaceAll('\n', '\n  ')}`).join(',\n')}\n${close}`
}
