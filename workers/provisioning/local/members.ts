import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { appendFileSync, chownSync, closeSync, existsSync, readFileSync } from 'node:fs'
import { mkdir, rename, rm, writeFile } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { Unavailable } from '../../../schemas/failure.ts'
import type { TierName } from '../../../schemas/provisioning/tiers.ts'
import { endProcessesIn } from '../supervisor/processes.ts'
import { tied } from '../supervisor/tied.ts'
import { streamBaseBackup } from './backup/base-backup-stream.ts'
import { giveTree, syncFolder, syncTree, writeDurably } from './durable-files.ts'
import { ownFolder } from './folders.ts'
import { startWithParameters } from './parameters/postgres-parameters.ts'
import type { PostgresInstance } from './postgres-instance.ts'
import type { PostgresNode } from './postgres-node.ts'
import { withSession } from './postgres-session.ts'
import { memberName, primaryPortFile, superuser, tierFile, tierSettings } from './postgres-settings.ts'
import { unnamedFile } from './unnamed-file.ts'

/** Segments of 1 MB: an idle instance takes less disk, and its archive too. */
const walSegmentMb = 1

/** The folders of a server, but for its data. */
export function makeMemberFolder(node: PostgresNode): void {
  for (const folder of [dirname(node.dataFolder), dirname(node.logFile)]) ownFolder(folder, node.runAs)
}

/** Makes the data folder of a first server, beside its place and then renamed: half of one is never there. Idempotent. */
export async function initDatabase(node: PostgresNode, tier: TierName, major: number): Promise<void> {
  if (existsSync(join(node.dataFolder, 'PG_VERSION'))) return
  makeMemberFolder(node)
  const folder = dirname(node.dataFolder)
  const unfinished = `${node.dataFolder}.new`
  // A killed predecessor's server that fills the same folder.
  await endProcessesIn(unfinished, { signal: 'SIGKILL', patienceMs: 10_000 })
  await rm(unfinished, { recursive: true, force: true })
  await initdb(node, unfinished, major)
  appendFileSync(join(unfinished, 'postgresql.conf'), `\ninclude_if_exists = '${tierFile}'\n`)
  await writeTierFile({ ...node, dataFolder: unfinished }, tier)
  await syncTree(unfinished)
  await rename(unfinished, node.dataFolder)
  await syncFolder(folder)
}

/** @throws {Error} with what it complained of; {Unavailable} when somebody ended it: it can be begun again */
async function initdb({ binFolder, superuser: { password }, runAs }: PostgresNode, folder: string, major: number) {
  const file = unnamedFile(`${password}\n`, runAs)
  try {
    const child = spawn(...tied(join(binFolder, 'initdb'), initArguments(major, folder, '/dev/fd/3')), {
      stdio: ['ignore', 'ignore', 'pipe', file],
      cwd: dirname(folder),
      env: { LC_ALL: 'C', TZ: 'UTC', PATH: '/usr/bin:/bin' },
      ...runAs,
    })
    let complaint = ''
    child.stderr?.setEncoding('utf8').on('data', (text: string) => {
      complaint = (complaint + text).slice(-8192)
    })
    const [code, signal] = (await once(child, 'close')) as [number | null, NodeJS.Signals | null]
    if (code !== 0) throw initdbFailure({ ended: signal ?? code, complaint })
  } finally {
    closeSync(file)
  }
}

/** {Unavailable} when somebody ended it, or the server that it runs: it can be begun again. */
export function initdbFailure({
  ended,
  complaint,
}: {
  ended: NodeJS.Signals | number | null
  complaint: string
}): Error {
  const cause = new Error(`initdb ended with ${ended}: ${complaint.trim()}`)
  // In its words of the server; or those of the shell between them, which adds 128 to the signal.
  const killed =
    typeof ended === 'string' || /terminated by signal|exited with exit code 1(2[89]|[3-5]\d)\b/.test(complaint)
  return killed ? new Unavailable('http/unavailable', 'The making of the data folder was cut off', { cause }) : cause
}

function initArguments(major: number, folder: string, passwordFile: string): readonly string[] {
  // Where it can: an order of texts that does not change with the machine's C library.
  const locale =
    major >= 17 ? ['--locale=C', '--locale-provider=builtin', '--builtin-locale=C.UTF-8'] : ['--locale=C.UTF-8']
  return [
    `--pgdata=${folder}`,
    `--username=${superuser}`,
    `--pwfile=${passwordFile}`,
    '--auth=scram-sha-256',
    '--encoding=UTF8',
    ...locale,
    '--data-checksums',
    `--wal-segsize=${walSegmentMb}`,
    '--no-instructions',
    '--no-sync',
  ]
}

