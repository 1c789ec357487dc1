import { isDeepStrictEqual } from 'node:util'
import { Type } from 'typebox'
import type { Bus } from '../../bus/connect.ts'
import { type Collection, KvConflict, type KvValue, openCollection } from '../../bus/kv.ts'
import { type PluginManifest, pluginCollection } from '../../schemas/workflows/plugin-manifest.ts'
import type { Plugin } from './plugin.ts'

/**
 * Tells the gateways what this worker can run: a key a plugin, written when it differs. Built-in plugins that are no longer in the
 * catalogue are taken away; those of the users' own stay, for other workers may have them.
 *
 * @throws {BusUnavailable}; {KvInvalid} for a manifest that is too large.
 */
export async function publishManifests(bus: Bus, plugins: Iterable<Plugin>): Promise<void> {
  const collection = await openCollection(bus, { name: pluginCollection, schema: Type.Unknown() })
  const ours = new Map([...plugins].map(({ manifest }) => [manifest.id, plain(manifest)]))
  const there = await collection.entries()
  for (const [id, manifest] of ours) await putManifest(collection, there, id, manifest)
  for (const [id, { value, revision }] of there) {
    const builtIn = (value as Partial<PluginManifest> | null)?.category !== 'Custom'
    if (builtIn && !ours.has(id)) await settled(collection.delete(id, revision))
  }
}

/** As above, for the users' own: what is `gone` is taken away. @throws {BusUnavailable}; {KvInvalid} as above */
export async function publishOwnManifests(bus: Bus, plugins: Iterable<Plugin>, gone: readonly string[]): Promise<void> {
  const collection = await openCollection(bus, { name: pluginCollection, schema: Type.Unknown() })
  const there = await collection.entries()
  for (const { manifest } of plugins) await putManifest(collection, there, manifest.id, plain(manifest))
  for (const id of gone) if (there.has(id)) await settled(collection.delete(id, there.get(id)!.revision))
}

type Known = ReadonlyMap<string, KvValue<unknown>>

async function putManifest(collection: Collection<unknown>, there: Known, id: string, manifest: unknown) {
  const known = there.get(id)
  if (known === undefined) await settled(collection.create(id, manifest))
  else if (!isDeepStrictEqual(known.value, manifest)) await settled(collection.update(id, manifest, known.revision))
}

/** As it is read back: schemas carry members that JSON does not know. */
function plain(manifest: PluginManifest): unknown {
  return JSON.parse(JSON.stringify(manifest))
}

/** Another worker that starts at the same time says the same. */
async function settled(writing: Promise<unknown>): Promise<void> {
  await writing.catch((error: unknown) => {
    if (!(error instanceof KvConflict)) throw error
  })
}
