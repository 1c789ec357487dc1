import { LRUCache } from 'lru-cache'
import type { Bus } from '../../bus/connect.ts'
import { readMessage } from '../../bus/load.ts'
import { asking } from '../../bus/publish.ts'
import { eventSubject } from '../../bus/subject.ts'
import { flowEvents } from '../../schemas/workflows/flow.ts'
import type { FlowPlan } from '../../schemas/workflows/flow-plan.ts'

const stream = 'EVT_WORKFLOWS'
const keptPlans = 1_000

export interface PinnedFlow {
  readonly flowId: string
  readonly revision: number
  /** Where the revision is likely to lie. */
  readonly flowSequence: number
}

/** The plans that executions are pinned to, read from the flows' own events. */
export class FlowPlans {
  readonly #bus: Bus
  readonly #plans = new LRUCache<string, Promise<FlowPlan>>({ max: keptPlans })

  constructor(bus: Bus) {
    this.#bus = bus
  }

  /** @throws {BusUnavailable}; {Error} when the revision is not there. */
  async get(pinned: PinnedFlow): Promise<FlowPlan> {
    const key = `${pinned.flowId}/${pinned.revision}`
    const known = this.#plans.get(key)
    if (known !== undefined) return await known
    const reading = this.#read(pinned)
    this.#plans.set(key, reading)
    reading.catch(() => this.#plans.delete(key))
    return await reading
  }

  async #read({ flowId, revision, flowSequence }: PinnedFlow): Promise<FlowPlan> {
    const subject = eventSubject('workflows', 'flow', flowId)
    const hinted = await this.#planAt(subject, flowSequence, revision)
    if (hinted !== null) return hinted.plan ?? (await this.#search(subject, revision))
    return await this.#search(subject, revision)
  }

  /** Whatever the hint was worth, the history has it. */
  async #search(subject: string, revision: number): Promise<FlowPlan> {
    for (let sequence = 1; ; ) {
      const found = await this.#planAt(subject, sequence, revision)
      if (found === null) throw new Error(`${subject} has no revision ${revision}`)
      if (found.plan !== null) return found.plan
      sequence = found.sequence + 1
    }
  }

  /** Of the first message of the subject from a sequence on; null when there is none. */
  async #planAt(subject: string, from: number, revision: number) {
    const stored = await asking(this.#bus, () =>
      this.#bus.manager.direct.getMessage(stream, { seq: from, next_by_subj: subject }),
    )
    if (stored === null) return null
    const { facts } = await readMessage(this.#bus, flowEvents, stored)
    for (const fact of facts) {
      if (fact.type === 'workflows.flow.revised' && fact.data.revision === revision) {
        return { sequence: stored.seq, plan: fact.data.plan }
      }
    }
    return { sequence: stored.seq, plan: null }
  }
}
