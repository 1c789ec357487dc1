import { setTimeout as delay } from 'node:timers/promises'
import { Type } from 'typebox'
import { Compile } from 'typebox/compile'
import type { Bus } from '../../bus/connect.ts'
import { type Collection, openCollection } from '../../bus/kv.ts'
import { PluginManifest, pluginCollection, pluginId } from '../../schemas/workflows/plugin-manifest.ts'
import type { PluginView } from './service.ts'

export type PluginViewObservation = { readonly type: 'plugins-not-watched'; readonly error: unknown }

export interface WatchedPlugins extends PluginView {
  close(): Promise<void>
}

const retryMs = 1_000
const validator = Compile(PluginManifest)

/** What the workers say they can run: all of it when this resolves, and every change from then on. @throws {BusUnavailable} */
export async function openPluginView(
  bus: Bus,
  onObservation: (observation: PluginViewObservation) => void,
): Promise<WatchedPlugins> {
  // Manifests of newer workers may hold what we do not know: those are left out, and stop nothing.
  const collection = await openCollection(bus, { name: pluginCollection, schema: Type.Unknown() })
  const manifests = new Map<string, PluginManifest>()
  const put = (key: string, value: unknown) => {
    if (validator.Check(value)) manifests.set(key, value as PluginManifest)
    else manifests.delete(key)
  }
  for (const [key, { value }] of await collection.entries()) put(key, value)
  const stopping = new AbortController()
  const watching = watch(collection, put, { signal: stopping.signal, onObservation })
  return {
    all: () => [...manifests.values()].sort((one, other) => (one.id < other.id ? -1 : 1)),
    find: (id) => manifests.get(id) ?? manifests.get(pluginId(id)),
    async close() {
      stopping.abort()
      await watching
    },
  }
}

interface Watch {
  readonly signal: AbortSignal
  readonly onObservation: (observation: PluginViewObservation) => void
}

async function watch(
  collection: Collection<unknown>,
  put: (key: string, value: unknown) => void,
  { signal, onObservation }: Watch,
): Promise<void> {
  while (!signal.aborted) {
    try {
      for await (const { key, value } of collection.watch(signal)) put(key, value)
    } catch (error) {
      onObservation({ type: 'plugins-not-watched', error })
    }
    await delay(retryMs, undefined, { signal }).catch(() => undefined)
  }
}
