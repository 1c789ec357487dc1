import type { Bus } from '../../bus/connect.ts'
import type { KeyRing } from '../../bus/sealed.ts'
import { openCredential } from './credentials.ts'
import type { EngineOptions } from './engine.ts'
import { taskKv } from './kv.ts'
import { type EgressSettings, taskFetch } from './task-fetch.ts'
import { taskFiles } from './task-files.ts'
import { taskNet } from './task-net.ts'

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
