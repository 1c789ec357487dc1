import type { Bus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { eventSubject } from '../../bus/subject.ts'
import type { ConcurrencyPlan } from '../../schemas/workflows/flow-plan.ts'
import { decideRelease, decideRequest, slots } from '../../schemas/workflows/slots.ts'
import { sendCommand } from './follow-ups.ts'

/** Asks for a place of the flow; the answer comes to the execution as a command. @throws {BusUnavailable} */
export async function requestSlot(
  bus: Bus,
  { flowId, executionId, concurrency }: { flowId: string; executionId: string; concurrency: ConcurrencyPlan },
): Promise<void> {
  const { state } = await decide(bus, {
    ...place(flowId),
    aggregate: slots,
    decide: (before) => decideRequest(before, executionId, concurrency),
  })
  const granted = state.holders.includes(executionId)
  if (!granted && state.waiting.includes(executionId)) return
  await sendCommand(bus, executionId, { type: 'slot', granted }, `${executionId}/slot/${granted}`)
}

/** Gives a place back, and on to whoever waits for one. @throws {BusUnavailable} */
export async function releaseSlot(bus: Bus, flowId: string, executionId: string, limit: number): Promise<void> {
  const { state } = await decide(bus, {
    ...place(flowId),
    aggregate: slots,
    decide: (before) => decideRelease(before, executionId, limit),
  })
  // Also those that were given one before and may not have heard of it.
  for (const holder of state.unheard) {
    await sendCommand(bus, holder, { type: 'slot', granted: true }, `${holder}/slot/true`)
  }
}

function place(flowId: string) {
  return { stream: 'EVT_WORKFLOWS', subject: eventSubject('workflows', 'slots', flowId) }
}
