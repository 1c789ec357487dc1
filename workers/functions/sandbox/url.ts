// biome-ignore-all lint/complexity/noArguments: Web IDL counts arguments, undefined ones too
import { parseForm, serialiseForm } from './form-encoding.ts'
import { ask } from './host.ts'
import { jsonStringify, split, toText, toWellFormed } from './intrinsics.ts'

/** A USVString argument. */
export const scalarText = (value: unknown): string => toWellFormed(toText(value))

const HREF = 0
const ORIGIN = 1
const PROTOCOL = 2
const USERNAME = 3
const PASSWORD = 4
const HOST = 5
const HOSTNAME = 6
const PORT = 7
const PATHNAME = 8
const SEARCH = 9
const HASH = 10

let follow: (params: URLSearchParams, changed: (query: string) => void) => void
let refill: (params: URLSearchParams, query: string) => void

function parse(url: unknown, base: unknown): string[] {
  return split(ask('url-parse', jsonStringify([scalarText(url), base === undefined ? null : scalarText(base)])), '\n')
}

/** The host parses and serialises; the parts are kept here. */
export class URL {
  #parts: string[]
  #params: URLSearchParams | null = null
  constructor(url: unknown, base?: unknown) {
    if (arguments.length === 0) throw new TypeError('URL needs a url')
    this.#parts = parse(url, base)
  }
  static canParse(url: unknown, base?: unknown): boolean {
    return URL.parse(url, base) !== null
  }
  static parse(url: unknown, base?: unknown): URL | null {
    try {
      return new URL(url, base)
    } catch {
      return null
    }
  }
  #set(part: string, value: unknown): void {
    this.#parts = split(ask('url-set', jsonStringify([this.#parts[HREF], part, scalarText(value)])), '\n')
    if (this.#params !== null && (part === 'href' || part === 'search')) refill(this.#params, this.#query())
  }
  #query(): string {
    return this.#parts[SEARCH]!.slice(1)
  }
  get href(): string {
    return this.#parts[HREF]!
  }
  set href(value: unknown) {
    this.#set('href', value)
  }
  get origin(): string {
    return this.#parts[ORIGIN]!
  }
  get protocol(): string {
    return this.#parts[PROTOCOL]!
  }
  set protocol(value: unknown) {
    this.#set('protocol', value)
  }
  get username(): string {
    return this.#parts[USERNAME]!
  }
  set username(value: unknown) {
    this.#set('username', value)
  }
  get password(): string {
    return this.#parts[PASSWORD]!
  }
  set password(value: unknown) {
    this.#set('password', value)
  }
  get host(): string {
    return this.#parts[HOST]!
  }
  set host(value: unknown) {
    this.#set('host', value)
  }
  get hostname(): string {
    return this.#parts[HOSTNAME]!
  }
  set hostname(value: unknown) {
    this.#set('hostname', value)
  }
  get port(): string {
    return this.#parts[PORT]!
  }
  set port(value: unknown) {
    this.#set('port', value)
  }
  get pathname(): string {
    return this.#parts[PATHNAME]!
  }
  set pathname(value: unknown) {
    this.#set('pathname', value)
  }
  get search(): string {
    return this.#parts[SEARCH]!
  }
  set search(value: unknown) {
    this.#set('search', value)
  }
  get hash(): string {
    return this.#parts[HASH]!
  }
  set hash(value: unknown) {
    this.#set('hash', value)
  }
  get searchParams(): URLSearchParams {
    if (this.#params === null) {
      this.#params = new URLSearchParams(this.#query())
      follow(this.#params, (query) => {
        this.#parts = split(ask('url-set', jsonStringify([this.#parts[HREF], 'search', query])), '\n')
      })
    }
    return this.#params
  }
  toString(): string {
    return this.#parts[HREF]!
  }
  toJSON(): string {
    return this.#parts[HREF]!
  }
}

type Pairs = [string, string][]

