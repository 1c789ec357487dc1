import { appendFileSync, existsSync, readdirSync } from 'node:fs'
import { basename, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { createConnection } from 'mysql2/promise'
import t from 'tap'
import { load } from '../../bus/load.ts'
import { keyRing } from '../../bus/sealed.ts'
import { type Instance, instance } from '../../schemas/provisioning/instance.ts'
import { instancePlace } from '../../workers/provisioning/runner.ts'
import { mariadbHere } from './care-mysql-node.ts'
import { eventually, urlOf } from './platform.ts'
import { outliveSteps, type Round, type Scene, type StepsTable, type Turn, wholeTable } from './steps.ts'

t.setTimeout(wholeTable ? 1_200_000 : 290_000)

const here = mariadbHere() !== undefined

async function query(uri: string, sql: string): Promise<Record<string, unknown>[]> {
  const connection = await createConnection({ uri, connectTimeout: 2_000 })
  connection.on('error', () => undefined)
  try {
    return (await connection.query(sql))[0] as Record<string, unknown>[]
  } finally {
    connection.destroy()
  }
}

const membersOf = async ({ call }: Scene, project: string) =>
  (await call('GET', `/api/provision/${project}`)).body.members as unknown[]

/** Which of the rows from before the turn a copy lacks. */
async function lacking(scene: Scene, project: string): Promise<readonly number[]> {
  const copy = await urlOf(scene, project)
  const found = new Set(await eventually(() => scene.rows(copy)))
  return scene.before.filter((id) => !found.has(id))
}

/** To the second, and what is committed by now lies before it. */
async function now(): Promise<string> {
  await sleep(1_100)
  const targetTime = new Date().toISOString()
  await sleep(1_100)
  return targetTime
}

/** Each member has its folder and each replica its user, and nobody else has. */
function scaling(tier: string, { from, to }: { readonly from: number; readonly to: number }): Turn {
  return {
    type: 'SCALE',
    project: 'shop',
    begin: ['PATCH', '/api/provision/shop/scale', { tier }],
    ends: /SUCCEEDED|FAILED/,
    check: async (scene, ended) => {
      const { state } = await load(scene.bus, instance, instancePlace('shop'))
      const { uid, credentials, members, primary } = state as Instance
      const names = members.map(({ name }) => name)
      const password = keyRing(scene.secretKeys)!.open(credentials!.superuser, `provisioning/${uid}/superuser/`)
      const { port } = members.find(({ name }) => name === primary)!
      const users = await eventually(() =>
        query(
          `mysql://busbar_admin:${encodeURIComponent(password)}@127.0.0.1:${port}`,
          "select user from mysql.user where user like 'busbar_replica%'",
        ),
      )
      for (const { port: at } of members) {
        const url = new URL(await urlOf(scene, 'shop'))
        url.port = String(at)
        // The replica has read all that the primary had committed.
        await eventually(async () => {
          const found = new Set(await scene.rows(url.href))
          if (scene.before.some((id) => !found.has(id))) throw new Error(`${at} lacks rows`)
        })
      }
      return [
        {
          members: members.length,
          folders: readdirSync(join(scene.home, 'instances', uid, 'members')),
          users: users.length,
        },
        { members: ended === 'SUCCEEDED' ? to : from, folders: names, users: members.length - 1 },
      ]
    },
  }
}

function damageBackups({ home }: Scene): void {
  const instances = join(home, 'instances')
  const manifests = readdirSync(instances, { recursive: true, encoding: 'utf8' }).filter(
    (path) => basename(path) === 'manifest.sha256',
  )
  for (const path of manifests) appendFileSync(join(instances, path), 'more')
}

const turns: readonly Turn[] = [
  {
    type: 'BACKUP',
    project: 'shop',
    begin: ['POST', '/api/provision/shop/backup/trigger'],
    ends: /SUCCEEDED|FAILED/,
    check: async ({ call }, ended) => {
      const { length } = await eventually(async () => {
        const { body } = await call('GET', '/api/provision/shop/backup/list')
        if (!Array.isArray(body.backups)) throw new Error(JSON.stringify(body))
        return body.backups
      })
      return [length, ended === 'SUCCEEDED' ? 2 : 1]
    },
  },
  {
    type: 'RESTORE',
    project: 'copy',
    begin: ['POST', '/api/provision/shop/backup/restore', { newProjectId: 'copy' }],
    ends: /SUCCEEDED|FAILED/,
    check: async (scene, ended) =>
      ended === 'SUCCEEDED' ? [await lacking(scene, 'copy'), []] : [await membersOf(scene, 'copy'), []],
  },
  { type: 'DELETE', project: 'copy', begin: ['DELETE', '/api/provision/copy'], ends: /GONE/ },
  {
    type: 'RESTORE',
    project: 'past',
    begin: async () => [
      'POST',
      '/api/provision/shop/backup/restore',
      { newProjectId: 'past', targetTime: await now() },
    ],
    ends: /SUCCEEDED|FAILED/,
    check: async (scene, ended) => {
      if (ended !== 'SUCCEEDED') return [await membersOf(scene, 'past'), []]
      const past = await urlOf(scene, 'past')
      const found = await eventually(() => scene.rows(past))
      // The last one was committed before the time, and later ones were not.
      const last = scene.before.at(-1)!
      return [
        { lacking: scene.before.filter((id) => !found.includes(id)), later: found.filter((id) => id > last) },
        { lacking: [], later: [] },
      ]
    },
  },
  { type: 'DELETE', project: 'past', begin: ['DELETE', '/api/provision/past'], ends: /GONE/ },
  scaling('STANDARD', { from: 1, to: 2 }),
  scaling('FREE', { from: 2, to: 1 }),
  {
    type: 'RESTORE',
    project: 'none',
    begin: async (scene) => {
      damageBackups(scene)
      return ['POST', '/api/provision/shop/backup/restore', { newProjectId: 'none' }]
    },
    // There is only the way back.
    ends: /FAILED/,
    check: async (scene) => {
      const { state } = await load(scene.bus, instance, instancePlace('none'))
      const { uid, members } = state as Instance
      return [
        { members, folder: existsSync(join(scene.home, 'instances', uid)) },
        { members: [], folder: false },
      ]
    },
  },
  { type: 'DELETE', project: 'none', begin: ['DELETE', '/api/provision/none'], ends: /GONE/ },
]

const table: StepsTable = {
  query,
  wanted: { projectName: 'shop', orgId: 'acme', databaseType: 'MYSQL', tier: 'FREE', backup: { enabled: true } },
  turns,
  strikes: { worker: 10, supervisor: 15, server: 10, replica: 1, each: 15 },
}

const sample: readonly Round[] = [{ victim: 'each' }]
const whole: readonly Round[] = [0, 80, 400].flatMap((delayMs) =>
  (['worker', 'supervisor', 'server', 'replica'] as const).map((victim) => ({ victim, delayMs })),
)

t.test(
  'each step of each operation on a MySQL database outlives the end of the worker, the supervisor and the server',
  { skip: here ? false : 'there is no MariaDB' },
  async (t) => {
    // Much of it is waiting.
    t.jobs = 3
    const all = [...sample, ...(wholeTable ? whole : [])].map((round) =>
      t.test(`${round.victim}, ${round.delayMs ?? 80} ms`, { buffered: true }, async (t) =>
        outliveSteps(t, table, round),
      ),
    )
    await Promise.all(all)
  },
)
