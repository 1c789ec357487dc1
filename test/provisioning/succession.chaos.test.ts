import { existsSync, readdirSync, readFileSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import t from 'tap'
import { decide } from '../../bus/decide.ts'
import { load } from '../../bus/load.ts'
import { instance } from '../../schemas/provisioning/instance.ts'
import { facts } from '../../schemas/provisioning/instance-facts.ts'
import { instancePlace } from '../../workers/provisioning/runner.ts'
import { shutDownSupervisor } from '../../workers/provisioning/supervisor/client.ts'
import { eventually, platform, query, urlOf } from './platform.ts'

t.setTimeout(240_000)

t.test('what follows a primary that is killed is the same whenever it is', async (t) => {
  let strike: ((step: string) => void) | null = null
  const p = await platform(t, {
    worker: false,
    onObservation(observation) {
      if (observation.type === 'operation-step') strike?.(observation.step)
    },
  })
  const shown = async () => (await p.call('GET', '/api/provision/shop')).body
  const members = (id: string) => join(p.home, 'instances', id, 'members')
  const postmasterOf = (id: string, member: string) =>
    Number(readFileSync(join(members(id), member, 'data/postmaster.pid'), 'utf8').split('\n')[0])
  const recorded = async () => {
    const { state } = await load(p.bus, instance, instancePlace('shop'))
    if (state.stage !== 'wanted') throw new Error('it is gone')
    return state
  }
  /** Nothing is left to do, and the last thing that was is this. */
  const settledAfter = async (type: string, state = 'SUCCEEDED') => {
    await eventually(async () => {
      const { status, operation } = await shown()
      const fits = status === 'ACTIVE' && operation.type === type && operation.state === state
      if (!fits) throw new Error(`${status}, ${operation.type} ${operation.state}`)
    })
  }
  const written: number[] = []
  const write = async (n: number) => {
    const url = await urlOf(p, 'shop')
    await eventually(() => query(url, `insert into kept values (${n})`))
    written.push(n)
    const rows = await query(url, 'select id from kept order by id')
    t.same(rows.map(({ id }) => id), written, 'nothing is lost') // biome-ignore format: one line
  }

  let current = await p.startWorker()
  await t.test('in the very moment in which it is ready: a standby takes its place', async (t) => {
    strike = (step) => {
      if (step !== 'METRICS_SETUP') return
      strike = null
      process.kill(postmasterOf(readdirSync(join(p.home, 'instances'))[0]!, 'm1'), 'SIGKILL')
    }
    const body = { projectName: 'shop', orgId: 'acme', databaseType: 'POSTGRESQL', tier: 'STANDARD' }
    const made = await p.call('POST', '/api/provision?wait=120', body)
    t.equal(made.status, 201, JSON.stringify(made.body))
    t.equal(strike, null)
    const url = await urlOf(p, 'shop')
    await eventually(() => query(url, 'create table kept (id int primary key)'))
    t.equal((await shown()).primary, 'm2')
    await write(1)
    await settledAfter('REPAIR')
  })

  await t.test('a failover that broke off in the middle is finished', async (t) => {
    const { id } = await shown()
    await current.stop()
    process.kill(postmasterOf(id, 'm2'), 'SIGKILL')
    await decide(p.bus, {
      ...instancePlace('shop'),
      aggregate: instance,
      actor: 'test',
      decide: (state) => {
        if (state.stage !== 'wanted') return []
        const [first, second] = state.members
        const swapped = [
          { ...first!, port: second!.port },
          { ...second!, port: first!.port },
        ]
        return [facts.members.of({ members: swapped, primary: 'm1', at: Date.now() })]
      },
    })
    current = await p.startWorker()
    await write(2)
    t.equal((await shown()).primary, 'm1')
    t.notOk(existsSync(join(members(id), 'm1/data/standby.signal')))
    await settledAfter('REPAIR')
  })

  for (const [lost, written] of [
    ['data', 3],
    ['data/global/pg_control', 4],
  ] as const) {
    await t.test(`after an end of the machine that took its ${lost}: a standby takes its place`, async (t) => {
      const { id, primary } = await shown()
      await current.stop()
      await shutDownSupervisor(p.home)
      rmSync(join(members(id), primary, lost), { recursive: true })
      current = await p.startWorker()
      await write(written)
      t.not((await shown()).primary, primary)
      await settledAfter('REPAIR')
    })
  }

  await t.test('while its standby hangs: it starts again where it was', async (t) => {
    const { id, primary } = await shown()
    const standby = postmasterOf(id, primary === 'm1' ? 'm2' : 'm1')
    process.kill(standby, 'SIGSTOP')
    process.kill(postmasterOf(id, primary), 'SIGKILL')
    try {
      await write(5)
      t.equal((await shown()).primary, primary)
      const { operation } = await recorded()
      t.match(operation, { type: 'FAILOVER', state: 'FAILED', error: { message: /No standby can take over/ } })
    } finally {
      process.kill(standby, 'SIGCONT')
    }
    await settledAfter('FAILOVER', 'FAILED')
  })
  t.equal((await p.call('DELETE', '/api/provision/shop?wait=60')).status, 200)
})
