import { type Bus, BusUnavailable } from '../../bus/connect.ts'
import { type ConsumeObservation, consume } from '../../bus/consume.ts'
import { load } from '../../bus/load.ts'
import { readPage } from '../../bus/page.ts'
import { asking } from '../../bus/publish.ts'
import { deliverySubject, dueSubjects, eventSubject, unescapeToken } from '../../bus/subject.ts'
import { setTimer } from '../../bus/timers.ts'
import { Rejected } from '../../schemas/failure.ts'
import { execution } from '../../schemas/workflows/execution.ts'
import { flow } from '../../schemas/workflows/flow.ts'
import { type SavedTrigger, trigger } from '../../schemas/workflows/trigger.ts'
import {
  batchCount,
  batchDueAt,
  batchPurpose,
  type Gathered,
  type WebhookDelivery,
} from '../../schemas/workflows/trigger-batch.ts'
import type { TriggerConfig } from '../../schemas/workflows/trigger-plan.ts'
import { fireTrigger, type RefusedObservation, tellRefused } from './fire.ts'
import { triggerPlace, triggerStream } from './trigger-view.ts'

const stream = 'DELIVERIES'
/** Of the deliveries that one execution gets, but for a first one that is larger. */
const maxBatchBytes = 2 * 1024 ** 2
/** How often is looked whether they may start an execution. */
const heldMs = 60_000
/** What one has in hand who dies goes to another before long: deliveries are not to be late. */
const ackWaitMs = 1_000
/** Fetched at a time. */
const pageSize = 100

type Observe = (observation: ConsumeObservation | RefusedObservation) => void

/**
 * Starts executions with the deliveries that webhooks have gathered. They lie in the order in which they came until the execution that got
 * them is stored, whose id is made of the first of them: so each is in one execution, however many schedulers look and wherever one dies.
 */
export async function serveBatches(bus: Bus, onObservation: Observe, signal: AbortSignal): Promise<void> {
  const look = oneAtATime((triggerId) => handOn(bus, triggerId, onObservation))
  const own = { concurrency: 64, ackWaitMs, onObservation }
  const deliveries = consume(
    bus,
    {
      ...own,
      stream,
      consumer: 'workers-scheduler-deliveries',
      handle: ({ subject }) => look(unescapeToken(subject.slice(subject.lastIndexOf('.') + 1))),
    },
    signal,
  )
  const due = consume(
    bus,
    {
      ...own,
      stream: 'TIMERS',
      consumer: 'workers-scheduler-batches',
      subjects: [dueSubjects(batchPurpose)],
      handle: ({ data }) => look((JSON.parse(Buffer.from(data).toString('utf8')) as { triggerId: string }).triggerId),
    },
    signal,
  )
  await Promise.all([deliveries, due])
}

/** Whoever asks while it is done has it done once more, and all who do so together. */
function oneAtATime(work: (id: string) => Promise<void>): (id: string) => Promise<void> {
  const running = new Map<string, { readonly now: Promise<void>; next: Promise<void> | null }>()
  const ask = (id: string): Promise<void> => {
    const known = running.get(id)
    if (known !== undefined) {
      known.next ??= known.now.catch(() => undefined).then(() => ask(id))
      return known.next
    }
    const now = work(id).finally(() => running.delete(id))
    running.set(id, { now, next: null })
    return now
  }
  return ask
}

async function handOn(bus: Bus, triggerId: string, onObservation: Observe): Promise<void> {
  const subject = deliverySubject(triggerId)
  for (;;) {
    const { state } = await load(bus, trigger, triggerPlace(triggerId))
    if (state.stage !== 'saved') {
      await purge(bus, { filter: subject })
      return
    }
    const config = state.saved.config as TriggerConfig<'webhook'>
    const gathered = await gatheredOf(bus, subject)
    if (gathered === null) return
    const at = batchDueAt(config, gathered)
    // The bus's clock, which its times are of, may be ahead of ours; then the timer goes off once more.
    if (at === null || at > Date.now()) {
      if (at !== null) await setTimer(bus, { purpose: batchPurpose, id: triggerId, at, body: { triggerId } })
      return
    }
    if (!(await mayStart(bus, state, onObservation))) {
      await setTimer(bus, { purpose: batchPurpose, id: triggerId, at: Date.now() + heldMs, body: { triggerId } })
      return
    }
    const waiting = await firstOf(bus, subject, batchCount(config))
    // Else another scheduler was faster, and those that are left may have to wait for more.
    if (waiting[0]?.sequence === gathered.first) await startWith(bus, state, waiting, onObservation)
  }
}

