import { JetStreamApiError } from '@nats-io/jetstream'
import { publish } from '../../bus/publish.ts'
import { deliverySubject } from '../../bus/subject.ts'
import { Rejected } from '../../schemas/failure.ts'
import { derivedId } from '../../schemas/workflows/derived-id.ts'
import type { Saved } from '../../schemas/workflows/trigger.ts'
import type { WebhookDelivery } from '../../schemas/workflows/trigger-batch.ts'
import type { WorkflowService } from './service.ts'

/**
 * Keeps a delivery for the execution that the scheduler starts with all that were gathered. One that is sent again is kept once.
 * @returns its id
 * @throws {Rejected} `http/too-many-requests` when too many wait already; {BusUnavailable}
 */
export async function gatherDelivery(
  { bus }: Pick<WorkflowService, 'bus'>,
  { triggerId }: Saved,
  { cause, delivery }: { readonly cause: string; readonly delivery: WebhookDelivery },
): Promise<string> {
  const id = derivedId(`trigger/${triggerId}/${cause}`)
  const subject = deliverySubject(triggerId)
  try {
    await publish(bus, { subject, body: JSON.stringify(delivery), headers: { 'Nats-Msg-Id': id } })
  } catch (error) {
    if (!(error instanceof JetStreamApiError)) throw error
    throw new Rejected('http/too-many-requests', 'Too many deliveries wait to be handed on', { cause: error })
  }
  return id
}
