import { secretForms } from './mask-forms.ts'

const mask = '******'
const shortestSecret = 4
/** A mask beside what is left can look like a secret again, of asterisks and letters. */
const maxPasses = 4

interface Span {
  readonly from: number
  readonly to: number
}

/**
 * Takes secrets out of everything that leaves a task: as they are and encoded (see `mask-forms.ts`), also when lines are broken in their
 * midst. A text of fewer than four characters is no secret: taking it out would hide too much else.
 */
export class Mask {
  readonly #forms = new Set<string>()

  /** Every text in a credential's value. */
  add(value: unknown): void {
    if (typeof value === 'object' && value !== null) for (const each of Object.values(value)) this.add(each)
    if (typeof value !== 'string') return
    // Programs tell what they have line by line.
    for (const text of new Set([value, value.trim(), ...value.split(/\r?\n/)])) {
      if (text.length < shortestSecret || /^\**$/.test(text)) continue
      for (const form of secretForms(text)) this.#forms.add(form)
    }
  }

  text(text: string): string {
    return this.#masked(text, (now) => this.#whole(now))
  }

  /** JSON without secrets in it, keys included. */
  value<T>(value: T): T {
    if (this.#forms.size === 0) return value
    return this.#value(value) as T
  }

  /**
   * The lines of one source, each as it may be told: what begins in one line and goes on in the next is seen too, and no line begins or
   * ends with the better part of a secret.
   */
  lines(): (line: string) => string {
    let before = ''
    return (line) => {
      if (this.#forms.size === 0) return line
      const longest = Math.max(...[...this.#forms].map((form) => form.length))
      const held = before
      before = `${held}${line}`.slice(1 - longest)
      return this.#masked(line, (now) => [
        ...this.#whole(now),
        ...(now === line ? [...this.#acrossFrom(held, line), ...this.#parts(line)] : []),
      ])
    }
  }

  #masked(text: string, find: (text: string) => readonly Span[]): string {
    let now = text
    for (let pass = 0; pass < maxPasses && this.#forms.size > 0; pass++) {
      const spans = find(now)
      if (spans.length === 0) break
      now = covered(now, spans)
    }
    return now
  }

  #whole(text: string): Span[] {
    const spans = occurrences(text, this.#forms)
    if (!/[\r\n]/.test(text)) return spans
    const { joined, places } = withoutBreaks(text)
    for (const { from, to } of occurrences(joined, this.#forms)) {
      spans.push({ from: places[from]!, to: places[to - 1]! + 1 })
    }
    return spans
  }

  /** What began in the lines before and ends in this one. */
  #acrossFrom(before: string, line: string): Span[] {
    return occurrences(before + line, this.#forms)
      .filter(({ from, to }) => from < before.length && to > before.length)
      .map(({ to }) => ({ from: 0, to: to - before.length }))
  }

  /** The better part of a secret that somebody has cut off at either end of the line. */
  #parts(line: string): Span[] {
    const spans: Span[] = []
    for (const form of this.#forms) {
      const least = Math.max(shortestSecret, Math.ceil(form.length / 2))
      const [head, tail] = [form.slice(0, least), form.slice(-least)]
      for (let from = line.indexOf(head); from >= 0; from = line.indexOf(head, from + 1)) {
        if (!form.startsWith(line.slice(from))) continue
        spans.push({ from, to: line.length })
        break
      }
      for (let at = line.lastIndexOf(tail); at >= 0; at = at === 0 ? -1 : line.lastIndexOf(tail, at - 1)) {
        const to = at + tail.length
        if (!form.endsWith(line.slice(0, to))) continue
        spans.push({ from: 0, to })
        break
      }
    }
    return spans
  }

  #value(value: unknown): unknown {
    if (typeof value === 'string') return this.text(value)
    if (typeof value !== 'object' || value === null) return value
    if (ArrayBuffer.isView(value)) return this.#bytes(value)
    const { toJSON } = value as { toJSON?: unknown }
    if (typeof toJSON === 'function') return this.#value(toJSON.call(value))
    if (Array.isArray(value)) return value.map((each) => this.#value(each))
    return Object.fromEntries(Object.entries(value).map(([key, each]) => [this.text(key), this.#value(each)]))
  }

  /** Bytes as text, if there is a secret in them; as JSON writes them, they would be numbers. */
  #bytes(view: ArrayBufferView): unknown {
    const text = Buffer.from(view.buffer, view.byteOffset, view.byteLength).toString('utf8')
    const masked = this.text(text)
    return masked === text ? view : masked
  }
}

function occurrences(text: string, forms: Iterable<string>): Span[] {
  const spans: Span[] = []
  for (const form of forms) {
    for (let from = text.indexOf(form); from >= 0; from = text.indexOf(form, from + 1)) {
      spans.push({ from, to: from + form.length })
    }
  }
  return spans
}

/** A text without its line breaks, and where each of its characters was. */
function withoutBreaks(text: string): { readonly joined: string; readonly places: readonly number[] } {
  const places: number[] = []
  let joined = ''
  for (let index = 0; index < text.length; index++) {
    const character = text[index]!
    if (character === '\n' || character === '\r') continue
    joined += character
    places.push(index)
  }
  return { joined, places }
}

/** One mask for spans that touch. */
function covered(text: string, spans: readonly Span[]): string {
  let result = ''
  let end = 0
  let open = false
  for (const { from, to } of [...spans].sort((one, other) => one.from - other.from)) {
    if (to <= end) continue
    if (from > end || !open) result += text.slice(end, from) + mask
    open = true
    end = to
  }
  return result + text.slice(end)
}
