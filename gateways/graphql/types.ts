import {
  GraphQLBoolean,
  GraphQLEnumType,
  GraphQLFloat,
  GraphQLInputObjectType,
  type GraphQLInputType,
  GraphQLInt,
  GraphQLList,
  GraphQLObjectType,
  type GraphQLOutputType,
  GraphQLString,
} from 'graphql'
import type { DatabaseType } from '../data/catalog.ts'
import type { Naming } from './naming.ts'
import { BigInt64, Bytes, DateOnly, DateTime, Decimal, Inet, Interval, Json, Range, Time, Uuid } from './scalars.ts'

const byName: Readonly<Record<string, GraphQLOutputType & GraphQLInputType>> = {
  int2: GraphQLInt,
  int4: GraphQLInt,
  int8: BigInt64,
  numeric: Decimal,
  float4: GraphQLFloat,
  float8: GraphQLFloat,
  bool: GraphQLBoolean,
  uuid: Uuid,
  date: DateOnly,
  time: Time,
  timetz: Time,
  timestamp: DateTime,
  timestamptz: DateTime,
  interval: Interval,
  json: Json,
  jsonb: Json,
  inet: Inet,
  cidr: Inet,
  macaddr: Inet,
  macaddr8: Inet,
  bytea: Bytes,
}

/** The GraphQL types of a catalog's column types; each is made once. */
export class ColumnTypes {
  readonly #naming: Naming
  readonly #enums = new Map<number, GraphQLEnumType>()
  readonly #objects = new Map<number, GraphQLObjectType>()
  readonly #inputs = new Map<number, GraphQLInputObjectType>()

  constructor(naming: Naming) {
    this.#naming = naming
  }

  output({ base }: DatabaseType): GraphQLOutputType {
    switch (base.kind) {
      case 'enum':
        return this.enumType(base)
      case 'array':
        return new GraphQLList(this.output(base.element!))
      case 'composite':
        return this.#objectType(base)
      case 'range':
      case 'multirange':
        return Range
      default:
        return byName[base.name] ?? GraphQLString
    }
  }

  input({ base }: DatabaseType): GraphQLInputType {
    switch (base.kind) {
      case 'enum':
        return this.enumType(base)
      case 'array':
        return new GraphQLList(this.input(base.element!))
      case 'composite':
        return this.#inputType(base)
      case 'range':
      case 'multirange':
        return Range
      default:
        return byName[base.name] ?? GraphQLString
    }
  }

  enumType(type: DatabaseType): GraphQLEnumType {
    let made = this.#enums.get(type.oid)
    if (!made) {
      const values = this.#naming.enumValues.get(type.oid) ?? new Map<string, string>()
      made = new GraphQLEnumType({
        name: this.#nameOf(type),
        description: type.comment,
        values: Object.fromEntries(type.enumValues.map((value) => [values.get(value) ?? value, { value }])),
      })
      this.#enums.set(type.oid, made)
    }
    return made
  }

  #objectType(type: DatabaseType): GraphQLOutputType {
    if (type.attributes.length === 0) return Json
    let made = this.#objects.get(type.oid)
    if (!made) {
      made = new GraphQLObjectType({
        name: this.#nameOf(type),
        description: type.comment,
        fields: () =>
          Object.fromEntries(
            attributesOf(type).map(([name, of]) => [
              name,
              { type: this.output(of.type), extensions: { meaning: { kind: 'attribute', attribute: of } } },
            ]),
          ),
      })
      this.#objects.set(type.oid, made)
    }
    return made
  }

  #inputType(type: DatabaseType): GraphQLInputType {
    if (type.attributes.length === 0) return Json
    let made = this.#inputs.get(type.oid)
    if (!made) {
      made = new GraphQLInputObjectType({
        name: `${this.#nameOf(type)}Input`,
        description: type.comment,
        fields: () =>
          Object.fromEntries(
            attributesOf(type).map(([name, of]) => [
              name,
              { type: this.input(of.type), extensions: { attribute: of } },
            ]),
          ),
      })
      this.#inputs.set(type.oid, made)
    }
    return made
  }

  #nameOf(type: DatabaseType): string {
    return this.#naming.types.get(type.oid) ?? `Type_${type.oid}`
  }
}

type Attribute = DatabaseType['attributes'][number]

/** Attributes under legal names, numbered where two come to the same. */
export function attributesOf(type: DatabaseType): (readonly [string, Attribute])[] {
  const used = new Set<string>()
  return type.attributes.map((attribute) => {
    const letters =
      attribute.name
        .replace(/[^_0-9A-Za-z]/gu, '_')
        .replace(/^(?=\d)/, '_')
        .replace(/^__/, 'x__') || '_'
    let name = letters
    for (let number = 2; used.has(name); number++) name = `${letters}_${number}`
    used.add(name)
    return [name, attribute] as const
  })
}
