import { TaskFailure, type TaskRun } from '../plugin.ts'
import { offThread } from './off-thread.ts'

type Given = Pick<TaskRun<unknown>, 'signal'>

const module = new URL('./expression-thread.ts', import.meta.url).href
/** A path of plain names means the same everywhere, and needs no thread while it meets no lists. */
const plainPath = /^[A-Za-z_]\w*(\.[A-Za-z_]\w*)*$/
const words: ReadonlySet<string> = new Set(['and', 'or', 'in', 'true', 'false', 'null', 'function'])
const maxExpression = 20_000

export const maxRows = 1_000_000

/**
 * What a JSONata expression gives for each item; `$index` and `$items` are bound beside `bindings`, nothing found is null.
 *
 * @param place the property it was written in, for the failure's text
 * @throws {TaskFailure} `refused` naming the place
 */
export async function evaluateEach(
  given: Given,
  { place, expression, items, bindings = {} }: EachExpression,
): Promise<readonly unknown[]> {
  checkLength(place, expression)
  return plainValues(expression, items) ?? (await inThread(given, place, 'each', { expression, items, bindings }))
}

/** What a JSONata expression gives for a value; nothing found is null. @throws {TaskFailure} `refused` naming the place */
export async function evaluate(
  given: Given,
  place: string,
  expression: string,
  value: unknown,
  bindings: Readonly<Record<string, unknown>> = {},
): Promise<unknown> {
  checkLength(place, expression)
  return await inThread(given, place, 'once', { expression, value, bindings })
}

/** Folds items: the expression sees the item, `$accumulator`, `$index` and `$items`. @throws {TaskFailure} as above */
export async function evaluateFold(
  given: Given,
  { place, expression, items, initial }: Omit<EachExpression, 'bindings'> & { readonly initial: unknown },
): Promise<unknown> {
  checkLength(place, expression)
  return await inThread(given, place, 'fold', { expression, items, initial })
}

export interface EachExpression {
  readonly place: string
  readonly expression: string
  readonly items: readonly unknown[]
  readonly bindings?: Readonly<Record<string, unknown>>
}

async function inThread<Result>({ signal }: Given, place: string, call: string, argument: unknown): Promise<Result> {
  try {
    return await offThread<Result>({ module, call, argument }, signal)
  } catch (error) {
    if (error instanceof TaskFailure) throw new TaskFailure(error.kind, `${place}: ${error.message}`, error)
    throw error
  }
}

function checkLength(place: string, expression: string): void {
  if (expression.trim() === '') throw new TaskFailure('refused', `${place} is empty`)
  if (expression.length > maxExpression) throw new TaskFailure('refused', `${place} is longer than ${maxExpression}`)
}

/** Null when it is no plain path, or when a list is on the way. */
function plainValues(expression: string, items: readonly unknown[]): readonly unknown[] | null {
  const steps = expression.trim().split('.')
  if (!plainPath.test(expression.trim()) || steps.some((step) => words.has(step))) return null
  const values: unknown[] = []
  for (const item of items) {
    let value = item
    for (const step of steps) {
      if (Array.isArray(value)) return null
      const isInside = value !== null && typeof value === 'object' && Object.hasOwn(value, step)
      value = isInside ? (value as Record<string, unknown>)[step] : null
    }
    values.push(value ?? null)
  }
  return values
}
