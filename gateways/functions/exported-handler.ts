import { type AnyNode, type Class, type ObjectExpression, parse, type VariableDeclarator } from 'acorn'

/** Larger programs are not looked into: that would hold up other requests. */
const maxChars = 256 * 1024

/**
 * Whether a compiled script (CommonJS, as `compile` makes it) may have a handler where a worker looks for one: `exports.handler`, a declared
 * `handler`, `module.exports`, `exports.default`, `exports.default.handler`. False only where it is plain that there is none.
 */
export function mayHaveHandler(code: string): boolean {
  if (!/\b(?:handler|default|exports)\b/.test(code)) return false
  if (code.length > maxChars) return true
  try {
    return new Search(parse(code, { ecmaVersion: 'latest', sourceType: 'script' })).found
  } catch {
    // What this parser does not take, or is too deep for it: running it tells.
    return true
  }
}

type Named = 'handler' | 'default'

class Search {
  readonly #declared = new Map<string, AnyNode | null>()
  readonly #assigned = new Set<string>()
  readonly #candidates: (() => boolean)[] = []
  readonly found: boolean

  constructor(program: AnyNode) {
    this.#walk(program)
    this.found = this.#candidates.some((isOne) => isOne())
  }

  #walk(program: AnyNode): void {
    const waiting: { node: AnyNode; parent: AnyNode | null; inside: boolean }[] = [
      { node: program, parent: null, inside: false },
    ]
    for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
      const { node, parent, inside } = next
      this.#look(node, parent, inside)
      const deeper = inside || isFunction(node)
      for (const value of Object.values(node) as unknown[]) {
        for (const child of Array.isArray(value) ? value : [value]) {
          if (isNode(child)) waiting.push({ node: child, parent: node, inside: deeper })
        }
      }
    }
  }

  #look(node: AnyNode, parent: AnyNode | null, inside: boolean): void {
    if (node.type === 'AssignmentExpression') this.#assign(node.left, node.right)
    else if (node.type === 'VariableDeclarator') {
      if (!inside) this.#declare(node)
    } else if (node.type === 'FunctionDeclaration' || node.type === 'ClassDeclaration') {
      if (!inside && node.id !== null) this.#name(node.id.name, node)
    } else if (node.type === 'CallExpression' && isIdentifier(node.callee, '__export')) {
      if (node.arguments[1]?.type === 'ObjectExpression') this.#exportAll(node.arguments[1])
    } else if (isIdentifier(node, 'module') || isExports(node)) {
      if (!isPlainAccess(node, parent)) this.#candidates.push(() => true)
    }
  }

  #declare({ id, init }: VariableDeclarator): void {
    if (id.type === 'Identifier') this.#name(id.name, init ?? null)
    else this.#candidates.push(() => true)
  }

  #name(name: string, value: AnyNode | null): void {
    if (this.#declared.has(name)) this.#assigned.add(name)
    this.#declared.set(name, value)
    if (name === 'handler') this.#candidates.push(() => this.#isCallable({ ...unplaced, type: 'Identifier', name }))
  }

  #assign(left: AnyNode, right: AnyNode): void {
    if (left.type === 'Identifier') {
      this.#assigned.add(left.name)
      if (left.name === 'handler') this.#candidates.push(() => this.#isCallable(right))
    } else if (left.type === 'MemberExpression') {
      const name = nameOf(left.property, left.computed)
      if (name === 'handler' || name === 'default') this.#candidates.push(() => this.#isHandler(name, right))
      else if (name === 'exports' && isIdentifier(left.object, 'module')) {
        if (!isConverted(right)) this.#candidates.push(() => this.#isCallable(right) || this.#holds(right))
      } else if (name === null && isExports(left.object)) this.#candidates.push(() => true)
    } else this.#candidates.push(() => true)
  }

  /** What an ES module exports: `name: () => value`. */
  #exportAll({ properties }: ObjectExpression): void {
    for (const property of properties) {
      if (property.type !== 'Property' || property.value.type !== 'ArrowFunctionExpression') continue
      const name = nameOf(property.key, property.computed)
      const { body } = property.value
      if (name === 'handler' || name === 'default') this.#candidates.push(() => this.#isHandler(name, body))
    }
  }

  #isHandler(name: Named, value: AnyNode): boolean {
    return this.#isCallable(value) || (name === 'default' && this.#holds(value, ['handler']))
  }

  #isCallable(node: AnyNode | null): boolean {
    const value = this.#resolved(node)
    return value !== null && (value === 'unknown' || !plainValues.has(value.type))
  }

  /** Whether it may have a handler as a member. */
  #holds(node: AnyNode, names: readonly Named[] = ['handler', 'default']): boolean {
    const value = this.#resolved(node)
    if (value === null) return false
    if (value === 'unknown') return true
    if (value.type === 'ObjectExpression') return value.properties.some((property) => this.#hasMember(property, names))
    if (value.type === 'ClassExpression' || value.type === 'ClassDeclaration') return hasStatic(value, names)
    return !plainValues.has(value.type)
  }

  #hasMember(property: ObjectExpression['properties'][number], names: readonly Named[]): boolean {
    if (property.type === 'SpreadElement') return true
    const name = nameOf(property.key, property.computed)
    if (name === null) return true
    return names.some((each) => each === name && (property.kind === 'get' || this.#isHandler(each, property.value)))
  }

  /** What an identifier stands for, where that is plain; null for nothing. */
  #resolved(node: AnyNode | null): AnyNode | 'unknown' | null {
    let value = node
    for (let steps = 0; value?.type === 'Identifier'; steps++) {
      const { name } = value
      if (name === 'undefined') return null
      if (steps > 100 || this.#assigned.has(name) || !this.#declared.has(name)) return 'unknown'
      value = this.#declared.get(name) ?? null
    }
    return value
  }
}

