import { setImmediate as nextTurn } from 'node:timers/promises'
import { Type } from 'typebox'
import { TaskFailure } from '../plugin.ts'
import { maxRows } from './expression.ts'

const itemsATurn = 2_000

/** The list that a plugin works on. */
export function Items(example: unknown, description = 'The list, or a text that is JSON of one') {
  return Type.Union([Type.Array(Type.Unknown()), Type.String()], { description, examples: [example] })
}

/** A JSONata expression. */
export function Expression(description: string, example: string) {
  return Type.String({ description: `${description}; a path, or any JSONata expression`, examples: [example] })
}

/** @throws {TaskFailure} `refused` when it is no list, or too long a one */
export function listOf(given: unknown, place: string): readonly unknown[] {
  let list = given
  if (typeof given === 'string') {
    try {
      list = JSON.parse(given)
    } catch (cause) {
      throw new TaskFailure('refused', `${place} is no list`, cause)
    }
  }
  if (!Array.isArray(list)) throw new TaskFailure('refused', `${place} is no list`)
  if (list.length > maxRows) throw new TaskFailure('refused', `${place} has more than ${maxRows} items`)
  return list
}

/** Goes through a list that may be long, and lets the worker's other tasks have their turns. @throws the signal's reason */
export async function visitEach<Item>(
  items: readonly Item[],
  signal: AbortSignal,
  visit: (item: Item, index: number) => void,
): Promise<void> {
  for (const [index, item] of items.entries()) {
    if (index % itemsATurn === itemsATurn - 1) {
      await nextTurn()
      signal.throwIfAborted()
    }
    visit(item, index)
  }
}

/** The same text for values that are equal as JSON, whatever the order of their keys. */
export function keyOf(value: unknown): string {
  return JSON.stringify(value, (_key, inner: unknown) => {
    if (inner === null || typeof inner !== 'object' || Array.isArray(inner)) return inner
    return Object.fromEntries(Object.entries(inner).sort(([a], [b]) => (a < b ? -1 : a > b ? 1 : 0)))
  })
}

/** A key as it is compared across sources: numbers and texts of them are the same. */
export function looseKeyOf(value: unknown): string {
  return value !== null && typeof value === 'object' ? keyOf(value) : String(value)
}
