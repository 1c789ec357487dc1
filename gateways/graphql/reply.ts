import type { FieldNode, GraphQLObjectType } from 'graphql'
import { Rejected } from '../../schemas/failure.ts'
import type { Table } from '../data/catalog.ts'
import { encodeCursor } from '../data/cursor.ts'
import type { RawResult, RawRow } from '../data/statement.ts'
import type { OperationScope } from './plan-scope.ts'
import { collectFields, selectionsOf } from './plan-select.ts'

const comma = Buffer.from(',')
const open = Buffer.from('[')
const close = Buffer.from(']')

/** The rows' own bytes between brackets. */
export function listReply({ rows }: RawResult): Buffer {
  const pieces: Buffer[] = [open]
  for (const [index, row] of rows.entries()) {
    if (index > 0) pieces.push(comma)
    if (row[0]) pieces.push(row[0])
  }
  pieces.push(close)
  return Buffer.concat(pieces)
}

/** The rows in the order of the inputs, whose places the result's rows have. */
export function createdReply(places: readonly number[]): (result: RawResult) => Buffer {
  return (result) => {
    // A trigger or a rule may have kept some of them out.
    if (result.rows.length !== places.length) return listReply(result)
    const rows: RawRow[] = []
    for (const [index, place] of places.entries()) rows[place] = result.rows[index]!
    return listReply({ ...result, rows })
  }
}

export function numbersReply({ rows }: RawResult): Buffer {
  return rows[0]?.[0] ?? Buffer.from('null')
}

/** @throws {Rejected} `data/row-not-found` */
export function rowReply({ rows }: RawResult, { name }: Table): Buffer {
  const row = rows[0]?.[0]
  if (row) return row
  throw new Rejected('data/row-not-found', `${name} has no row with this key`, { details: { table: name } })
}

/** What was asked of a connection, and how its page was cut. */
export interface AskedConnection {
  readonly type: GraphQLObjectType
  readonly edgeType: GraphQLObjectType
  /** Of the connection, under their response names. */
  readonly fields: ReadonlyMap<string, readonly FieldNode[]>
  /** Where nodes are asked for; of several, each row holds one value a place. */
  readonly nodePlaces: readonly string[]
  readonly scope: OperationScope
  readonly digest: string
  readonly limit: number
  readonly backward: boolean
  readonly hasAfter: boolean
  readonly hasBefore: boolean
}

/** A field `node` by its name and that of the edges it is in. */
export function nodePlace(edgesProperty: string, property: string): string {
  return `${edgesProperty} ${property}`
}

export function connectionReply(asked: AskedConnection, { rows: found }: RawResult): Buffer {
  const { limit, backward, hasAfter, hasBefore } = asked
  const present = found.filter((row) => row[0] !== null)
  const further = present.length > limit
  const cut = further ? present.slice(0, limit) : present
  const rows = backward ? cut.toReversed() : cut
  const page: Page = {
    rows,
    hasNextPage: backward ? hasBefore : further,
    hasPreviousPage: backward ? further : hasAfter,
    total: found[0]?.[2]?.toString() ?? '0',
  }
  const pieces: (string | Buffer)[] = []
  members(pieces, asked.fields, (name, nodes, property) => {
    switch (name) {
      case '__typename':
        pieces.push(JSON.stringify(asked.type.name))
        break
      case 'totalCount':
        pieces.push(page.total)
        break
      case 'pageInfo':
        pageInfo(pieces, asked, page, nodes)
        break
      default:
        edges(pieces, asked, page, nodes, property)
    }
  })
  return Buffer.concat(pieces.map((piece) => (typeof piece === 'string' ? Buffer.from(piece) : piece)))
}

interface Page {
  readonly rows: readonly RawRow[]
  readonly hasNextPage: boolean
  readonly hasPreviousPage: boolean
  readonly total: string
}

function members(
  pieces: (string | Buffer)[],
  fields: ReadonlyMap<string, readonly FieldNode[]>,
  write: (name: string, nodes: readonly FieldNode[], property: string) => void,
): void {
  let separator = '{'
  for (const [property, nodes] of fields) {
    pieces.push(`${separator}${JSON.stringify(property)}:`)
    separator = ','
    write(nodes[0]!.name.value, nodes, property)
  }
  pieces.push('}')
}

function pageInfo(
  pieces: (string | Buffer)[],
  { scope, digest }: AskedConnection,
  page: Page,
  nodes: readonly FieldNode[],
): void {
  const type = scope.schema.getType('PageInfo') as GraphQLObjectType
  const values: Readonly<Record<string, unknown>> = {
    __typename: type.name,
    hasNextPage: page.hasNextPage,
    hasPreviousPage: page.hasPreviousPage,
    startCursor: cursorOf(page.rows[0], digest),
    endCursor: cursorOf(page.rows.at(-1), digest),
  }
  members(pieces, collectFields(type, selectionsOf(nodes), scope), (name) => pieces.push(JSON.stringify(values[name])))
}

function edges(
  pieces: (string | Buffer)[],
  { scope, edgeType, digest, nodePlaces }: AskedConnection,
  { rows }: Page,
  nodes: readonly FieldNode[],
  edgesProperty: string,
): void {
  const fields = collectFields(edgeType, selectionsOf(nodes), scope)
  pieces.push('[')
  for (const [index, row] of rows.entries()) {
    if (index > 0) pieces.push(',')
    const values = nodePlaces.length < 2 ? [row[0] ?? 'null'] : memberValues(row[0]!)
    members(pieces, fields, (name, _, property) => {
      if (name === 'cursor') pieces.push(JSON.stringify(cursorOf(row, digest)))
      else if (name === 'node') pieces.push(values[nodePlaces.indexOf(nodePlace(edgesProperty, property))] ?? 'null')
      else pieces.push(JSON.stringify(edgeType.name))
    })
  }
  pieces.push(']')
}

/** The bytes of each member's value in a JSON object. */
function memberValues(json: Buffer): Buffer[] {
  const values: Buffer[] = []
  let depth = 0
  let from = 0
  let inText = false
  for (let at = 0; at < json.length; at++) {
    const byte = json[at]
    if (inText) {
      if (byte === backslash) at += 1
      else if (byte === quote) inText = false
    } else if (byte === quote) inText = true
    else if (byte === openBrace || byte === openBracket) depth += 1
    else if (byte === colon && depth === 1) from = at + 1
    else if (byte === separator && depth === 1) values.push(json.subarray(from, at))
    else if (byte === closeBrace || byte === closeBracket) {
      depth -= 1
      if (depth === 0) values.push(json.subarray(from, at))
    }
  }
  return values
}

const [quote, separator, colon, openBracket, backslash, closeBracket, openBrace, closeBrace] = Buffer.from('",:[\\]{}')

function cursorOf(row: RawRow | undefined, digest: string): string | null {
  return row?.[1] ? encodeCursor(digest, row[1].toString()) : null
}
