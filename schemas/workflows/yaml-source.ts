import { type Document, isAlias, isMap, isScalar, isSeq, LineCounter, type Node, parseDocument } from 'yaml'

/** From the root of the document: names of members and places in lists. */
export type Path = readonly (string | number)[]

/** Something that is wrong with a text, and where: `path` as `tasks[0].properties.url`, `line` and `column` from 1. */
export interface FlowProblem {
  readonly path: string
  readonly line: number
  readonly column: number
  readonly message: string
}

/** Largest text of a flow. */
export const maxYamlBytes = 512 * 1024
const maxDepth = 64
const maxNodes = 50_000
const maxProblems = 1_000
/** More of these in a row nest deeper than is allowed, and cost the parser much. */
const runaway = /(?:[[{][\s,]*){65}|(?:[-?:][ \t]+){65}/

/** A YAML text as a value, that knows where each part of it is written. */
export class YamlSource {
  readonly problems: FlowProblem[] = []
  readonly #lines = new LineCounter()
  readonly #document: Document | null
  readonly #text: string

  /** YAML 1.2, one document, keys unique texts, no tags of its own, bounded in size, depth and what its aliases grow to. */
  constructor(text: string) {
    this.#text = text
    this.#document = this.#parse()
  }

  /** Undefined when it cannot be read; `problems` say why. */
  value(): unknown {
    if (this.#document === null || this.problems.length > 0) return undefined
    return this.#document.toJS({ maxAliasCount: maxNodes })
  }

  /** @param of the member's name itself rather than what it holds */
  add(path: Path, message: string, of: 'value' | 'key' = 'value'): void {
    if (this.problems.length < maxProblems) {
      this.problems.push({ path: shownPath(path), ...this.#position(path, of), message })
    }
  }

  #parse(): Document | null {
    if (Buffer.byteLength(this.#text) > maxYamlBytes)
      return this.#refuse(`The text has more than ${maxYamlBytes} bytes`)
    const deep = runaway.exec(this.#text)
    if (deep !== null) return this.#refuse(`Nested deeper than ${maxDepth}`, deep.index)
    let document: Document
    try {
      document = parseDocument(this.#text, {
        version: '1.2',
        strict: true,
        uniqueKeys: true,
        stringKeys: true,
        prettyErrors: false,
        logLevel: 'error',
        lineCounter: this.#lines,
      })
    } catch (error) {
      // The parser calls itself for each level.
      if (error instanceof RangeError) return this.#refuse(`Nested deeper than ${maxDepth}`)
      throw error
    }
    for (const { code, message, pos } of [...document.errors, ...document.warnings]) {
      this.#refuse(code === 'MULTIPLE_DOCS' ? 'There must be one document' : message, pos[0])
    }
    const { version, explicit } = document.directives?.yaml ?? {}
    if (explicit === true && version !== '1.2') this.#refuse('Only YAML 1.2 is read here')
    if (this.problems.length === 0) this.#measure(document)
    return document
  }

  #refuse(message: string, offset = 0): null {
    const { line, col } = this.#lines.lineStarts.length > 0 ? this.#lines.linePos(offset) : before(this.#text, offset)
    if (this.problems.length < maxProblems) {
      this.problems.push({ path: '', line: Math.max(line, 1), column: Math.max(col, 1), message })
    }
    return null
  }

  /** Numbers that JSON cannot carry, what is too deep, and aliases that grow too large or hold themselves. */
  #measure(document: Document): void {
    const sizes = new Map<Node, number>()
    const open = new Set<Node>()
    const at = (node: Node) => node.range?.[0] ?? 0
    const size = (node: Node | null, depth: number): number => {
      if (node === null || this.problems.length > 0) return 1
      if (depth > maxDepth) return this.#refuse(`Nested deeper than ${maxDepth}`, at(node)) ?? 1
      if (isAlias(node)) {
        const target = node.resolve(document)
        if (target === undefined) return this.#refuse(`There is no anchor &${node.source} before it`, at(node)) ?? 1
        if (open.has(target)) return this.#refuse(`*${node.source} holds itself`, at(node)) ?? 1
        return size(target, depth)
      }
      const known = sizes.get(node)
      if (known !== undefined) return known
      open.add(node)
      let total = 1
      if (isMap(node)) for (const { value } of node.items) total += 1 + size(value as Node | null, depth + 1)
      else if (isSeq(node)) for (const item of node.items) total += size(item as Node | null, depth + 1)
      else if (isScalar(node)) this.#requireNumber(node.value, node.source ?? '', at(node))
      open.delete(node)
      if (total > maxNodes && this.problems.length === 0)
        this.#refuse(`More than ${maxNodes} values, with what aliases stand for`, at(node))
      sizes.set(node, total)
      return total
    }
    size(document.contents as Node | null, 0)
  }

  #requireNumber(value: unknown, source: string, offset: number): void {
    if (typeof value !== 'number') return
    if (!Number.isFinite(value)) this.#refuse(`${source} is no number that JSON can carry`, offset)
    else if (/^[-+]?\d+$/.test(source) && !Number.isSafeInteger(value)) {
      this.#refuse(`${source} would lose digits as a number: write it in quotes`, offset)
    }
  }

  /** Of the innermost part of the path that is written in the text. */
  #position(path: Path, of: 'value' | 'key') {
    let node = this.#document?.contents as Node | null | undefined
    let offset = node?.range?.[0] ?? 0
    for (const [index, step] of path.entries()) {
      const holder: Node | null | undefined = isAlias(node) ? node.resolve(this.#document!) : node
      if (isMap(holder)) {
        const pair = holder.items.find(({ key }) => isScalar(key) && String(key.value) === String(step))
        if (pair === undefined) break
        const value = pair.value as Node | null
        const key = pair.key as Node
        const last = index === path.length - 1
        offset = ((last && of === 'key') || !value?.range ? key.range?.[0] : value.range[0]) ?? offset
        node = value
      } else if (isSeq(holder)) {
        node = holder.items[Number(step)] as Node | undefined
        offset = node?.range?.[0] ?? offset
      } else break
    }
    const { line, col } = this.#lines.linePos(offset)
    return { line: Math.max(line, 1), column: Math.max(col, 1) }
  }
}

/** `tasks[0].properties["my key"]` */
function shownPath(path: Path): string {
  return path
    .map((step, index) => {
      if (typeof step === 'number') return `[${step}]`
      if (!/^[A-Za-z_][A-Za-z0-9_-]*$/.test(step)) return `[${JSON.stringify(step)}]`
      return index === 0 ? step : `.${step}`
    })
    .join('')
}

function before(text: string, offset: number): { readonly line: number; readonly col: number } {
  const lines = text.slice(0, offset).split('\n')
  return { line: lines.length, col: lines.at(-1)!.length + 1 }
}
