import { existsSync, readFileSync } from 'node:fs'
import { dirname, join } from 'node:path'
import { type Tier, type TierName, tiers } from '../../../schemas/provisioning/tiers.ts'
import { archiveSettings } from './backup/archive.ts'
import type { PostgresNode } from './postgres-node.ts'

/** The administrator that only the platform knows. */
export const superuser = 'busbar_admin'
/** May replicate, and is let in for that alone. */
export const standbyRole = 'busbar_standby'

/**
 * What the platform decides for a server, passed at its start: above all files of the data folder, which copies and rewinds
 * bring along from elsewhere.
 */
export function platformSettings(node: PostgresNode, hbaFile: string): Record<string, string> {
  return {
    port: String(node.port),
    listen_addresses: '127.0.0.1',
    unix_socket_directories: '',
    hba_file: hbaFile,
    password_encryption: 'scram-sha-256',
    wal_level: 'logical',
    max_wal_senders: '20',
    max_replication_slots: '20',
    max_slot_wal_keep_size: '2GB',
    wal_log_hints: 'on',
    wal_retrieve_retry_interval: '500ms',
    hot_standby: 'on',
    logging_collector: 'off',
    log_destination: 'stderr',
    ...archiveSettings(node),
    ...standbySettings(node),
  }
}

/** Beside the data folder: the port at which a standby finds its primary. */
export function primaryPortFile(node: Pick<PostgresNode, 'dataFolder'>): string {
  return join(dirname(node.dataFolder), 'primary.port')
}

/** A standby finds its primary at the instance's port, whichever server that is. The password is in its environment. */
function standbySettings(node: PostgresNode): Record<string, string> {
  const file = primaryPortFile(node)
  if (!existsSync(file) || !existsSync(join(node.dataFolder, 'standby.signal'))) return {}
  const name = memberName(node)
  const port = Number(readFileSync(file, 'utf8'))
  return {
    primary_conninfo: `host=127.0.0.1 port=${port} user=${standbyRole} application_name=${name} connect_timeout=5`,
    primary_slot_name: name,
    recovery_target_timeline: 'latest',
  }
}

/** The name of the folder that holds the data folder. */
export function memberName(node: Pick<PostgresNode, 'dataFolder'>): string {
  return dirname(node.dataFolder).split('/').at(-1)!
}

/** What a tier gives a server, as a file of settings that parameters of the user override. */
export function tierSettings(tier: TierName): string {
  const { maxConnections }: Tier = tiers[tier]
  const lines = {
    max_connections: maxConnections,
    shared_buffers: "'32MB'",
    min_wal_size: "'32MB'",
    max_wal_size: "'512MB'",
    wal_keep_size: "'64MB'",
    log_line_prefix: "'%m [%p] '",
    log_checkpoints: 'off',
    timezone: "'UTC'",
    log_timezone: "'UTC'",
  }
  return Object.entries(lines)
    .map(([name, value]) => `${name} = ${value}\n`)
    .join('')
}

export const tierFile = 'busbar-tier.conf'

/** Over the network with passwords alone; replication for the platform, of which standbys may do nothing else. */
export const hbaText = [
  `host replication ${standbyRole} 127.0.0.1/32 scram-sha-256`,
  `host all ${standbyRole} 127.0.0.1/32 reject`,
  `host replication ${superuser} 127.0.0.1/32 scram-sha-256`,
  `host all all 127.0.0.1/32 scram-sha-256`,
  '',
].join('\n')
