import type { Bus } from '../../bus/connect.ts'
import { catalogue } from './catalogue.ts'
import { type EngineObservation, startWorkflowEngine, type WorkflowEngine } from './engine.ts'
import { publishManifests } from './publish-manifests.ts'
import { taskServices } from './services.ts'

export interface WorkflowWorkerOptions {
  readonly bus: Bus
  readonly onObservation: (observation: EngineObservation) => void
}

/** The engine with the built-in plugins, which it tells the gateways about. @throws {BusUnavailable} */
export async function startWorkflowWorker({ bus, onObservation }: WorkflowWorkerOptions): Promise<WorkflowEngine> {
  await publishManifests(bus, catalogue)
  return await startWorkflowEngine({
    bus,
    plugins: new Map(catalogue.map((plugin) => [plugin.manifest.id, plugin])),
    ...taskServices(bus),
    onObservation,
  })
}
