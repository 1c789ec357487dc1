import type { Instance } from '../../schemas/provisioning/instance.ts'
import { askOf } from './operations.ts'
import type { ProvisioningService } from './service.ts'

/** An answer that is late is none. */
const askMs = 5_000

interface Backups {
  readonly backups: readonly { readonly timestamp: string; readonly status: string }[]
  readonly archiving: string
  readonly earliestRestorableTime: string | null
  readonly latestRestorableTime: string | null
}

interface Metrics {
  readonly diskUsageGB: number | null
  readonly pods: readonly { readonly name: string; readonly memoryMB: number | null }[]
}

/**
 * What the record of an instance cannot know, asked of its servers: null for what they do not answer.
 * @param record as `shownInstance` makes it
 */
export async function withFreshParts(
  service: ProvisioningService,
  { projectName, members }: Instance,
  record: Readonly<Record<string, unknown>>,
): Promise<object> {
  const asked = <T>(question: string) => askOf<T | null>(service, projectName, question, {}, askMs).catch(() => null)
  const [metrics, list] = await Promise.all([asked<Metrics>('metrics'), asked<Backups>('backups')])
  const runs = (name: string) => {
    const pod = metrics?.pods.find((each) => each.name === name)
    return pod === undefined ? null : pod.memoryMB !== null
  }
  const shown = record.members as readonly { readonly name: string }[]
  return {
    ...record,
    instances: {
      ...(record.instances as object),
      ready: metrics === null ? null : members.filter(({ name }) => runs(name)).length,
    },
    members: shown.map((member) => ({ ...member, ready: runs(member.name) })),
    storage: { ...(record.storage as object), usedGB: metrics?.diskUsageGB ?? null },
    backup: {
      ...(record.backup as object),
      lastSuccessful: list?.backups.findLast(({ status }) => status === 'COMPLETED')?.timestamp ?? null,
      archiving: list?.archiving ?? null,
      earliestRestorableTime: list?.earliestRestorableTime ?? null,
      latestRestorableTime: list?.latestRestorableTime ?? null,
    },
  }
}
