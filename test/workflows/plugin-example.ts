import { type KnownPlugins, readFlow } from '../../schemas/workflows/flow-yaml.ts'
import { pluginId } from '../../schemas/workflows/plugin-manifest.ts'
import { renderValue } from '../../schemas/workflows/template.ts'
import { catalogue } from '../../workers/workflows/catalogue.ts'
import { callPlugin } from './call-plugin.ts'

const manifests = catalogue.map(({ manifest }) => manifest)
const plugins: KnownPlugins = {
  all: () => manifests,
  find: (type) => manifests.find(({ id }) => id === pluginId(type)),
}

/** What is wrong with one task before it runs, each as `path message`. */
export function problemsOf(type: string, properties: unknown): readonly string[] {
  const flow = JSON.stringify({ name: 'f', tasks: [{ name: 'a', type, properties }] })
  return readFlow(flow, plugins).problems.map(({ path, message }) => `${path} ${message}`)
}

/** Runs the tasks of a plugin's example one after the other, each with the outputs of those before it. */
export async function runExample(id: string): Promise<Record<string, Record<string, unknown>>> {
  const { plan, problems } = readFlow(plugins.find(id)!.example, plugins)
  if (plan === null) throw new Error(JSON.stringify(problems))
  const outputs: Record<string, Record<string, unknown>> = {}
  for (const { name, type, properties } of plan.tasks) {
    const rendered = (await renderValue(properties, { outputs })) as Record<string, unknown>
    outputs[name] = await callPlugin(type, rendered)
  }
  return outputs
}
