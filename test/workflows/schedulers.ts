import { connectBus } from '../../bus/connect.ts'
import { type SchedulerObservation, type SchedulerOptions, startScheduler } from '../../workers/scheduler/scheduler.ts'
import type { testNats } from '../support/servers.ts'

/** Schedulers that share a bus, each with a connection of its own. Those that run still are stopped with the test. */
export function schedulers(t: Tap, url: string, onObservation: (observation: SchedulerObservation) => void) {
  const running = new Set<() => Promise<void>>()
  const start = async (more: Partial<SchedulerOptions> = {}) => {
    const bus = await connectBus({ url, name: 'scheduler' })
    const started = await startScheduler({ bus, changeStream: 'cdc-stream', source: 'main', onObservation, ...more })
    const stop = async () => {
      running.delete(stop)
      await started.stop()
      await bus.close()
    }
    running.add(stop)
    return { stop, bus }
  }
  const stopAll = async () => {
    await Promise.all([...running].map((stop) => stop()))
  }
  t.teardown(stopAll)
  return { start, stopAll }
}

type Tap = Parameters<typeof testNats>[0]
