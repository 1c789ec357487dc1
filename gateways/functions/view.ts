import type { Bus } from '../../bus/connect.ts'
import { type Follower, type FollowObservation, follow } from '../../bus/follow.ts'
import {
  type DeployedState,
  type FunctionState,
  functionAggregate,
  notFound,
  placed,
} from '../../schemas/functions/function.ts'
import { type CallTarget, callTarget } from '../../schemas/functions/target.ts'

export interface FunctionEntry {
  readonly id: string
  readonly state: DeployedState
  readonly target: CallTarget
}

/** The functions as this gateway knows them; its own decisions are in it before they are answered. */
export interface FunctionView {
  readonly size: number
  has(id: string): boolean
  /** @throws {Rejected} `functions/not-found` */
  get(id: string): FunctionEntry
  /** By id. */
  all(): readonly FunctionEntry[]
  passed: Follower['passed']
  close(): Promise<void>
}

/** @throws {BusUnavailable} */
export async function openFunctionView(
  bus: Bus,
  onObservation: (observation: FollowObservation) => void,
): Promise<FunctionView> {
  const entries = new Map<string, FunctionEntry>()
  const follower = await follow(bus, {
    stream: 'EVT_FUNCTIONS',
    subject: 'evt.functions.function',
    aggregate: functionAggregate,
    onState: (id, state, sequence) => {
      const entry = entryOf(id, placed(state, sequence))
      if (entry === null) entries.delete(id)
      else entries.set(id, entry)
    },
    onObservation,
  })
  return {
    get size() {
      return entries.size
    },
    has: (id) => entries.has(id),
    get(id) {
      const entry = entries.get(id)
      if (entry === undefined) throw notFound(id)
      return entry
    },
    all: () => [...entries.values()].sort((one, other) => (one.id < other.id ? -1 : 1)),
    passed: (messageId, timeoutMs) => follower.passed(messageId, timeoutMs),
    close: () => follower.close(),
  }
}

function entryOf(id: string, state: FunctionState): FunctionEntry | null {
  if (state.stage === 'absent') return null
  return { id, state, target: callTarget(id, state) }
}
