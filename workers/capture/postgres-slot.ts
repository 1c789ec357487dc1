import type { Client } from 'pg'
import { parseLsn } from './lsn.ts'
import { CaptureBusy, CaptureRefused } from './refusal.ts'

export interface Slot {
  readonly confirmedLsn: bigint
  readonly retainedBytes: number
  readonly walLsn: bigint
  /** Of the server and the database: a slot of the same name elsewhere is another slot. */
  readonly identity: string
}

interface SlotRow {
  readonly plugin: string
  readonly database: string
  readonly current: string
  readonly active: boolean
  readonly temporary: boolean
  readonly walStatus: string | null
  readonly confirmed: string | null
  readonly wal: string
  readonly retained: string | null
}

const slotSql = `
  select plugin, database, current_database() as current, active, temporary, wal_status as "walStatus",
    confirmed_flush_lsn::text as confirmed, pg_current_wal_flush_lsn()::text as wal,
    pg_wal_lsn_diff(pg_current_wal_flush_lsn(), restart_lsn)::text as retained
  from pg_replication_slots where slot_name = $1`

/**
 * The slot, made when there is none.
 *
 * @param beforeCreating called before a slot is made: changes since the last one are lost.
 * @throws {CaptureBusy} while somebody else reads it.
 * @throws {CaptureRefused} when the name belongs to a slot of another kind.
 */
export async function ensureSlot(
  client: Client,
  slotName: string,
  beforeCreating: (reason: 'missing' | 'invalidated') => Promise<void>,
): Promise<Slot> {
  const row = await findSlot(client, slotName)
  if (row) {
    const drop = `SELECT pg_drop_replication_slot('${slotName}');`
    if (row.plugin !== 'pgoutput' || row.database !== row.current) {
      const what = row.plugin === 'pgoutput' ? `the database ${row.database}` : `the plugin ${row.plugin}`
      throw new CaptureRefused(`The replication slot ${slotName} belongs to ${what}`, [
        `${drop} -- or choose another app.changes.slot`,
      ])
    }
    if (row.active) throw new CaptureBusy('Another capture reads the slot')
    if (row.walStatus !== 'lost' && row.confirmed !== null) return await slotOf(client, row)
    await beforeCreating('invalidated')
    await client.query('select pg_drop_replication_slot($1)', [slotName])
  } else await beforeCreating('missing')
  // Waits for the transactions that are under way, however long they take.
  await client.query(`set statement_timeout = 0; set lock_timeout = 0`)
  await client.query(`select pg_create_logical_replication_slot($1, 'pgoutput')`, [slotName])
  const created = await findSlot(client, slotName)
  if (!created) throw new Error(`The replication slot ${slotName} went away while it was made`)
  return await slotOf(client, created)
}

/** WAL the slot holds back, bytes; null when there is no slot. */
export async function retainedBytes(client: Client, slotName: string): Promise<number | null> {
  const row = await findSlot(client, slotName)
  return row ? Number(row.retained ?? 0) : null
}

async function findSlot(client: Client, slotName: string): Promise<SlotRow | undefined> {
  return (await client.query<SlotRow>(slotSql, [slotName])).rows[0]
}

async function slotOf(client: Client, row: SlotRow): Promise<Slot> {
  return {
    confirmedLsn: parseLsn(row.confirmed ?? '0/0'),
    retainedBytes: Number(row.retained ?? 0),
    walLsn: parseLsn(row.wal),
    identity: await systemIdentity(client),
  }
}

/**
 * Drops the slot, when there is one that nobody reads: what it would send was decoded without a publication. The next one is made
 * as after any loss.
 *
 * @throws {CaptureBusy} while somebody else reads it.
 */
export async function dropSlot(client: Client, slotName: string): Promise<void> {
  const row = await findSlot(client, slotName)
  if (row?.plugin !== 'pgoutput' || row.database !== row.current) return
  if (row.active) throw new CaptureBusy('Another capture reads the slot')
  await client.query('select pg_drop_replication_slot($1)', [slotName])
}

/**
 * pg_control_system() is for everybody by default; where it is not, the database's own number must do. Any other failure is one:
 * a wrong identity would make the stream's positions those of another database.
 */
async function systemIdentity(client: Client): Promise<string> {
  const database = await client.query<{ oid: string }>(
    'select oid::text from pg_database where datname = current_database()',
  )
  const system = await client
    .query<{ id: string }>('select system_identifier::text as id from pg_control_system()')
    .then(({ rows }) => rows[0]?.id ?? '')
    .catch((error: { readonly code?: string }) => {
      if (error.code === '42501') return ''
      throw error
    })
  return `${system}/${database.rows[0]?.oid ?? ''}`
}
