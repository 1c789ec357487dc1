import type { Bus } from '../../bus/connect.ts'
import { Rejected } from '../../schemas/failure.ts'
import { Draft } from '../../schemas/workflows/execution.ts'
import { begunLoop, doneUnder } from '../../schemas/workflows/execution-carried.ts'
import type { BegunLoop, Carried, Due } from '../../schemas/workflows/execution-facts.ts'
import {
  childPrefix,
  type ExecutionState,
  initialExecution,
  type Run,
} from '../../schemas/workflows/execution-state.ts'
import { invalid } from '../http/request.ts'
import { executionHistory } from './execution-commands.ts'

type Runs = Readonly<Record<string, Run>>

/** An iteration around a task run: `orders[2].` of `orders[2].pay`. */
interface Around {
  /** Key of the loop. */
  readonly loop: string
  readonly index: number
  readonly prefix: string
}

/** The iterations around a task run, from the outside in. */
export function iterationsAround(run: string): readonly Around[] {
  return [...run.matchAll(/\[(\d{1,9})\]\./g)].map((found) => {
    const [loop, index] = [run.slice(0, found.index), Number(found[1])]
    return { loop, index, prefix: childPrefix(loop, index) }
  })
}

/**
 * The outermost loop around a task run as it was when the run's iteration came to it: what is through in iterations before it, and in its
 * own but for the tasks that are to be done again, stays done; those behind it have not begun.
 *
 * @throws {Rejected} `http/bad-request` for an iteration that never began; `workflows/execution-state` for one that another execution has
 *   done, whose history does not say what was in it
 */
export async function loopFrom(
  bus: Bus,
  state: ExecutionState,
  run: string,
  again: ReadonlySet<string>,
): Promise<{ readonly key: string; readonly begun: BegunLoop }> {
  const around = iterationsAround(run)
  const ended = await endedIterations(bus, state.created!.executionId, around)
  const rewound = (runs: Runs, level: number): BegunLoop => {
    const { loop, index, prefix } = around[level]!
    const begun = wholeLoop(state, runs, loop)
    if (index >= runs[loop]!.loop!.next) throw invalid('fromTask', `is in an iteration of ${loop} that never began`)
    const inside = Object.keys(runs).some((key) => key.startsWith(prefix)) ? runs : ended.get(prefix)
    const known = inside === undefined ? begun.due[index] : doneUnder(inside, prefix)
    const inner = around[level + 1]
    if (known === undefined || (inner !== undefined && inside === undefined)) throw doneElsewhere(state, prefix)
    const kept = Object.entries(known).filter(([key]) => !again.has(key.slice(key.lastIndexOf('.') + 1)))
    const done: Record<string, Carried> = Object.fromEntries(kept)
    if (inner !== undefined) done[inner.loop.slice(prefix.length)] = rewound(inside!, level + 1)
    return upTo(begun, index, done)
  }
  return { key: around[0]!.loop, begun: rewound(state.runs, 0) }
}

/** A loop with all it has done, whether or not it was through. */
function wholeLoop(state: ExecutionState, runs: Runs, loop: string): BegunLoop {
  const run = runs[loop]
  if (run === undefined) throw invalid('fromTask', `is in the loop ${loop}, which never began`)
  const begun = begunLoop({ ...runs, [loop]: { ...run, status: 'open' } }, loop)
  if (begun === null) throw doneElsewhere(state, loop)
  return begun
}

function upTo({ opening, iterations, due: left }: BegunLoop, index: number, done: Record<string, Carried>): BegunLoop {
  // Those before it that have failed are done again from where they have.
  const due: Due = {
    ...Object.fromEntries(Object.entries(left).filter(([each]) => Number(each) < index)),
    [index]: done,
  }
  const before = Array.from({ length: index }, (_, each) =>
    due[each] === undefined ? (iterations[each] ?? null) : null,
  )
  const common = { status: 'begun', iterations: before, due } as const
  if (opening.kind !== 'round') return { ...common, opening, next: index + 1 }
  return { ...common, opening: { ...opening, round: index, goOn: true }, next: index }
}

/** What was in these iterations when they ended, by prefix: the state has only what they gave. */
async function endedIterations(
  bus: Bus,
  executionId: string,
  wanted: readonly Around[],
): Promise<ReadonlyMap<string, Runs>> {
  const prefixes = new Set(wanted.map(({ prefix }) => prefix))
  const found = new Map<string, Runs>()
  const draft = new Draft(initialExecution)
  for await (const { message } of executionHistory(bus, executionId)) {
    for (const fact of message.facts) {
      if (fact.type === 'executions.task.iteration-ended') {
        const prefix = childPrefix(fact.data.run, fact.data.index)
        if (prefixes.has(prefix)) found.set(prefix, runsUnder(draft.state.runs, prefix))
      }
      draft.apply(fact)
    }
  }
  return found
}

function runsUnder(runs: Runs, prefix: string): Runs {
  return Object.fromEntries(Object.entries(runs).filter(([key]) => key.startsWith(prefix)))
}

function doneElsewhere({ created }: ExecutionState, place: string): Rejected {
  const before = created!.origin?.executionId
  const hint = before === undefined ? 'Restart from the loop itself.' : `Restart the execution ${before} from there.`
  const text = `This execution has not run ${place.replace(/\.$/, '')} itself: it goes on from another one`
  return new Rejected('workflows/execution-state', text, {
    details: { field: 'fromTask', origin: before ?? null },
    hint,
  })
}
