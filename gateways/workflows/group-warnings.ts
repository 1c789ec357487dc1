import { JetStreamApiError } from '@nats-io/jetstream'
import type { Bus } from '../../bus/connect.ts'
import { asking } from '../../bus/publish.ts'
import { taskConsumer } from '../../bus/subject.ts'
import { type FlowPlan, tasksOf } from '../../schemas/workflows/flow-plan.ts'
import type { FlowWarning } from './credentials-warnings.ts'

const maxGroups = 20

/** Groups of workers that a flow sends tasks to and that no worker has ever served: they would wait. @throws {BusUnavailable} */
export async function groupWarnings(bus: Bus, plan: FlowPlan): Promise<readonly FlowWarning[]> {
  const tasks = [...tasksOf(plan.tasks, plan.errors, plan.finally)]
  const groups = new Map(tasks.flatMap(({ name, workerGroup }) => (workerGroup === null ? [] : [[workerGroup, name]])))
  const warnings: FlowWarning[] = []
  for (const [group, name] of [...groups].slice(0, maxGroups)) {
    if (await isServed(bus, group!)) continue
    const message = `names the group ${group}, which no worker serves: start one with app.workflows.worker-groups=${group}`
    warnings.push({ path: `${name}.workerGroup`, message })
  }
  return warnings
}

async function isServed(bus: Bus, group: string): Promise<boolean> {
  try {
    await asking(bus, () => bus.manager.consumers.info('TASKS', taskConsumer(group)))
    return true
  } catch (error) {
    if (error instanceof JetStreamApiError && error.status === 404) return false
    throw error
  }
}
