import { randomUUID } from 'node:crypto'
import type { Static, TSchema } from 'typebox'
import { Compile, type Validator } from 'typebox/compile'

/** A message that is not what its definition says, when written or when read; the text names the fact and the place. */
export class MessageInvalid extends Error {
  override readonly name = 'MessageInvalid'
}

/** One that no program can read, whatever its version: it is given up at once. */
export class MessageMalformed extends MessageInvalid {}

/** One thing that happened, in the shape of today's definition. */
export interface Fact<Type extends string = string, Data = unknown> {
  readonly type: Type
  readonly data: Data
}

export interface EventDefinition<Type extends string = string, Schema extends TSchema = TSchema> {
  /** `<component>.<entity>.<fact>`, past tense; never renamed. */
  readonly type: Type
  readonly version: number
  readonly schema: Schema
  readonly upcasters: Upcasters
  readonly replaces: Replacements
  of(data: Static<Schema>): Fact<Type, Static<Schema>>
}

/** From a version to the next one: `{ 1: (data) => … }` makes version 2 out of version 1. */
type Upcasters = Readonly<Record<number, (data: never) => unknown>>
/** From an older type, whose meaning this one has changed, to today's data of this one. */
type Replacements = Readonly<Record<string, (data: never, version: number) => unknown>>

/** The fact that a definition, or a union of definitions, describes. */
export type FactOf<Definition> =
  Definition extends EventDefinition<infer Type, infer Schema> ? Fact<Type, Static<Schema>> : never

interface EventOptions {
  /** Of the data's shape. Default 1. */
  readonly version?: number
  /** One for each older version. */
  readonly upcasters?: Upcasters
  /** One for each older type that this one takes the place of. */
  readonly replaces?: Replacements
}

/** @throws {TypeError} for a type that is not `<component>.<entity>.<fact>`, or an older version that has no upcaster. */
export function defineEvent<const Type extends string, Schema extends TSchema>(
  type: Type,
  schema: Schema,
  { version = 1, upcasters = {}, replaces = {} }: EventOptions = {},
): EventDefinition<Type, Schema> {
  if (!/^[a-z0-9-]+(\.[a-z0-9-]+){2}$/.test(type)) throw new TypeError(`"${type}" is not <component>.<entity>.<fact>`)
  for (let older = 1; older < version; older++) {
    if (upcasters[older] === undefined) throw new TypeError(`${type} has no upcaster for its version ${older}`)
  }
  return { type, version, schema, upcasters, replaces, of: (data) => ({ type, data }) }
}

/** A fact as it lies on the bus. */
export interface StoredFact {
  readonly type: string
  readonly version: number
  readonly data: unknown
}

/** The facts an aggregate or a stream can hold: checks what is written, upcasts and checks what is read. */
export interface EventSet<F extends Fact> {
  readonly definitions: readonly EventDefinition[]
  /** @throws {MessageInvalid} when the fact is not in the set or its data breaks the schema. */
  store(fact: F): StoredFact
  /** @throws {MessageInvalid} also for a version newer than this program knows. */
  restore(stored: unknown): F
}

/** @throws {TypeError} when two definitions claim the same type. */
export function defineEvents<const Definitions extends readonly EventDefinition[]>(
  ...definitions: Definitions
): EventSet<FactOf<Definitions[number]>> {
  const byType = new Map<string, EventDefinition>()
  for (const definition of definitions) {
    for (const type of [definition.type, ...Object.keys(definition.replaces)]) {
      if (byType.has(type)) throw new TypeError(`${type} is defined twice`)
      byType.set(type, definition)
    }
  }
  const checks = new Map<EventDefinition, Validator>()
  const check = (definition: EventDefinition, data: unknown) => {
    const validator = checks.get(definition) ?? Compile(definition.schema)
    checks.set(definition, validator)
    if (validator.Check(data)) return
    const [first] = validator.Errors(data)
    throw new MessageInvalid(`${definition.type}${first?.instancePath ?? ''} ${first?.message ?? 'breaks its schema'}`)
  }
  return {
    definitions,
    store({ type, data }) {
      const definition = byType.get(type)
      if (definition?.type !== type) throw new MessageInvalid(`${type} is not an event that belongs here`)
      check(definition, data)
      return { type, version: definition.version, data }
    },
    restore(stored) {
      const { type, version, data } = storedFact(stored)
      const definition = byType.get(type)
      if (definition === undefined) throw new MessageInvalid(`${type} is not an event known here`)
      const current = upcast(definition, type, version, data)
      check(definition, current)
      return { type: definition.type, data: current } as FactOf<Definitions[number]>
    },
  }
}

