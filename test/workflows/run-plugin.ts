import { catalogue } from '../../workers/workflows/catalogue.ts'
import type { TaskServices } from '../../workers/workflows/plugin.ts'
import { trialServices, tryPlugin } from '../../workers/workflows/try-plugin.ts'

interface Outputs {
  readonly files: Record<string, { readonly uri: string }>
  readonly objects: unknown
}
/** What the runs may use: one for all of a file, so that it can look at what they have left. */
export const services = trialServices()

/** Runs a built-in plugin that runs programs elsewhere; gives its outputs and what it has logged. */
export async function runPlugin(
  id: string,
  properties: Record<string, unknown>,
  given: Partial<TaskServices> = {},
  signal?: AbortSignal,
) {
  const plugin = catalogue.find(({ manifest }) => manifest.id === id)!
  const { outputs, log } = await tryPlugin(plugin, properties, {
    services: { ...services, ...given },
    ...(signal !== undefined && { signal }),
  })
  return { ...(outputs as Outputs), log }
}