/** What the tier gives a server; counts from its next start. */
export async function writeTierFile(node: PostgresNode, tier: TierName): Promise<void> {
  const path = join(node.dataFolder, tierFile)
  await writeDurably(path, tierSettings(tier))
  if (node.runAs !== undefined) chownSync(path, node.runAs.uid, node.runAs.gid)
}

/** What keeps the log of the primary until a standby has it. */
export async function ensureSlots(primary: PostgresNode, names: readonly string[]): Promise<void> {
  await withSession(
    primary,
    async (client) => {
      const { rows } = await client.query<{ name: string }>(
        "select slot_name as name from pg_replication_slots where slot_type = 'physical' and slot_name ~ '^m[0-9]+$' and not temporary",
      )
      const known = new Set(rows.map(({ name }) => name))
      for (const name of names) {
        if (!known.has(name)) await client.query('select pg_create_physical_replication_slot($1, true)', [name])
      }
      for (const name of known) {
        if (names.includes(name)) continue
        // Ended first: the slot of a connected standby cannot be dropped.
        await client.query(
          'select pg_terminate_backend(active_pid, 5000) from pg_replication_slots where slot_name = $1 and active_pid is not null',
          [name],
        )
        await client.query('select pg_drop_replication_slot($1)', [name])
      }
    },
    { database: 'postgres' },
  )
}

export function isStandby(node: PostgresNode): boolean {
  return existsSync(join(node.dataFolder, 'standby.signal'))
}

export function hasData(node: PostgresNode): boolean {
  return existsSync(join(node.dataFolder, 'PG_VERSION'))
}

/** Beside the data folder while it is neither what it was nor a standby's yet. */
export function rewindMark({ dataFolder }: Pick<PostgresNode, 'dataFolder'>): string {
  return join(dirname(dataFolder), 'rewinding')
}

/** Copies the running primary's data to a new standby and starts it. A data folder that is not a standby's is made anew. */
export async function buildStandby(
  { control }: Pick<PostgresInstance, 'control'>,
  primary: PostgresNode,
  node: PostgresNode,
  signal: AbortSignal,
): Promise<void> {
  makeMemberFolder(node)
  const unfinished = `${node.dataFolder}.new`
  await rm(unfinished, { recursive: true, force: true })
  await mkdir(unfinished, { mode: 0o700 })
  const label = `standby ${memberName(node)}`
  await withSession(primary, (client) => streamBaseBackup(client, { label, into: unfinished, signal }), {
    replication: true,
    statementTimeoutMs: 0,
  })
  await writeFile(join(unfinished, 'standby.signal'), '', { mode: 0o600 })
  await giveTree(unfinished, node.runAs)
  await syncTree(unfinished)
  await control.fence(node)
  await rm(node.dataFolder, { recursive: true, force: true })
  await rename(unfinished, node.dataFolder)
  await rm(rewindMark(node), { force: true })
  await syncFolder(dirname(node.dataFolder))
  await startStandby({ control }, primary.port, node, signal)
}

export async function startStandby(
  { control }: Pick<PostgresInstance, 'control'>,
  primaryPort: number,
  node: PostgresNode,
  signal: AbortSignal,
): Promise<void> {
  const path = primaryPortFile(node)
  const text = `${primaryPort}\n`
  if (!existsSync(path) || readFileSync(path, 'utf8') !== text) await writeDurably(path, text, node.runAs)
  if (existsSync(formerPassfile(node))) {
    // It runs as the superuser it was started as.
    await control.stop(node)
    await rm(formerPassfile(node), { force: true })
  }
  await startWithParameters(control, node, { signal })
  await keepStandby({ control }, node)
}

/** Earlier versions kept the superuser's password there, for the standby. */
export function formerPassfile({ dataFolder }: Pick<PostgresNode, 'dataFolder'>): string {
  return join(dirname(dataFolder), 'replication.pass')
}

/** How a primary is looked after: with standbys, the owner of the servers decides what comes after its end. */
export async function startPrimary(
  { control }: Pick<PostgresInstance, 'control'>,
  node: PostgresNode,
  standbys: number,
  signal: AbortSignal,
): Promise<void> {
  await startWithParameters(control, node, { signal })
  await keepPrimary({ control }, node, standbys)
}

/** As {@link startPrimary}, for one that runs. */
export async function keepPrimary(
  { control }: Pick<PostgresInstance, 'control'>,
  node: PostgresNode,
  standbys: number,
): Promise<void> {
  await control.keep(node, standbys > 0 ? 'ask' : 'restart')
}

/** As {@link startStandby}, for one that runs. */
export async function keepStandby({ control }: Pick<PostgresInstance, 'control'>, node: PostgresNode): Promise<void> {
  await control.keep(node, 'restart')
}
