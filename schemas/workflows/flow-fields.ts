import { closest, distance } from 'fastest-levenshtein'
import { isPlainText, notPlainText } from '../plain-text.ts'
import { parseDuration } from './duration.ts'
import type { Path, YamlSource } from './yaml-source.ts'

type Members = Readonly<Record<string, unknown>>

const maxDurationMs = 366 * 86_400_000

/** Reads the members of one mapping; what is wrong with them is told to the source, and a default is given in their place. */
export class Fields {
  readonly #source: YamlSource
  readonly #path: Path
  readonly #members: Members

  constructor(source: YamlSource, path: Path, members: Members) {
    this.#source = source
    this.#path = path
    this.#members = members
  }

  /** Null when the value is no mapping, or has members of other names: the first is told, and the second too. */
  static of(source: YamlSource, path: Path, value: unknown, names: readonly string[] | null): Fields | null {
    if (!isMapping(value)) {
      source.add(path, `must be a mapping, not ${kindOf(value)}`)
      return null
    }
    for (const name of Object.keys(value)) {
      if (names !== null && !names.includes(name)) {
        source.add([...path, name], `is no key here${suggestion(name, names)}`, 'key')
      }
    }
    return new Fields(source, path, value)
  }

  has(name: string): boolean {
    return this.raw(name) !== undefined
  }

  /** A member without a value counts as one that is not there. */
  raw(name: string): unknown {
    return Object.hasOwn(this.#members, name) ? (this.#members[name] ?? undefined) : undefined
  }

  path(name: string): Path {
    return [...this.#path, name]
  }

  wrong(name: string, message: string): void {
    this.#source.add(this.path(name), message)
  }

  missing(name: string): void {
    this.#source.add(this.#path, `needs ${name}`)
  }

  text(name: string, { max, required = false }: { readonly max: number; readonly required?: boolean }): string | null {
    const value = this.raw(name)
    if (value === undefined) {
      if (required) this.missing(name)
      return null
    }
    if (typeof value !== 'string') this.wrong(name, `must be a text, not ${kindOf(value)}`)
    else if (value.trim() === '') this.wrong(name, 'must not be empty')
    else if (value.length > max) this.wrong(name, `must have at most ${max} characters`)
    else if (!isPlainText(value)) this.wrong(name, notPlainText)
    else return value
    return null
  }

  /** A text; numbers and truth values count as what they are written as. */
  template(name: string): string | null {
    const value = this.raw(name)
    if (value === undefined) return null
    if (['string', 'number', 'boolean'].includes(typeof value)) return String(value)
    this.wrong(name, `must be a text, not ${kindOf(value)}`)
    return null
  }

  flag(name: string, otherwise: boolean): boolean {
    const value = this.raw(name) ?? otherwise
    if (typeof value === 'boolean') return value
    this.wrong(name, `must be true or false, not ${kindOf(value)}`)
    return otherwise
  }

  number(name: string, range: NumberRange): number {
    const value = this.raw(name) ?? range.otherwise
    const { min, max, whole = false } = range
    const fits = typeof value === 'number' && value >= min && value <= max && (!whole || Number.isInteger(value))
    if (fits) return value
    this.wrong(name, `must be a ${whole ? 'whole ' : ''}number from ${min} to ${max}`)
    return range.otherwise
  }

  duration(name: string, otherwise: null): number | null
  duration(name: string, otherwise: number): number
  duration(name: string, otherwise: number | null): number | null {
    const value = this.raw(name)
    if (value === undefined) return otherwise
    const ms = parseDuration(value)
    if (ms === null) this.wrong(name, 'must be a duration: 500ms, 30s, 5m, 2h, 1d or PT1H30M')
    else if (ms < 1 || ms > maxDurationMs) this.wrong(name, 'must be from 1ms to 366d')
    else return Math.ceil(ms)
    return otherwise
  }

  choice<const T extends string>(name: string, choices: readonly T[], otherwise: T): T {
    const value = this.raw(name) ?? otherwise
    if (choices.includes(value as T)) return value as T
    this.wrong(
      name,
      `must be one of ${choices.join(', ')}${typeof value === 'string' ? suggestion(value, choices) : ''}`,
    )
    return otherwise
  }

  list(name: string, max: number): readonly unknown[] {
    const value = this.raw(name)
    if (value === undefined) return []
    if (!Array.isArray(value)) this.wrong(name, `must be a list, not ${kindOf(value)}`)
    else if (value.length > max) this.wrong(name, `has more than ${max} entries`)
    else return value
    return []
  }

  mapping(name: string, max: number): Members {
    const value = this.raw(name)
    if (value === undefined) return {}
    if (!isMapping(value)) this.wrong(name, `must be a mapping, not ${kindOf(value)}`)
    else if (Object.keys(value).length > max) this.wrong(name, `has more than ${max} members`)
    else return value
    return {}
  }
}

interface NumberRange {
  readonly min: number
  readonly max: number
  readonly whole?: boolean
  readonly otherwise: number
}

/** `; perhaps you meant x`, or nothing when nothing is near. */
export function suggestion(written: string, known: readonly string[]): string {
  if (known.length === 0 || written.length > 100) return ''
  const nearest = closest(written, known)
  return distance(written, nearest) <= Math.max(2, written.length / 3) ? `; perhaps you meant ${nearest}` : ''
}

export function isMapping(value: unknown): value is Members {
  return typeof value === 'object' && value !== null && !Array.isArray(value)
}

export function kindOf(value: unknown): string {
  if (value === null || value === undefined) return 'nothing'
  if (Array.isArray(value)) return 'a list'
  return (
    { object: 'a mapping', string: 'a text', number: 'a number', boolean: 'a truth value' }[typeof value as string] ??
    typeof value
  )
}
