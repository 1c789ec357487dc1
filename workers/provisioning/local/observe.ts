import type { Instance } from '../../../schemas/provisioning/instance.ts'
import type { Observed } from '../driver.ts'
import type { LocalPlace } from './place.ts'
import { openPostgres } from './postgres-instance.ts'
import { withSession } from './postgres-session.ts'

/** How an instance is, by asking its servers. */
export async function observe(place: LocalPlace, instance: Instance, _signal: AbortSignal): Promise<Observed> {
  const opened = await openPostgres(place, instance)
  try {
    const streaming = await withSession(
      opened.primary(),
      async (client) => {
        const { rows } = await client.query<{ name: string }>(
          "select application_name as name from pg_stat_replication where state = 'streaming'",
        )
        return rows.map(({ name }) => name)
      },
      { database: 'postgres', statementTimeoutMs: 3_000, applicationName: 'busbar health' },
    )
    const missing = opened.standbys.filter(({ name }) => !streaming.includes(name)).map(({ name }) => name)
    if (missing.length === 0) return { health: 'HEALTHY', reason: null }
    return { health: 'DEGRADED', reason: `No replication to ${missing.join(', ')}` }
  } catch (error) {
    return { health: 'DOWN', reason: (error as Error).message }
  }
}
