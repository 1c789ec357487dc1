import type { Client } from 'pg'
import { round } from './measure.ts'
import { type Service, settled, timed, until, wanted } from './provisioning-service.ts'

/** A row with its header is about a kilobyte, and is not compressed. */
const rowBytes = 1024
const chunkRows = 50_000
/** Of what is there before the backup, as much again is written after it: the log that is replayed. */
const replayedShare = 0.1
const gib = 1024 ** 3

/**
 * A database of a size, a base backup, a tenth of it again behind that, then a restore to a millisecond between two commits: how long
 * from the POST to the first query that the restored one answers, with the rows counted.
 */
export async function measurePitr(service: Service, gigabytes: number) {
  const rows = Math.ceil((gigabytes * gib) / rowBytes)
  const more = Math.ceil(rows * replayedShare)
  await settled(service, 'POST', '', wanted('large', { backup: { enabled: true } }))
  await settled(service, 'POST', '/large/resize', { newSize: `${Math.ceil(gigabytes * 4) + 5}Gi` })
  const client = await service.open('large')
  try {
    await client.query('create table filler (n int, t text)')
    const loadSeconds = seconds(await timed(() => fill(client, 0, rows)))
    const backupSeconds = seconds(await timed(() => settled(service, 'POST', '/large/backup/trigger')))
    await fill(client, rows, more)
    const { rows: sizes } = await client.query<{ bytes: string }>(
      'select pg_database_size(current_database()) as bytes',
    )
    const targetTime = await timeBetween(client)
    await fill(client, rows + more, 1)
    const archiveSeconds = seconds(await timed(() => archived(client)))
    const restoreMs = await timed(async () => {
      await settled(service, 'POST', '/large/backup/restore', { newProjectId: 'past', targetTime })
      const past = await service.open('past')
      await past.query('select 1')
      await past.end()
    })
    await requireRows(service, rows + more)
    const databaseGb = round(Number(sizes[0]!.bytes) / gib)
    const replayedGb = round(gigabytes * replayedShare)
    return { databaseGb, replayedGb, loadSeconds, backupSeconds, archiveSeconds, restoreSeconds: seconds(restoreMs) }
  } finally {
    await client.end()
    await settled(service, 'DELETE', '/past').catch(() => undefined)
    await settled(service, 'DELETE', '/large')
  }
}

async function fill(client: Client, from: number, count: number): Promise<void> {
  for (let at = from; at < from + count; at += chunkRows) {
    const last = Math.min(at + chunkRows, from + count)
    await client.query(
      `insert into filler select n, repeat(md5(n::text), 31) from generate_series(${at + 1}, ${last}) n`,
    )
  }
}

/** With some milliseconds to the commits on either side. */
async function timeBetween(client: Client): Promise<string> {
  const pause = () => new Promise((passed) => setTimeout(passed, 20))
  await pause()
  const { rows } = await client.query<{ at: Date }>('select clock_timestamp() as at')
  await pause()
  return rows[0]!.at.toISOString()
}

async function archived(client: Client): Promise<void> {
  const waiting = "select count(*)::int as n from pg_ls_archive_statusdir() where name like '%.ready'"
  await until(async () => (await client.query<{ n: number }>(waiting)).rows[0]?.n === 0, 'the archive', 1_200)
}

async function requireRows(service: Service, expected: number): Promise<void> {
  const past = await service.open('past')
  const { rows } = await past.query<{ n: number }>('select count(*)::int as n from filler')
  await past.end()
  if (rows[0]?.n !== expected) throw new Error(`${rows[0]?.n} rows were restored, not ${expected}`)
}

function seconds(ms: number): number {
  return round(ms / 1000)
}
