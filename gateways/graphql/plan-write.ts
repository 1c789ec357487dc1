import type { GraphQLInputObjectType, GraphQLNamedType } from 'graphql'
import { Rejected } from '../../schemas/failure.ts'
import type { Column, Table } from '../data/catalog.ts'
import type { RowSelection } from '../data/read-ast.ts'
import { checkRow, type JsonObject } from '../data/write-body.ts'
import { checkWritable, insertSets } from '../data/write-plan.ts'
import type { WriteRequest } from '../data/write-request.ts'
import type { PlanScope } from './plan-scope.ts'
import { jsonOf, textOf } from './plan-values.ts'

interface Write {
  readonly table: Table
  readonly input: GraphQLNamedType
  readonly given: Readonly<Record<string, unknown>>
  readonly select: RowSelection
  readonly place: string
  readonly scope: PlanScope
}

type Given = Readonly<Record<string, unknown>>

/** One row, or all of `inputs`. @throws {Rejected} `data/invalid-body`, `data/invalid-value`, `data/too-complex` */
export function planCreate(
  { table, input, given, select, scope }: Write,
  many: boolean,
): WriteRequest & { readonly places: readonly number[] } {
  checkWritable(table, 'insertable')
  const inputs = (many ? given.inputs : [given.input]) as readonly Given[]
  const rows = inputs.map((row) => columnsOf(row, input as GraphQLInputObjectType))
  const body = many ? `[${rows.map(bodyOf).join(',')}]` : bodyOf(rows[0]!)
  const slot = rows.some(({ length }) => length > 0) ? scope.slots.add(body) : 0
  const sets = insertSets(table, rows.map(plain), many, scope.slots, scope.limits)
  const shape: WriteRequest['shape'] = {
    kind: 'insert',
    schema: table.schema,
    table: table.name,
    body: slot,
    many,
    sets,
    conflict: null,
    returning: { kind: 'rows', select },
  }
  return { shape, parameters: scope.slots.values, places: placesOf(rows) }
}

/** Where among the inputs each row of the result stood: those that name the same columns are written together. */
function placesOf(rows: readonly (readonly GivenColumn[])[]): number[] {
  const sets = new Map<string, number[]>()
  for (const [place, row] of rows.entries()) {
    const key = JSON.stringify(row.map(({ column }) => column.name).sort())
    const places = sets.get(key)
    if (places) places.push(place)
    else sets.set(key, [place])
  }
  return [...sets.values()].flat()
}

/** The row of the key in the input; its other columns change. */
export function planUpdate({ table, input, given, select, place, scope }: Write): WriteRequest {
  checkWritable(table, 'updatable')
  const columns = columnsOf(given.input as Given, input as GraphQLInputObjectType)
  const key = keyOf(table, columns, place)
  const changed = columns.filter(({ column }) => !table.primaryKey.includes(column.name))
  if (changed.length === 0) {
    throw new Rejected('data/invalid-body', `${place}(input): names no column to change`, {
      details: { field: `${place}(input)` },
    })
  }
  checkRow(table, plain(changed))
  const names = changed.map(({ column }) => column.name).sort()
  const shape: WriteRequest['shape'] = {
    kind: 'update',
    schema: table.schema,
    table: table.name,
    target: { kind: 'key', key: key.map((text) => scope.slots.add(text)) },
    body: scope.slots.add(bodyOf(changed)),
    columns: names,
    reset: [],
    match: null,
    returning: { kind: 'rows', select },
  }
  return { shape, parameters: scope.slots.values }
}

export function planDelete({ table, input, given, select, place, scope }: Write): WriteRequest {
  checkWritable(table, 'deletable')
  const key = keyOf(table, columnsOf(given.input as Given, input as GraphQLInputObjectType), place)
  const shape: WriteRequest['shape'] = {
    kind: 'delete',
    schema: table.schema,
    table: table.name,
    target: { kind: 'key', key: key.map((text) => scope.slots.add(text)) },
    match: null,
    returning: { kind: 'rows', select },
  }
  return { shape, parameters: scope.slots.values }
}

interface GivenColumn {
  readonly column: Column
  readonly value: unknown
}

function columnsOf(row: Given, input: GraphQLInputObjectType): GivenColumn[] {
  const fields = input.getFields()
  return Object.entries(row).flatMap(([name, value]) => {
    const meaning = fields[name]?.extensions.meaning as { readonly column: Column } | undefined
    return meaning === undefined || value === undefined ? [] : [{ column: meaning.column, value }]
  })
}

function bodyOf(columns: readonly GivenColumn[]): string {
  return `{${columns.map(({ column, value }) => `${JSON.stringify(column.name)}:${jsonOf(value, column.type)}`).join(',')}}`
}

/** As the checks of a body see it. */
function plain(columns: readonly GivenColumn[]): JsonObject {
  return Object.fromEntries(columns.map(({ column, value }) => [column.name, value]))
}

/** @throws {Rejected} `data/invalid-key` when a column of the key is missing */
function keyOf(table: Table, columns: readonly GivenColumn[], place: string): string[] {
  return table.primaryKey.map((name) => {
    const given = columns.find(({ column }) => column.name === name)
    if (given !== undefined && given.value !== null) return textOf(given.value, given.column.type)
    throw new Rejected('data/invalid-key', `${place}(input): the key column ${name} is missing`, {
      details: { field: `${place}(input).${name}`, columns: table.primaryKey },
    })
  })
}