/** What was taken stays until the flow, or the trigger, is enabled again. */
async function mayStart(bus: Bus, { enabled, saved }: SavedTrigger, onObservation: Observe): Promise<boolean> {
  const subject = eventSubject('workflows', 'flow', saved.flowId)
  const { state } = await load(bus, flow, { stream: triggerStream, subject })
  if (state.stage !== 'saved' || state.enabled) return enabled
  await tellRefused(bus, saved, new Rejected('workflows/flow-disabled', 'The flow is disabled'), onObservation)
  return false
}

/**
 * Null when there are none. The first is read before they are counted: while it is the first, none of those that were counted is gone.
 */
async function gatheredOf(bus: Bus, subject: string): Promise<(Gathered & { readonly first: number }) | null> {
  const { direct, streams } = bus.manager
  const first = await asking(bus, () => direct.getMessage(stream, { seq: 1, next_by_subj: subject }))
  if (first === null) return null
  const { state } = await asking(bus, () => streams.info(stream, { subjects_filter: subject }))
  const last = await asking(bus, () => direct.getMessage(stream, { last_by_subj: subject }))
  const [firstAt, lastAt] = [first.time.getTime(), (last ?? first).time.getTime()]
  return { count: state.subjects?.[subject] ?? 0, first: first.seq, firstAt, lastAt }
}

interface Waiting {
  readonly sequence: number
  readonly delivery: WebhookDelivery
}

async function firstOf(bus: Bus, subject: string, count: number): Promise<readonly Waiting[]> {
  const found: Waiting[] = []
  let bytes = 0
  for (let seq = 1; found.length < count; ) {
    const batch = Math.min(pageSize, count - found.length)
    const page = await readPage(bus, stream, { seq, next_by_subj: subject, batch })
    for (const { data, seq: sequence } of page) {
      bytes += data.length
      if (bytes > maxBatchBytes && found.length > 0) return found
      found.push({ sequence, delivery: JSON.parse(Buffer.from(data).toString('utf8')) })
    }
    if (page.length === 0) return found
    seq = page.at(-1)!.seq + 1
  }
  return found
}

async function startWith(bus: Bus, state: SavedTrigger, waiting: readonly Waiting[], onObservation: Observe) {
  const deliveries = waiting.map(({ delivery }) => ({ ...delivery, at: new Date(delivery.at).toISOString() }))
  const brings = {
    count: deliveries.length,
    body: deliveries.map(({ body }) => body),
    deliveries,
    through: waiting.at(-1)!.sequence,
  }
  const firing = { cause: `batch/${waiting[0]!.sequence}`, brings, at: Date.now() }
  const executionId = await fireTrigger(bus, state, firing, onObservation)
  const through = executionId === null ? brings.through : await throughOf(bus, executionId)
  const filter = deliverySubject(state.saved.triggerId)
  await purge(bus, { filter, seq: through + 1 })
}

/** Which deliveries the execution has that is stored: another scheduler may have started it with fewer. */
async function throughOf(bus: Bus, executionId: string): Promise<number> {
  const subject = eventSubject('executions', 'execution', executionId)
  const { state } = await load(bus, execution, { stream: 'EVT_EXECUTIONS', subject })
  const through = state.created?.trigger.through
  if (typeof through !== 'number') throw new BusUnavailable(`The execution ${executionId} is not there`)
  return through
}

async function purge(bus: Bus, options: { readonly filter: string; readonly seq?: number }): Promise<void> {
  await asking(bus, () => bus.manager.streams.purge(stream, options as never))
}
