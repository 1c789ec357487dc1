import { Rejected } from '../../schemas/failure.ts'
import type { Catalog, Relation, Table } from '../data/catalog.ts'
import { hasRelation, relationOf, targetOf } from '../data/expand.ts'
import { checkSortable, completeOrder } from '../data/order.ts'
import type { Expansion, Filter, RowSelection } from '../data/read-ast.ts'
import type { ReadLimits } from '../data/read-limits.ts'
import { columnOf, everyColumn } from '../data/select.ts'
import { shown } from '../data/suggestion.ts'
import {
  checkLength,
  type FilterScope,
  looksLikeMember,
  parseCondition,
  parseGroup,
  parseMember,
} from './parse-filter.ts'
import { type OrderParameters, parseOrder } from './parse-order.ts'
import { parseLimit, parseOffset } from './parse-page.ts'
import { parseSelect } from './parse-select.ts'
import { leadingName, type Place, refuse, splitList } from './parse-text.ts'

/** What all expansions of a request share. */
export interface ExpandScope extends FilterScope {
  readonly catalog: Catalog
  /** Counted over the whole request. */
  readonly expanded: { count: number }
}

const place: Place = { parameter: 'expand', code: 'data/invalid-expand' }

/**
 * `<relation>`, `<relation>(limit:5,select:a,b,expand:<relation>(…))`, `<relation>.<relation>`, `<name>:<relation>`.
 * @throws {Rejected} `data/invalid-expand`, `data/unknown-relation`, `data/too-complex` and what the parts refuse.
 */
export function parseExpand(table: Table, text: string, scope: ExpandScope): Expansion[] {
  checkLength(text, place.parameter, scope)
  return expansions(parseNodes(table, text, scope, 1), scope, 1)
}

/** An expansion that takes a column's place must not meet that column in an explicit select. */
export function checkExpansions(selection: RowSelection): void {
  for (const { property } of selection.expansions) {
    if (!selection.columns?.some((column) => column.property === property)) continue
    refuse(
      place,
      `${shown(property)} is selected as a column too`,
      `rename one of them, as in expand=other:${property} or select=other:${property}`,
    )
  }
}

/** One relation with its parameters, before it is compiled; `a,a.b` and `a(expand:b)` come to the same. */
interface Node {
  readonly property: string
  readonly relation: Relation
  readonly target: Table
  content: string | null
  readonly children: Node[]
}

function parseNodes(table: Table, text: string, scope: ExpandScope, depth: number): Node[] {
  const nodes: Node[] = []
  for (const piece of splitList(text, place)) addPath(nodes, table, piece.trim(), scope, depth)
  return nodes
}

function addPath(nodes: Node[], table: Table, text: string, scope: ExpandScope, depth: number): void {
  const { names, alias, content } = headOf(text, table)
  let level = nodes
  let parent = table
  for (const [index, name] of names.entries()) {
    if (depth + index > scope.limits.maxExpandDepth) tooComplex(`nested deeper than ${scope.limits.maxExpandDepth}`)
    const relation = relationOf(parent, name, place.parameter)
    const node = nodeOf(level, index === names.length - 1 ? (alias ?? name) : name, relation, scope)
    if (index === names.length - 1 && content !== null) {
      if (node.content !== null) refuse(place, `${shown(name)} has its parameters twice`)
      node.content = content
    }
    level = node.children
    parent = node.target
  }
}

interface Head {
  /** Names of relations from here to the one meant. */
  readonly names: readonly string[]
  readonly alias: string | undefined
  readonly content: string | null
}

/** `<alias>:<path>(<content>)` */
function headOf(text: string, table: Table): Head {
  const first = leadingName(text, ':(', place)
  const aliased = first.rest.startsWith(':')
  const pathText = aliased ? first.rest.slice(1).trim() : text
  const { name, rest } = aliased ? leadingName(pathText, '(', place) : first
  if (name.trim() === '' || first.name === '') refuse(place, `expected a relation, not ${shown(text)}`)
  if (rest !== '' && !(rest.startsWith('(') && rest.endsWith(')')))
    refuse(place, `cannot read ${shown(rest)} in ${shown(text)}`)
  const path = name.trim()
  const whole = pathText.startsWith('"') || !path.includes('.') || hasRelation(table, path)
  return {
    names: whole ? [path] : path.split('.'),
    alias: aliased ? first.name.trim() : undefined,
    content: rest === '' ? null : rest.slice(1, -1),
  }
}

function nodeOf(level: Node[], property: string, relation: Relation, scope: ExpandScope): Node {
  const existing = level.find((node) => node.property === property)
  if (existing) {
    if (existing.relation.name !== relation.name) refuse(place, `two expansions are both named ${shown(property)}`)
    return existing
  }
  scope.expanded.count += 1
  if (scope.expanded.count > scope.limits.maxExpansions) tooComplex(`more than ${scope.limits.maxExpansions} relations`)
  const node: Node = { property, relation, target: targetOf(scope.catalog, relation), content: null, children: [] }
  level.push(node)
  return node
}

