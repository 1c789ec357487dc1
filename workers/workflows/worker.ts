import type { Bus } from '../../bus/connect.ts'
import { keyRing, type SecretKeys } from '../../bus/sealed.ts'
import { catalogue } from './catalogue.ts'
import { type EngineObservation, startWorkflowEngine, type WorkflowEngine } from './engine.ts'
import { publishManifests } from './publish-manifests.ts'
import { taskServices } from './services.ts'
import type { EgressSettings } from './task-fetch.ts'

export interface WorkflowWorkerOptions {
  readonly bus: Bus
  /** What tasks may reach besides public addresses, and what they may not. */
  readonly egress: EgressSettings
  /** What credentials are opened with; absent: tasks that ask for one fail. */
  readonly secretKeys?: SecretKeys
  /** Whether shell and Python scripts may run here. Default: they may not. */
  readonly scripts?: boolean
  readonly onObservation: (observation: EngineObservation) => void
}

/** The engine with the built-in plugins, which it tells the gateways about. @throws {BusUnavailable}; {TypeError} for a key that is none */
export async function startWorkflowWorker({
  bus,
  egress,
  secretKeys,
  scripts = false,
  onObservation,
}: WorkflowWorkerOptions): Promise<WorkflowEngine> {
  await publishManifests(bus, catalogue)
  return await startWorkflowEngine({
    bus,
    plugins: new Map(catalogue.map((plugin) => [plugin.manifest.id, plugin])),
    ...taskServices(bus, egress, keyRing(secretKeys), scripts),
    onObservation,
  })
}
