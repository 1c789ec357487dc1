import type { BegunLoop, Carried } from './execution-facts.ts'
import { childPrefix, type Run } from './execution-state.ts'

/**
 * What is done below a prefix, by key behind it, for an execution that goes on from there: runs that have succeeded, and loops that are
 * not through. What was skipped is asked again.
 */
export function doneUnder(runs: Readonly<Record<string, Run>>, prefix: string): Readonly<Record<string, Carried>> {
  const done: Record<string, Carried> = {}
  for (const [key, run] of Object.entries(runs)) {
    if (!key.startsWith(prefix) || key.includes('[', prefix.length)) continue
    const carried = run.status === 'success' ? throughRun(run, 'success') : begunLoop(runs, key)
    if (carried !== null) done[key.slice(prefix.length)] = carried
  }
  return done
}

/** A run that need not be run again. */
export function throughRun({ outputs, loop }: Run, status: 'success' | 'skipped'): Carried {
  // What failed in a loop was allowed to; a hole is what nobody has come to.
  const iterations = loop && Array.from(loop.results, (each) => each ?? null)
  return { status, ...(outputs && { outputs }), ...(iterations && { iterations }) }
}

/** How far a loop has come that is not through; null for what is none, or has not begun. */
export function begunLoop(runs: Readonly<Record<string, Run>>, key: string): BegunLoop | null {
  const { opening, loop, status } = runs[key] ?? {}
  if (!loop || status === 'success' || (opening?.kind !== 'items' && opening?.kind !== 'round')) return null
  // Folded when it was not kept which have failed.
  if (loop.failed > Object.keys(loop.broken ?? {}).length) return null
  const due: Record<string, Readonly<Record<string, Carried>>> = { ...loop.due, ...loop.broken }
  for (const index of loop.live) due[index] = doneUnder(runs, childPrefix(key, index))
  const iterations = Array.from(loop.results, (each, index) => (due[index] === undefined ? (each ?? null) : null))
  if (opening.kind === 'items') return { status: 'begun', opening, next: loop.next, iterations, due }
  // Of rounds there is one at a time; behind one that is through its condition is asked again.
  const next = due[opening.round] === undefined ? loop.next : opening.round
  return { status: 'begun', opening: { ...opening, goOn: true }, next, iterations, due }
}
