import { existsSync } from 'node:fs'
import pg from 'pg'
import type { Instance } from '../../../schemas/provisioning/instance.ts'
import { facts, type Member } from '../../../schemas/provisioning/instance-facts.ts'
import { tiers } from '../../../schemas/provisioning/tiers.ts'
import type { Step, StepWork } from '../driver.ts'
import { makeArchive } from './backup/archive.ts'
import { newPassword, scramVerifier } from './credentials/scram.ts'
import { makeInstanceFolder, removeInstanceFolder } from './folders.ts'
import { buildStandby, ensureSlots, hasData, initDatabase, isStandby, startPrimary, startStandby } from './members.ts'
import { chooseInstallation, freePorts, type LocalPlace } from './place.ts'
import { majorOf, openPostgres, type PostgresInstance, passwordContext } from './postgres-instance.ts'
import { withSession } from './postgres-session.ts'
import { rewindStandby } from './rewind.ts'
import { admitStandbys, writeHba } from './standby-access.ts'

/** Servers, ports and passwords are decided, and recorded before anything of them is there. */
export function reserve(place: LocalPlace): Step {
  return {
    name: 'VALIDATING',
    async run({ instance }) {
      const at = Date.now()
      const { version } = chooseInstallation(await place.postgres(), instance.version)
      const { localInstances } = tiers[instance.tier]
      const ports = await freePorts(place, localInstances)
      const members: readonly Member[] = ports.map((port, index) => ({ name: `m${index + 1}`, port, version }))
      const { uid } = instance
      const seal = (which: 'master' | 'superuser') => place.keys.seal(newPassword(), `${passwordContext(uid, which)}1`)
      const credentials = { superuser: seal('superuser'), master: seal('master'), pending: null, version: 1, at }
      return {
        facts: [
          facts.members.of({ members: [...members], primary: 'm1', at }),
          ...(instance.credentials === null ? [facts.credentials.of(credentials)] : []),
        ],
      }
    },
  }
}

export function makeFolders(place: LocalPlace): Step {
  return {
    name: 'NAMESPACE_CREATION',
    async run({ instance }) {
      const { folders, primary } = await openPostgres(place, instance)
      const { uid, projectName } = instance
      await makeInstanceFolder(folders, { uid, projectName }, place.account)
      await writeHba(folders.hba, place.account)
      makeArchive(primary())
      return undefined
    },
  }
}

function initialize(place: LocalPlace): Step {
  return {
    name: 'CRD_DEPLOYMENT',
    async run({ instance }) {
      const { primary } = await openPostgres(place, instance)
      const [first] = instance.members
      await initDatabase(primary(), instance.tier, Number(majorOf(first!.version)))
      return undefined
    },
  }
}

export function startFirst(place: LocalPlace): Step {
  return {
    name: 'WAITING_FOR_READY',
    async run({ instance, signal }) {
      const opened = await openPostgres(place, instance)
      await startPrimary(opened, opened.primary(), opened.standbys.length, signal)
      return undefined
    },
  }
}

/** The user and the database, with passwords that the server never sees in the clear. */
export function makeUser(place: LocalPlace): Step {
  return {
    name: 'CREDENTIAL_GENERATION',
    async run({ instance }) {
      const opened = await openPostgres(place, instance)
      await createUser(opened, instance)
      await logIn(opened, instance)
      return undefined
    },
  }
}

async function createUser(opened: PostgresInstance, instance: Instance): Promise<void> {
  const { masterUsername, databaseName } = instance
  const verifier = await scramVerifier(opened.password('master'))
  await withSession(
    opened.primary(),
    async (client) => {
      const user = client.escapeIdentifier(masterUsername)
      const { rows: users } = await client.query('select 1 from pg_roles where rolname = $1', [masterUsername])
      if (users.length === 0) await client.query(`create role ${user}`)
      await client.query(`alter role ${user} login createdb createrole password ${client.escapeLiteral(verifier)}`)
      await client.query(`grant pg_monitor, pg_signal_backend to ${user}`)
      const { rows: databases } = await client.query('select 1 from pg_database where datname = $1', [databaseName])
      if (databases.length > 0) return
      await client.query(`create database ${client.escapeIdentifier(databaseName)} owner ${user}`)
    },
    { database: 'postgres' },
  )
  await withSession(opened.primary(), async (client) => {
    await client.query(`alter schema public owner to ${client.escapeIdentifier(masterUsername)}`)
  })
}

