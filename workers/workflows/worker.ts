import type { Bus } from '../../bus/connect.ts'
import { keyRing, type SecretKeys } from '../../bus/sealed.ts'
import { catalogue } from './catalogue.ts'
import { type EngineObservation, startWorkflowEngine, type WorkflowEngine } from './engine.ts'
import { type OwnPluginObservation, OwnPlugins } from './own-plugins.ts'
import { publishManifests, publishOwnManifests } from './publish-manifests.ts'
import { clearScratch } from './scratch.ts'
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
  /** Path of the socket of a container engine that scripts may use. Default: `none` */
  readonly containers?: string
  /** Folders and npm packages with plugins of the users' own. Default: none. */
  readonly ownPlugins?: readonly string[]
  /** Of tasks that it serves. Default: those of no group. */
  readonly groups?: readonly string[]
  readonly onObservation: (observation: EngineObservation | OwnPluginObservation) => void
}

/** The engine with the built-in plugins and those of the users' own, which it tells the gateways about. @throws {BusUnavailable}; {TypeError} for a key that is none */
export async function startWorkflowWorker(options: WorkflowWorkerOptions): Promise<WorkflowEngine> {
  const {
    bus,
    egress,
    secretKeys,
    scripts = false,
    containers = 'none',
    ownPlugins = [],
    groups,
    onObservation,
  } = options
  await clearScratch()
  await publishManifests(bus, catalogue)
  const plugins = new Map(catalogue.map((plugin) => [plugin.manifest.id, plugin]))
  const own = new OwnPlugins({
    sources: ownPlugins,
    plugins,
    publish: (all, gone) => publishOwnManifests(bus, all, gone),
    onObservation,
  })
  await own.start()
  const services = taskServices(bus, egress, keyRing(secretKeys), {
    scripts,
    containers: containers === 'none' ? null : containers,
  })
  const engine = await startWorkflowEngine({ bus, plugins, ...services, ...(groups && { groups }), onObservation })
  return {
    async stop() {
      await own.stop()
      await engine.stop()
    },
  }
}