function expansions(nodes: readonly Node[], scope: ExpandScope, depth: number): Expansion[] {
  return nodes.map((node) => expansion(node, scope, depth))
}

function expansion(node: Node, scope: ExpandScope, depth: number): Expansion {
  const { relation, target, property } = node
  const settings = contentOf(node.content ?? '', target, property, scope)
  if (settings.expand !== undefined) mergeChildren(node, settings.expand, scope, depth + 1)
  const selected =
    settings.select === undefined ? everyColumn : rowSelection(target, settings.select, property, scope.limits)
  const select = { ...selected, expansions: expansions(node.children, scope, depth + 1) }
  checkExpansions(select)
  if (relation.kind === 'one') {
    const unfit = (['limit', 'offset', 'order', 'orderBy', 'orderDirection'] as const).find(
      (name) => settings[name] !== undefined,
    )
    if (unfit) refuse(place, `${property} is a single row, so it takes no ${unfit}`)
    return { property, relation: relation.name, select, filter: settings.filter, order: [], limit: null, offset: null }
  }
  const wanted = parseOrder(settings, `expand ${property} `, scope.limits)
  for (const sort of wanted) checkSortable(target, sort, `expand ${property}`)
  const limit = parseLimit(settings.limit, `expand ${property} limit`, scope.limits)
  const offset = parseOffset(settings.offset, `expand ${property} offset`)
  return {
    property,
    relation: relation.name,
    select,
    filter: settings.filter,
    order: completeOrder(target, wanted).keys,
    limit,
    offset: offset === 0 ? null : scope.slots.add(String(offset)),
  }
}

function mergeChildren(node: Node, text: string, scope: ExpandScope, depth: number): void {
  for (const piece of splitList(text, place)) addPath(node.children, node.target, piece.trim(), scope, depth)
}

function rowSelection(target: Table, text: string, property: string, limits: ReadLimits): RowSelection {
  const selection = parseSelect(target, text, `expand ${property} select`, limits)
  if (selection.kind === 'rows') return selection
  return refuse(place, `aggregates cannot be selected of ${shown(property)}`)
}

interface Content extends OrderParameters {
  readonly select?: string
  readonly expand?: string
  readonly limit?: string
  readonly offset?: string
  readonly filter: Filter | null
}

const lists = new Set(['select', 'expand', 'order', 'orderBy', 'orderDirection'])
const singles = new Set(['limit', 'offset'])

/**
 * The parameters between the parentheses. A piece with `<parameter>:` in front begins one, a piece that reads as a filter is
 * one, any other goes on with the list before it.
 */
function contentOf(text: string, target: Table, property: string, scope: ExpandScope): Content {
  const values = new Map<string, string>()
  const filters: Filter[] = []
  const parameter = `expand ${property}`
  const fields = (name: string, where: string) => columnOf(target, name, where)
  let open: string | null = null
  for (const piece of text.trim() === '' ? [] : splitList(text, place).map((part) => part.trim())) {
    const { name, rest } = leadingName(piece, ':.( ', place)
    const value = rest.startsWith(':') ? rest.slice(1).trim() : null
    if (value !== null && !piece.startsWith('"') && (lists.has(name) || singles.has(name))) {
      if (values.has(name)) refuse(place, `${name} is given twice for ${shown(property)}`)
      values.set(name, lists.has(name) ? bare(value) : value)
      open = lists.has(name) ? name : null
    } else if (value !== null && (name === 'or' || name === 'and' || name === 'where')) {
      filters.push(parseGroup(name === 'or' ? 'or' : 'and', value, parameter, fields, scope))
      open = null
    } else if (value !== null) {
      filters.push(parseCondition(columnOf(target, name, parameter), value, parameter, scope))
      open = null
    } else if (looksLikeMember(piece)) {
      filters.push(parseMember(piece, parameter, fields, scope))
      open = null
    } else if (open !== null) values.set(open, `${values.get(open)},${piece}`)
    else
      refuse(
        place,
        `cannot read ${shown(piece)}`,
        'write a relation’s parameters as in orders(limit:5,select:id,total,status:eq.open)',
      )
  }
  const filter = filters.length < 2 ? (filters[0] ?? null) : ({ kind: 'and', items: filters } as const)
  return { ...Object.fromEntries(values), filter }
}

/** A list may stand in parentheses of its own, where it needs colons that are not parameters. */
function bare(value: string): string {
  return value.startsWith('(') && value.endsWith(')') ? value.slice(1, -1) : value
}

function tooComplex(what: string): never {
  throw new Rejected('data/too-complex', `expand: ${what}`, { details: { field: 'expand' } })
}
