import { Rejected } from '../failure.ts'

/** Executions that start one another, by sub-flows, listeners and triggers: a flow that starts itself would never come to an end. */
const maxLinks = 50

/**
 * The place of an execution in the chain that the one with this trigger would start: kept as `depth` in its own trigger.
 *
 * @throws {Rejected} `workflows/execution-state` where the chain is too long
 */
export function nextDepth(trigger: Readonly<Record<string, unknown>>): number {
  const depth = depthOf(trigger) + 1
  if (depth <= maxLinks) return depth
  throw new Rejected('workflows/execution-state', `Flows have started each other ${maxLinks} times in a row`)
}

function depthOf({ depth }: Readonly<Record<string, unknown>>): number {
  return typeof depth === 'number' ? depth : 0
}
