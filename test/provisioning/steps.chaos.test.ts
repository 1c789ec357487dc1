import { existsSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { load } from '../../bus/load.ts'
import { findAllPostgres } from '../../ops/local/postgres-versions.ts'
import { type Instance, instance } from '../../schemas/provisioning/instance.ts'
import { instancePlace } from '../../workers/provisioning/runner.ts'
import { eventually, majorsHere, query, urlOf } from './platform.ts'
import { outliveSteps, type Round, type Scene, type StepsTable, type Turn, wholeTable } from './steps.ts'

t.setTimeout(wholeTable ? 2_400_000 : 290_000)

const { older, newer } = majorsHere()

const majorOf = async (scene: Scene, project: string) =>
  (await eventually(async () => query(await urlOf(scene, project), 'show server_version')))[0]!.server_version
    ?.toString()
    .split('.')[0]

/** Which of the rows from before the turn a copy lacks. */
async function lacking(scene: Scene, project: string): Promise<readonly number[]> {
  const copy = await urlOf(scene, project)
  const found = new Set(await eventually(() => scene.rows(copy)))
  return scene.before.filter((id) => !found.has(id))
}

const membersOf = async ({ call }: Scene, project: string) =>
  (await call('GET', `/api/provision/${project}`)).body.members as unknown[]

/** Whether the door is open; asked until the server has an opinion. */
const opens = async (url: string) =>
  await eventually(async () => {
    try {
      await query(url, 'select 1')
      return true
    } catch (error) {
      if ((error as { code?: string }).code === '28P01') return false
      throw error
    }
  })

/** A newer server does not take the rows of this table. */
const unloadable = `
  create or replace function is_older() returns boolean language sql as $$
    select current_setting('server_version_num')::int < ${newer}0000 $$;
  create table if not exists held (id int check (is_older()));
  insert into held values (1)`

const upgradeBack: Turn = {
  type: 'UPGRADE',
  project: 'shop',
  begin: async ({ url }) => {
    await eventually(() => query(url, unloadable))
    // Not the request of the one that succeeds.
    const { version } = findAllPostgres('/usr/bin:/bin', undefined).find(({ major }) => major === newer)!
    return ['POST', '/api/provision/shop/upgrade', { version }]
  },
  // There is only the way back.
  ends: /FAILED/,
  check: async (scene) => {
    const found = { major: await majorOf(scene, 'shop'), held: await query(scene.url, 'select id from held') }
    await eventually(() => query(scene.url, 'drop table if exists held'))
    await eventually(() => query(scene.url, 'drop function if exists is_older'))
    return [found, { major: String(older), held: [{ id: 1 }] }]
  },
}

const clone: readonly Turn[] = [
  {
    type: 'CLONE',
    project: 'twin',
    begin: ['POST', '/api/provision/shop/clone', { newProjectName: 'twin' }],
    ends: /SUCCEEDED|FAILED/,
    check: async (scene, ended) =>
      ended === 'SUCCEEDED' ? [await lacking(scene, 'twin'), []] : [await membersOf(scene, 'twin'), []],
  },
  { type: 'DELETE', project: 'twin', begin: ['DELETE', '/api/provision/twin'], ends: /GONE/ },
]

const care: readonly Turn[] = [
  {
    type: 'ROTATE',
    project: 'shop',
    begin: ['POST', '/api/provision/shop/credentials/rotate'],
    ends: /SUCCEEDED|FAILED/,
    check: async (scene, ended) => {
      const now = await urlOf(scene, 'shop')
      const rotated = ended === 'SUCCEEDED'
      return [
        { changed: now !== scene.url, now: await opens(now), before: await opens(scene.url) },
        { changed: rotated, now: true, before: !rotated },
      ]
    },
  },
  {
    type: 'PARAMETERS',
    project: 'shop',
    begin: ['PATCH', '/api/provision/shop/parameters', { max_connections: '77', work_mem: '5MB' }],
    ends: /SUCCEEDED|FAILED/,
    check: async (scene, ended) => {
      const [found] = await eventually(() =>
        query(
          scene.url,
          `select current_setting('max_connections') = '77' as connections, current_setting('work_mem') = '5MB' as memory,
            (select count(*)::int from pg_settings where pending_restart and source <> 'command line') as pending`,
        ),
      )
      const { parameters } = (await scene.call('GET', '/api/provision/shop')).body
      const set = ended === 'SUCCEEDED'
      return [
        { ...found, parameters },
        {
          connections: set,
          memory: set,
          pending: 0,
          parameters: set ? { max_connections: '77', work_mem: '5MB' } : {},
        },
      ]
    },
  },
]

/** A folder cannot be made: the standby cannot be, either. */
const scaleBack: Turn = {
  type: 'SCALE',
  project: 'shop',
  begin: async ({ bus, home }) => {
    const { members, uid } = (await load(bus, instance, instancePlace('shop'))).state as Instance
    const last = Math.max(...members.map(({ name }) => Number(name.slice(1))))
    writeFileSync(join(home, 'instances', uid, 'members', `m${last + 1}`), '')
    return ['PATCH', '/api/provision/shop/scale', { tier: 'ENTERPRISE' }]
  },
  ends: /FAILED/,
  check: async ({ bus, home }) => {
    const { members, uid, tier } = (await load(bus, instance, instancePlace('shop'))).state as Instance
    const folders = members.map(({ name }) => existsSync(join(home, 'instances', uid, 'members', name, 'data')))
    return [
      { members: members.length, folders, enterprise: tier === 'ENTERPRISE' },
      { members: tier === 'STANDARD' ? 2 : 1, folders: members.map(() => true), enterprise: false },
    ]
  },
}

const turns: readonly Turn[] = [
  ...(wholeTable ? clone : []),
  ...care,
  ...(wholeTable && newer > older ? [upgradeBack] : []),
  ...(newer > older
    ? [
        {
          type: 'UPGRADE',
          project: 'shop',
          begin: ['POST', '/api/provision/shop/upgrade', { version: String(newer) }],
          ends: /SUCCEEDED|FAILED/,
          check: async (scene, ended) => [await majorOf(scene, 'shop'), String(ended === 'SUCCEEDED' ? newer : older)],
        } as const satisfies Turn,
      ]
    : []),
  {
    type: 'RESTORE',
    project: 'copy',
    begin: ['POST', '/api/provision/shop/backup/restore', { newProjectId: 'copy' }],
    ends: /SUCCEEDED|FAILED/,
    check: async (scene, ended) => {
      return ended === 'SUCCEEDED' ? [await lacking(scene, 'copy'), []] : [await membersOf(scene, 'copy'), []]
    },
  },
  {
    type: 'SCALE',
    project: 'shop',
    begin: ['PATCH', '/api/provision/shop/scale', { tier: 'STANDARD' }],
    ends: /SUCCEEDED|FAILED/,
    check: async ({ call }, ended) => {
      const { members } = (await call('GET', '/api/provision/shop')).body
      return [members.length, ended === 'SUCCEEDED' ? 2 : 1]
    },
  },
  scaleBack,
  { type: 'DELETE', project: 'copy', begin: ['DELETE', '/api/provision/copy'], ends: /GONE/ },
]

const table: StepsTable = {
  query,
  wanted: {
    projectName: 'shop',
    orgId: 'acme',
    databaseType: 'POSTGRESQL',
    tier: 'FREE',
    postgresVersion: String(older),
    backup: { enabled: true },
  },
  turns,
  strikes: { worker: 14, supervisor: 18, server: 12, replica: 0, each: 18 },
}

const sample: readonly Round[] = [{ victim: 'worker' }, { victim: 'supervisor' }, { victim: 'server' }]
const whole: readonly Round[] = [0, 400].flatMap((delayMs) =>
  (['each', 'worker', 'supervisor', 'server', 'replica'] as const).map((victim) => ({ victim, delayMs })),
)

t.test('each step of each operation outlives the end of the worker, the supervisor and the server', async (t) => {
  // Much of it is waiting.
  t.jobs = 3
  const all = [...sample, ...(wholeTable ? whole : [])].map((round) =>
    t.test(`${round.victim}, ${round.delayMs ?? 80} ms`, { buffered: true }, async (t) =>
      outliveSteps(t, table, round),
    ),
  )
  await Promise.all(all)
})
