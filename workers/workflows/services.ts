import type { Bus } from '../../bus/connect.ts'
import { readBytes, storeBytes } from '../../bus/objects.ts'
import type { KeyRing } from '../../bus/sealed.ts'
import { openCredential } from './credentials.ts'
import type { EngineOptions } from './engine.ts'
import { taskKv } from './kv.ts'
import { TaskFailure, type TaskFiles } from './plugin.ts'
import { type EgressSettings, taskFetch } from './task-fetch.ts'
import { taskNet } from './task-net.ts'

const fileUri = /^busbar:\/\/\/files\/([A-Za-z0-9_-]{1,128})$/
const maxFileBytes = 64 * 1024 ** 2

/** What of the platform tasks may use. @param keys null: no credential can be opened */
export function taskServices(
  bus: Bus,
  egress: EgressSettings,
  keys: KeyRing | null,
  { scripts, containers }: { readonly scripts: boolean; readonly containers: string | null },
): Pick<EngineOptions, 'services' | 'credential' | 'kv'> {
  const kv = taskKv(bus)
  // Whoever writes to it could make themselves an admin.
  const net = taskNet(egress, () => bus.connection.getServers())
  return {
    services: { fetch: taskFetch(egress), net, kv, files: taskFiles(bus), scripts, containers },
    credential: openCredential(bus, keys),
    kv: async (namespace, key) => (await kv.get(namespace, key))?.value ?? null,
  }
}

/** Files lie in the object store under their digest. */
function taskFiles(bus: Bus): TaskFiles {
  return {
    async put(given) {
      const bytes = given instanceof Uint8Array ? given : await collected(given)
      return { uri: `busbar:///files/${await storeBytes(bus, bytes)}`, sizeBytes: bytes.length }
    },
    async get(uri) {
      const digest = fileUri.exec(uri)?.[1]
      if (digest === undefined) throw new TaskFailure('refused', 'This is no URI of a file: busbar:///files/<digest>')
      return await readBytes(bus, digest)
    },
  }
}

async function collected(chunks: AsyncIterable<Uint8Array>): Promise<Uint8Array> {
  const parts: Uint8Array[] = []
  let sizeBytes = 0
  for await (const chunk of chunks) {
    sizeBytes += chunk.length
    if (sizeBytes > maxFileBytes) throw new TaskFailure('refused', `The file is larger than ${maxFileBytes} bytes`)
    parts.push(chunk)
  }
  return Buffer.concat(parts)
}