function storedFact(value: unknown): StoredFact {
  const { type, version, data } = (value ?? {}) as Partial<StoredFact>
  if (typeof type !== 'string' || !Number.isInteger(version)) {
    throw new MessageMalformed('A fact has no type or no version')
  }
  return { type, version: version as number, data }
}

function upcast(definition: EventDefinition, type: string, version: number, data: unknown): unknown {
  if (type !== definition.type) return definition.replaces[type]!(data as never, version)
  if (version < 1 || version > definition.version) {
    throw new MessageInvalid(`${type} has version ${version}; this program knows 1 to ${definition.version}`)
  }
  let current = data
  for (let from = version; from < definition.version; from++) current = definition.upcasters[from]!(current as never)
  return current
}

/** What a subject's facts add up to. Pure: no I/O, no clock, no randomness. */
export interface Aggregate<State, F extends Fact> {
  readonly events: EventSet<F>
  readonly initial: State
  evolve(state: State, fact: F): State
  /** As `evolve` for one after the other, where that can be had for less. */
  evolveAll?(state: State, facts: readonly F[]): State
  /** Raised when the state's shape or `evolve` changes: states folded by an older one are then not believed. Default 1. */
  readonly stateVersion?: number
}

/** A decision: all its facts, stored together or not at all. */
export interface Message<F extends Fact = Fact> {
  /** Deterministic where it has a cause (see `causedId`). */
  readonly id: string
  readonly facts: readonly F[]
  /** The state after these facts, carried so that loading is one read. */
  readonly state?: { readonly version: number; readonly data: unknown }
  /** Where a message that carries none finds one. Absent: at the beginning. */
  readonly trail?: Trail
  /** Who decided: a user, a worker. */
  readonly actor?: string
  /** The id of the message this one follows from. */
  readonly causation?: string
  /** Shared by all that one request has set off. */
  readonly correlation?: string
  /** W3C traceparent. */
  readonly traceparent?: string
}

/** What lies between a message and the last one of its subject that carries the state. */
export interface Trail {
  /** That one's stream sequence; 0: there is none, everything is folded. */
  readonly base: number
  /** Of the facts since then, these included. */
  readonly bytes: number
  /** Of the state, as JSON, when it was last measured; 0: it was not. */
  readonly sizeBytes: number
}

/** What the subjects of the platform's messages begin with; other programs have others. */
export const platformRoots: readonly string[] = [
  'abort answers attempt backlog call capture cdc command count dead delivery due ended evt functions invocation log metric outcome',
  'projected provisioning session task timer waiting',
].flatMap((line) => line.split(' '))

/** A fresh message id, for a decision with no cause on the bus. */
export function newId(): string {
  return randomUUID()
}

/** The id of what follows from a cause: the same each time, so that doing it twice stores it once. */
export function causedId(cause: string, what: string): string {
  return `${cause}/${what}`
}

/** What one fact after the other makes of a state. */
export function evolved<State, F extends Fact>(aggregate: Aggregate<State, F>, state: State, facts: readonly F[]) {
  return aggregate.evolveAll?.(state, facts) ?? facts.reduce((folded, fact) => aggregate.evolve(folded, fact), state)
}

/** Of a message that comes with others of one decision; a body has its own limit. */
const partFacts = 500
const partLength = 4 * 1024 * 1024
/** So few are not worth measuring. */
const shortPart = 8

/**
 * Facts in their order, in parts that fit into a message each: for decisions that may be cut anywhere, because what is left of them
 * follows from what is stored.
 */
export function partsOf<F extends Fact>(facts: readonly F[]): readonly (readonly F[])[] {
  if (facts.length <= shortPart) return facts.length === 0 ? [] : [facts]
  const parts: F[][] = [[]]
  let length = 0
  for (const fact of facts) {
    const more = JSON.stringify(fact.data).length
    const last = parts.at(-1)!
    if (last.length > 0 && (last.length >= partFacts || length + more > partLength)) {
      parts.push([fact])
      length = more
    } else {
      last.push(fact)
      length += more
    }
  }
  return parts
}
