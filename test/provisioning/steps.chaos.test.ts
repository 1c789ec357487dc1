import { resolve } from 'node:path'
import t, { type Test } from 'tap'
import { load } from '../../bus/load.ts'
import { instance } from '../../schemas/provisioning/instance.ts'
import type { OperationType } from '../../schemas/provisioning/instance-facts.ts'
import { instancePlace } from '../../workers/provisioning/runner.ts'
import { startCommand } from '../support/command.ts'
import { eventually, leftovers, majorsHere, type ProvisioningPlatform, platform, query, urlOf } from './platform.ts'

t.setTimeout(290_000)

const shop = { projectName: 'shop', orgId: 'acme', databaseType: 'POSTGRESQL', tier: 'FREE' }

const { older, newer } = majorsHere()

/** How the newest operation of a type ended, however often whoever runs it has to begin anew. */
async function ended(t: Test, { bus }: ProvisioningPlatform, project: string, type: OperationType): Promise<string> {
  return await eventually(async () => {
    const { state } = await load(bus, instance, instancePlace(project))
    if (state.stage !== 'wanted') return 'GONE'
    const found = [state.operation, ...state.earlier].find((each) => each.type === type)
    if (found?.state !== 'SUCCEEDED' && found?.state !== 'FAILED') throw new Error(JSON.stringify(found))
    t.comment(`${type}: ${found.state} ${found.error === null ? '' : JSON.stringify(found.error)}`)
    return found.state
  }, 120_000)
}

/** A worker that is started again whenever it is killed; ends with the test. */
function keepWorker(
  t: Test,
  { natsUrl, home, secretKeys, ports }: ProvisioningPlatform,
  victim: string,
): () => Promise<void> {
  let going = true
  let current = start()
  function start() {
    const plan = JSON.stringify({ natsUrl, home, secretKeys, ports, victim })
    const command = startCommand(process.execPath, [
      resolve(import.meta.dirname, '../chaos/provisioning-process.ts'),
      plan,
    ])
    void command.finished.then(({ stdout, stderr }) => {
      for (const line of stdout.split('\n')) if (line.includes('operation-undoing')) t.comment(line)
      if (stderr !== '') t.comment(stderr)
      if (going) current = start()
    })
    return command
  }
  const stop = async () => {
    going = false
    current.process.kill('SIGKILL')
    await current.finished
  }
  t.teardown(stop)
  return stop
}

interface Turn {
  readonly type: OperationType
  readonly project: string
  readonly begin: readonly [method: string, path: string, body?: unknown]
  /** `FAILED`: it was taken back. */
  readonly ends: RegExp
  /** What is so afterwards, for how it ended. */
  readonly check?: (p: ProvisioningPlatform, ended: string) => Promise<readonly [found: unknown, wanted: unknown]>
}

const majorOf = async (p: ProvisioningPlatform, project: string) =>
  (await eventually(async () => query(await urlOf(p, project), 'show server_version')))[0]!.server_version
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
          check: async (p, ended) => [await majorOf(p, 'shop'), String(ended === 'SUCCEEDED' ? newer : older)],
        } as const satisfies Turn,
      ]
    : []),
  {
    type: 'RESTORE',
    project: 'copy',
    begin: ['POST', '/api/provision/shop/backup/restore', { newProjectId: 'copy' }],
    ends: /SUCCEEDED|FAILED/,
    check: async (p, ended) => {
      if (ended !== 'SUCCEEDED') return [(await p.call('GET', '/api/provision/copy')).body.members, []]
      const copy = await urlOf(p, 'copy')
      return [await eventually(() => query(copy, 'select id from kept')), [{ id: 1 }]]
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

t.test('each step of each operation outlives the end of the worker, the supervisor and the server', async (t) => {
  // Much of it is waiting.
  t.jobs = 3
  const all = (['worker', 'supervisor', 'server'] as const).map((victim) =>
    t.test(victim, { buffered: true }, async (t) => {
      const p = await platform(t, { worker: false })
      const stop = keepWorker(t, p, victim)
      // Asked again as the same request: it is begun once.
      const begun = async ([method, path, body]: Turn['begin']) =>
        eventually(async () => {
          const { status } = await p.call(method, path, body, { 'Idempotency-Key': `${method}-${path}` })
          if (status >= 300) throw new Error(`${path}: ${status}`)
        })
      const wanted = { ...shop, postgresVersion: String(older), backup: { enabled: true } }
      await begun(['POST', '/api/provision', wanted])
      t.equal(await ended(t, p, 'shop', 'CREATE'), 'SUCCEEDED', 'it is made')
      const url = await urlOf(p, 'shop')
      await eventually(() => query(url, 'create table if not exists kept (id int primary key)'))
      await eventually(() => query(url, 'insert into kept values (1) on conflict do nothing'))
      for (const { type, project, begin, ends, check } of turns) {
        await begun(begin)
        const how = await ended(t, p, project, type)
        t.match(how, ends, `${type}: is finished, or taken back`)
        const [found, expected] = (await check?.(p, how)) ?? []
        t.same(found, expected, `${type}: it is as it says`)
        t.same(await eventually(() => query(url, 'select id from kept')), [{ id: 1 }], 'what was committed is there')
      }
      await begun(['DELETE', '/api/provision/shop'])
      t.equal(await ended(t, p, 'shop', 'DELETE'), 'GONE', 'it is deleted')
      t.strictSame(leftovers(p.home), [], 'nothing is left without an owner')
      await stop()
    }),
  )
  await Promise.all(all)
})
