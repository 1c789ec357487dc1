import { type Static, Type } from 'typebox'
import { parseDuration } from './duration.ts'
import { maxBatchCount, type TriggerConfig } from './trigger-plan.ts'

/** What a webhook was sent. Subject `delivery.<trigger>`, stream `DELIVERIES`. */
export const WebhookDelivery = Type.Object({
  at: Type.Integer({ description: 'epoch ms' }),
  method: Type.String(),
  headers: Type.Record(Type.String(), Type.Unknown()),
  query: Type.Record(Type.String(), Type.Unknown()),
  body: Type.Unknown(),
})
export type WebhookDelivery = Static<typeof WebhookDelivery>

/** The timers that look after gathered deliveries: `timer.deliveries.<trigger>`. */
export const batchPurpose = 'deliveries'

/** Deliveries of a webhook that have been gathered; times are epoch ms. */
export interface Gathered {
  readonly count: number
  readonly firstAt: number
  readonly lastAt: number
}

/** How many of them one execution gets. A webhook that gathers no longer hands on what it has. */
export function batchCount(config: TriggerConfig<'webhook'>): number {
  return config.batch?.count ?? maxBatchCount
}

/** When they start an execution, epoch ms; 0: now; null: not before more of them have come. */
export function batchDueAt(config: TriggerConfig<'webhook'>, { count, firstAt, lastAt }: Gathered): number | null {
  const { batch } = config
  if (batch === undefined || count >= batchCount(config)) return 0
  const { window, debounce } = batch
  const times = [
    ...(window === undefined ? [] : [firstAt + parseDuration(window)!]),
    ...(debounce === undefined ? [] : [lastAt + parseDuration(debounce)!]),
  ]
  return times.length === 0 ? null : Math.min(...times)
}
