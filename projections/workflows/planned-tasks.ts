import { LRUCache } from 'lru-cache'
import { type Bus, BusUnavailable } from '../../bus/connect.ts'
import { readMessage } from '../../bus/load.ts'
import { asking } from '../../bus/publish.ts'
import { eventSubject } from '../../bus/subject.ts'
import { flowEvents } from '../../schemas/workflows/flow.ts'
import type { FlowPlan, TaskPlan } from '../../schemas/workflows/flow-plan.ts'

/** A task run that is known before anything has run. */
export interface PlannedTask {
  readonly run: string
  readonly task_name: string
  readonly task_type: string
  /** `WAITING` for the task before it or around it. */
  readonly status: 'PENDING' | 'WAITING'
}

interface PinnedFlow {
  readonly flowId: string
  readonly revision: number
  /** Where the revision is likely to lie. */
  readonly flowSequence: number
}

/** How often what is in them runs is decided by the items. */
const loops = new Set(['core.foreach', 'flow.while'])
const otherwiseRun = new Set(['errors', 'finally'])
const stream = 'EVT_WORKFLOWS'
const known = new LRUCache<string, readonly PlannedTask[]>({ max: 1_000 })

/** The task runs of an execution that can be told from its flow, in the order in which they are written. @throws {BusUnavailable} */
export async function plannedTasks(bus: Bus, pinned: PinnedFlow): Promise<readonly PlannedTask[]> {
  const key = `${pinned.flowId}/${pinned.revision}`
  const found = known.get(key)
  if (found !== undefined) return found
  const plan = await planOf(bus, pinned)
  if (plan === null) return []
  const tasks = [...planned(plan.tasks, null)]
  known.set(key, tasks)
  return tasks
}

function* planned(tasks: readonly TaskPlan[], around: string | null): Generator<PlannedTask> {
  for (const { name, type, needs, blocks } of tasks) {
    const run = around === null ? name : `${around}.${name}`
    const status = around === null && needs.length === 0 ? 'PENDING' : 'WAITING'
    yield { run, task_name: name, task_type: type, status }
    if (loops.has(type)) continue
    for (const [block, inner] of Object.entries(blocks)) if (!otherwiseRun.has(block)) yield* planned(inner, run)
  }
}

/** Null when there is none that can be read: then its tasks are told as they come. */
async function planOf(bus: Bus, { flowId, revision, flowSequence }: PinnedFlow): Promise<FlowPlan | null> {
  const subject = eventSubject('workflows', 'flow', flowId)
  try {
    for (let from = flowSequence, hinted = true; ; hinted = false) {
      const query = { seq: from, next_by_subj: subject }
      const stored = await asking(bus, () => bus.manager.direct.getMessage(stream, query))
      if (stored !== null) {
        const { facts } = await readMessage(bus, flowEvents, stored)
        for (const { type, data } of facts) {
          if (type === 'workflows.flow.revised' && data.revision === revision) return data.plan
        }
      } else if (!hinted) return null
      from = hinted || stored === null ? 1 : stored.seq + 1
    }
  } catch (error) {
    if (error instanceof BusUnavailable) throw error
    return null
  }
}