/** The last word on an instance: whoever was given the password gets in. */
export async function logIn(
  opened: PostgresInstance,
  { masterUsername, databaseName }: Instance,
  which: 'master' | 'pending' = 'master',
): Promise<void> {
  const { port } = opened.primary()
  const client = new pg.Client({
    host: '127.0.0.1',
    port,
    user: masterUsername,
    password: opened.password(which),
    database: databaseName,
    connectionTimeoutMillis: 10_000,
  })
  client.on('error', () => undefined)
  try {
    await client.connect()
    await client.query('select 1')
  } finally {
    await client.end().catch(() => undefined)
  }
}

/** Standbys that are recorded and not there are made, those that are there started. */
export function makeStandbys(place: LocalPlace): Step {
  return {
    name: 'REPLICATION',
    async run(work) {
      const opened = await openPostgres(place, work.instance)
      await bringStandbys(opened, work)
      return undefined
    },
  }
}

/**
 * Standbys that are there are started, the others made, with the `lost` ones; a former primary is rewound where that can be done.
 * Answers the names of those that were.
 */
export async function bringStandbys(
  opened: PostgresInstance,
  { instance, signal }: Pick<StepWork, 'instance' | 'signal'>,
  lost: ReadonlySet<string> = new Set(),
): Promise<readonly string[]> {
  const rewound: string[] = []
  const primary = opened.primary()
  await admitStandbys(opened.folders.hba, primary)
  await ensureSlots(
    primary,
    opened.standbys.map(({ name }) => name),
  )
  for (const member of opened.standbys) {
    const node = opened.nodeOf(member)
    const usable = hasData(node) && isStandby(node) && !lost.has(member.name)
    if (usable) await startStandby(opened, primary.port, node, signal)
    else if (await rewindStandby(opened, primary, node, signal)) rewound.push(member.name)
    else await buildStandby(opened, primary, node, signal)
  }
  await setSynchronous(opened, instance, opened.standbys.length)
  return rewound
}

/** Commits wait for one standby, as long as there is one that can take them. */
export async function setSynchronous(
  opened: PostgresInstance,
  { tier }: Pick<Instance, 'tier'>,
  usable: number,
): Promise<void> {
  const names = opened.standbys.map(({ name }) => name).join(', ')
  const wanted = tiers[tier].synchronous && usable > 0 && names !== '' ? `ANY 1 (${names})` : ''
  await withSession(
    opened.primary(),
    async (client) => {
      const { rows } = await client.query<{ now: string }>("select current_setting('synchronous_standby_names') as now")
      if (rows[0]?.now === wanted) return
      // Local alone: what is waited for here might be what has gone.
      await client.query("set synchronous_commit = 'local'")
      await client.query(`alter system set synchronous_standby_names = ${client.escapeLiteral(wanted)}`)
      await client.query('select pg_reload_conf()')
    },
    { database: 'postgres' },
  )
}

/** It is ready when its user gets in and what they write is archived. */
export function verify(place: LocalPlace): Step {
  return {
    name: 'METRICS_SETUP',
    async run({ instance }) {
      const opened = await openPostgres(place, instance)
      await logIn(opened, instance)
      return { facts: [facts.health.of({ health: 'HEALTHY', reason: null, at: Date.now() })] }
    },
  }
}

/** All servers stopped, the primary first; then the folders. Nothing of another uid is touched. */
export function removeAll(place: LocalPlace): Step {
  return {
    name: 'REMOVE',
    async run({ instance }) {
      const at = Date.now()
      if (instance.credentials !== null) {
        const opened = await openPostgres(place, instance)
        if (existsSync(opened.folders.root)) {
          const first = instance.members.filter(({ name }) => name === instance.primary)
          for (const member of [...first, ...opened.standbys]) {
            // Nothing of it is wanted any more: no checkpoint, no last segment for the archive.
            await opened.control.stop(opened.nodeOf(member), { mode: 'immediate', timeoutMs: 5_000 })
          }
        }
        removeInstanceFolder(opened.folders, instance.uid)
      }
      return { facts: [facts.members.of({ members: [], primary: null, at })] }
    },
  }
}

export function createSteps(place: LocalPlace, parameters: Step, backup: Step): readonly Step[] {
  return [
    reserve(place),
    makeFolders(place),
    initialize(place),
    startFirst(place),
    makeUser(place),
    makeStandbys(place),
    parameters,
    backup,
    verify(place),
  ]
}