const unplaced = { start: 0, end: 0 }

/** None of these can be called without `new`. */
const plainValues: ReadonlySet<string> = new Set([
  'Literal',
  'TemplateLiteral',
  'ObjectExpression',
  'ArrayExpression',
  'ClassExpression',
  'ClassDeclaration',
  'UnaryExpression',
  'BinaryExpression',
  'UpdateExpression',
])

const isNode = (value: unknown): value is AnyNode =>
  typeof value === 'object' && value !== null && typeof (value as { type?: unknown }).type === 'string'

const isFunction = ({ type }: AnyNode) => type.includes('Function')

const isIdentifier = (node: AnyNode, name: string) => node.type === 'Identifier' && node.name === name

const isExports = (node: AnyNode): boolean =>
  isIdentifier(node, 'exports') ||
  (node.type === 'MemberExpression' && isIdentifier(node.object, 'module') && !node.computed)

/** `module.exports = __toCommonJS(...)`: what is exported was named before. */
const isConverted = (node: AnyNode) => node.type === 'CallExpression' && isIdentifier(node.callee, '__toCommonJS')

/** Nothing is done to the exports but what is looked at. */
function isPlainAccess(node: AnyNode, parent: AnyNode | null): boolean {
  if (parent?.type === 'AssignmentExpression') return parent.left === node && node.type === 'MemberExpression'
  if (parent?.type === 'MemberExpression') return parent.object !== node || !parent.computed
  return parent?.type === 'Property' && parent.value !== node
}

function hasStatic({ body }: Class, names: readonly Named[]): boolean {
  return body.body.some(
    (member) =>
      'static' in member && member.static && names.some((name) => name === nameOf(member.key, member.computed)),
  )
}

/** Null for a name that is computed. */
function nameOf(key: AnyNode, computed: boolean): string | null {
  if (key.type === 'Literal') return String(key.value)
  return key.type === 'Identifier' && !computed ? key.name : null
}
