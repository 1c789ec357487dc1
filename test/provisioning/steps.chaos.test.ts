import t from 'tap'
import { eventually, majorsHere, query, urlOf } from './platform.ts'
import { outliveSteps, type Scene, type StepsTable, type Turn } from './steps.ts'

t.setTimeout(290_000)

const { older, newer } = majorsHere()

const majorOf = async (scene: Scene, project: string) =>
  (await eventually(async () => query(await urlOf(scene, project), 'show server_version')))[0]!.server_version
    ?.toString()
    .split('.')[0]

const turns: readonly Turn[] = [
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
      if (ended !== 'SUCCEEDED') return [(await scene.call('GET', '/api/provision/copy')).body.members, []]
      const copy = await urlOf(scene, 'copy')
      const found = new Set(await eventually(() => scene.rows(copy)))
      return [scene.before.filter((id) => !found.has(id)), []]
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
  strikes: { worker: 10, supervisor: 15, server: 10, replica: 0, each: 15 },
}

t.test('each step of each operation outlives the end of the worker, the supervisor and the server', async (t) => {
  // Much of it is waiting.
  t.jobs = 3
  const all = (['worker', 'supervisor', 'server'] as const).map((victim) =>
    t.test(victim, { buffered: true }, async (t) => outliveSteps(t, table, { victim })),
  )
  await Promise.all(all)
})
