import { createHash } from 'node:crypto'
import { Type } from 'typebox'
import { type Aggregate, defineEvent, defineEvents, type EventSet } from '../../bus/message.ts'
import { Rejected } from '../failure.ts'
import type { TriggerState } from './trigger.ts'

const Holder = Type.Object({ triggerId: Type.String() }, { additionalProperties: false })

/** The key leads to this trigger from now on, and to no other. */
const WebhookKeyClaimed = defineEvent('workflows.webhook-key.claimed', Holder)
const WebhookKeyReleased = defineEvent('workflows.webhook-key.released', Holder)

const webhookKeyEvents = defineEvents(WebhookKeyClaimed, WebhookKeyReleased)
type WebhookKeyFact = typeof webhookKeyEvents extends EventSet<infer F> ? F : never

export interface WebhookKeyState {
  /** Null: it leads nowhere. */
  readonly triggerId: string | null
}

/**
 * Which trigger a webhook's key leads to. Subject `evt.workflows.webhook-key.<digest of the key>`, stream `EVT_WORKFLOWS`, written with
 * the trigger in one batch.
 */
export const webhookKey: Aggregate<WebhookKeyState, WebhookKeyFact> = {
  events: webhookKeyEvents,
  initial: { triggerId: null },
  evolve: (_state, { type, data }) => ({ triggerId: type === 'workflows.webhook-key.claimed' ? data.triggerId : null }),
}

/** What stands for a key in its subject. */
export function webhookKeyId(key: string): string {
  return createHash('sha256').update(key).digest('hex')
}

export interface WebhookKeyChange {
  readonly keyId: string
  /** @throws {Rejected} `workflows/trigger-exists` when the key leads to another trigger. */
  readonly decide: (state: WebhookKeyState) => readonly WebhookKeyFact[]
}

/** What becomes of keys when a trigger becomes another. */
export function webhookKeyChanges(
  triggerId: string,
  before: TriggerState,
  after: TriggerState,
): readonly WebhookKeyChange[] {
  const [held, wanted] = [keyOf(before), keyOf(after)]
  if (held === wanted) return []
  const changes: WebhookKeyChange[] = []
  if (held !== null) {
    const decide = (state: WebhookKeyState) =>
      state.triggerId === triggerId ? [WebhookKeyReleased.of({ triggerId })] : []
    changes.push({ keyId: webhookKeyId(held), decide })
  }
  if (wanted !== null) changes.push({ keyId: webhookKeyId(wanted), decide: (state) => decideClaim(state, triggerId) })
  return changes
}

function decideClaim({ triggerId: holder }: WebhookKeyState, triggerId: string): readonly WebhookKeyFact[] {
  if (holder === triggerId) return []
  if (holder === null) return [WebhookKeyClaimed.of({ triggerId })]
  throw new Rejected('workflows/trigger-exists', 'The key of the webhook is that of another trigger')
}

function keyOf(state: TriggerState): string | null {
  if (state.stage !== 'saved' || state.saved.type !== 'webhook') return null
  return (state.saved.config as { key?: string }).key ?? null
}
