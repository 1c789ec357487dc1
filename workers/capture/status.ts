import type { NatsConnection } from '@nats-io/nats-core'
import { captureSubject } from '../../bus/subject.ts'
import type { CaptureStatus } from '../../schemas/data/capture-status.ts'

const repeatMs = 5_000

/** Tells the gateways how the capture stands: on every call, on request, and every few seconds so that they know it lives. */
export function announceStatus(bus: NatsConnection, status: () => CaptureStatus): { announce(): void; close(): void } {
  const { source } = status()
  const announce = () => {
    // While the bus is away nobody listens; the next repetition tells.
    if (!bus.isClosed()) bus.publish(captureSubject(source, 'status'), JSON.stringify({ ...status(), at: Date.now() }))
  }
  const asked = bus.subscribe(captureSubject(source, 'ask'), { callback: announce })
  const timer = setInterval(announce, repeatMs)
  return {
    announce,
    close() {
      clearInterval(timer)
      if (!bus.isClosed()) asked.unsubscribe()
    },
  }
}