export class URLSearchParams {
  #pairs: Pairs
  #changed: ((query: string) => void) | null = null
  static {
    follow = (params, changed) => {
      params.#changed = changed
    }
    refill = (params, query) => {
      params.#pairs = parseForm(query)
    }
  }
  constructor(init: unknown = '') {
    this.#pairs = pairsOf(init)
  }
  #update(): void {
    this.#changed?.(serialiseForm(this.#pairs))
  }
  get size(): number {
    return this.#pairs.length
  }
  append(name: unknown, value: unknown): void {
    need(arguments.length, 2)
    this.#pairs.push([scalarText(name), scalarText(value)])
    this.#update()
  }
  delete(name: unknown, value?: unknown): void {
    need(arguments.length, 1)
    const key = scalarText(name)
    const only = value === undefined ? null : scalarText(value)
    this.#pairs = this.#pairs.filter((pair) => pair[0] !== key || (only !== null && pair[1] !== only))
    this.#update()
  }
  get(name: unknown): string | null {
    need(arguments.length, 1)
    const key = scalarText(name)
    return this.#pairs.find((pair) => pair[0] === key)?.[1] ?? null
  }
  getAll(name: unknown): string[] {
    need(arguments.length, 1)
    const key = scalarText(name)
    return this.#pairs.filter((pair) => pair[0] === key).map((pair) => pair[1])
  }
  has(name: unknown, value?: unknown): boolean {
    need(arguments.length, 1)
    const key = scalarText(name)
    const only = value === undefined ? null : scalarText(value)
    return this.#pairs.some((pair) => pair[0] === key && (only === null || pair[1] === only))
  }
  set(name: unknown, value: unknown): void {
    need(arguments.length, 2)
    const key = scalarText(name)
    const text = scalarText(value)
    const first = this.#pairs.find((pair) => pair[0] === key)
    if (first === undefined) this.#pairs.push([key, text])
    else {
      first[1] = text
      this.#pairs = this.#pairs.filter((pair) => pair === first || pair[0] !== key)
    }
    this.#update()
  }
  sort(): void {
    this.#pairs.sort(([left], [right]) => (left < right ? -1 : left > right ? 1 : 0))
    this.#update()
  }
  forEach(visit: (value: string, name: string, params: URLSearchParams) => void, self?: unknown): void {
    if (typeof visit !== 'function') throw new TypeError('forEach needs a function')
    for (let at = 0; at < this.#pairs.length; at++) {
      const [name, value] = this.#pairs[at]!
      visit.call(self, value, name, this)
    }
  }
  *entries(): IterableIterator<[string, string]> {
    for (let at = 0; at < this.#pairs.length; at++) yield [this.#pairs[at]![0], this.#pairs[at]![1]]
  }
  *keys(): IterableIterator<string> {
    for (let at = 0; at < this.#pairs.length; at++) yield this.#pairs[at]![0]
  }
  *values(): IterableIterator<string> {
    for (let at = 0; at < this.#pairs.length; at++) yield this.#pairs[at]![1]
  }
  [Symbol.iterator](): IterableIterator<[string, string]> {
    return this.entries()
  }
  toString(): string {
    return serialiseForm(this.#pairs)
  }
}

export function need(given: number, wanted: number): void {
  if (given < wanted)
    throw new TypeError(`${wanted} argument${wanted === 1 ? '' : 's'} needed, but only ${given} given`)
}

function pairsOf(init: unknown): Pairs {
  if ((typeof init === 'object' || typeof init === 'function') && init !== null) {
    const iterate = (init as { [Symbol.iterator]?: unknown })[Symbol.iterator]
    if (iterate !== undefined && iterate !== null) return [...(init as Iterable<Iterable<unknown>>)].map(pairOf)
    const found = new Map<string, string>()
    for (const name of Reflect.ownKeys(init)) {
      if (!Object.getOwnPropertyDescriptor(init, name)?.enumerable) continue
      if (typeof name === 'symbol') throw new TypeError('A name cannot be a symbol')
      found.set(scalarText(name), scalarText((init as Record<string, unknown>)[name]))
    }
    return [...found]
  }
  const text = scalarText(init)
  return parseForm(text[0] === '?' ? text.slice(1) : text)
}

function pairOf(given: Iterable<unknown>): [string, string] {
  const pair = [...given]
  if (pair.length !== 2) throw new TypeError('Each query pair must be an iterable [name, value] tuple')
  return [scalarText(pair[0]), scalarText(pair[1])]
}
