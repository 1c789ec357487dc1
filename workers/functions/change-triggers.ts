import type { Bus } from '../../bus/connect.ts'
import type { ConsumeObservation } from '../../bus/consume.ts'
import { type FollowObservation, follow } from '../../bus/follow.ts'
import type { Delivery } from '../../bus/handle.ts'
import { tableSubject } from '../../bus/subject.ts'
import type { ChangeEvent } from '../../schemas/data/change.ts'
import { wantsChange } from '../../schemas/data/change-filter.ts'
import { type DeployedState, functionAggregate, placed } from '../../schemas/functions/function.ts'
import { callTarget } from '../../schemas/functions/target.ts'
import { type ChangeTrigger, isCron } from '../../schemas/functions/trigger.ts'
import { changePlace, changeReader } from '../change-reader.ts'
import { triggerInvocation } from './invocations.ts'

export interface ChangeTriggersOptions {
  /** `app.nats.stream-name`. */
  readonly changeStream: string
  /** `app.changes.source`. */
  readonly source: string
  /** No function has this id any more. */
  readonly onGone: (functionId: string) => void
  readonly onObservation: (observation: ConsumeObservation | FollowObservation) => void
}

interface Wanted {
  readonly id: string
  readonly state: DeployedState
  readonly trigger: ChangeTrigger
}

const consumer = 'workers-functions-change-triggers'

/**
 * Calls functions with the changes of their tables, each change once. Changes are read only while a function wants some; the consumer
 * begins with the first trigger's time, so that nothing is missed between the trigger's answer and the first reading.
 */
export async function serveChangeTriggers(
  bus: Bus,
  options: ChangeTriggersOptions,
  signal: AbortSignal,
): Promise<void> {
  const { changeStream, source, onObservation } = options
  const functions = new Map<string, DeployedState>()
  let byTable = new Map<string, Wanted[]>()
  const handle = async (table: string, delivery: Delivery) => {
    for (const wanted of byTable.get(table) ?? []) await fire(bus, wanted, delivery)
  }
  const reader = changeReader(bus, { changeStream, source, consumer, handle, onObservation }, signal)
  // Before all are known, a change would find only some of the functions that want it.
  let known = false
  const update = () => {
    if (!known) return
    byTable = tablesOf(functions, source)
    if (byTable.size > 0) reader.begin(firstTime(byTable))
  }
  const follower = await follow(bus, {
    stream: 'EVT_FUNCTIONS',
    subject: 'evt.functions.function',
    aggregate: functionAggregate,
    onState: (id, found, sequence) => {
      const state = placed(found, sequence)
      if (state.stage === 'absent') options.onGone(id)
      const wants = state.stage === 'deployed' && state.triggers.some((trigger) => !isCron(trigger))
      if (wants) functions.set(id, state)
      else if (!functions.delete(id)) return
      update()
    },
    onObservation,
  })
  known = true
  update()
  await new Promise((resolve) => {
    if (signal.aborted) resolve(undefined)
    else signal.addEventListener('abort', resolve, { once: true })
  })
  await follower.close()
  await reader.ended()
}

function tablesOf(functions: ReadonlyMap<string, DeployedState>, source: string): Map<string, Wanted[]> {
  const byTable = new Map<string, Wanted[]>()
  for (const [id, state] of functions) {
    for (const trigger of state.triggers) {
      if (isCron(trigger)) continue
      const subject = tableSubject(source, trigger.schema ?? 'public', trigger.table)
      byTable.set(subject, [...(byTable.get(subject) ?? []), { id, state, trigger }])
    }
  }
  return byTable
}

function firstTime(byTable: ReadonlyMap<string, readonly Wanted[]>): number {
  return Math.min(...[...byTable.values()].flat().map(({ state }) => state.triggersSetAt))
}

async function fire(bus: Bus, { id, state, trigger }: Wanted, delivery: Delivery): Promise<void> {
  const { data, at } = delivery
  // By the bus's time: that of the commit is another machine's.
  if (at < state.triggersSetAt) return
  if (!wantsChange(trigger, JSON.parse(Buffer.from(data).toString('utf8')) as ChangeEvent)) return
  await triggerInvocation(bus, callTarget(id, state), {
    id: ['change', trigger.name, ...changePlace(delivery)],
    path: `/invoke/${id}`,
    body: data,
  })
}
