import { existsSync, mkdirSync, readdirSync } from 'node:fs'
import { basename, join, resolve } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import type { Test } from 'tap'
import { load } from '../../bus/load.ts'
import { environment } from '../../schemas/config/environment.ts'
import { instance } from '../../schemas/provisioning/instance.ts'
import type { OperationType } from '../../schemas/provisioning/instance-facts.ts'
import { instancePlace } from '../../workers/provisioning/runner.ts'
import { startCommand } from '../support/command.ts'
import { eventually, leftovers, type ProvisioningPlatform, platform, urlOf } from './platform.ts'

/** All rounds, not those of the gate alone. */
export const wholeTable = environment().CHAOS_STEPS === 'all'

export interface Round {
  /** `each`: from step to step another one. */
  readonly victim: 'worker' | 'supervisor' | 'server' | 'replica' | 'each'
  /** Up to three times this passes between a step and its strike. Default 80. */
  readonly delayMs?: number
}

/** What a turn is checked with. */
export interface Scene extends ProvisioningPlatform {
  readonly query: (url: string, sql: string) => Promise<readonly Record<string, unknown>[]>
  /** Of `shop`, as it was before the turn began. */
  readonly url: string
  /** The rows that were committed before the turn began. */
  readonly before: readonly number[]
  /** Which rows there are. */
  rows(url: string): Promise<readonly number[]>
}

type Request = readonly [method: string, path: string, body?: unknown]

export interface Turn {
  readonly type: OperationType
  readonly project: string
  readonly begin: Request | ((scene: Scene) => Promise<Request>)
  /** `FAILED`: it was taken back. */
  readonly ends: RegExp
  /** What is so afterwards, for how it ended. */
  readonly check?: (scene: Scene, ended: string) => Promise<readonly [found: unknown, wanted: unknown]>
}

export interface StepsTable {
  readonly query: Scene['query']
  /** The instance `shop`. */
  readonly wanted: object
  readonly turns: readonly Turn[]
  /** The least number of strikes that hit in a round. */
  readonly strikes: Readonly<Record<Round['victim'], number>>
}

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
function keepWorker(t: Test, place: ProvisioningPlatform, { victim, delayMs = 80 }: Round): () => Promise<void> {
  const { natsUrl, home, secretKeys, ports } = place
  mkdirSync(temporary(home), { mode: 0o711 })
  let going = true
  let current = start()
  function start() {
    const plan = JSON.stringify({ natsUrl, home, secretKeys, ports, victim, delayMs })
    const command = startCommand(
      process.execPath,
      [resolve(import.meta.dirname, '../chaos/provisioning-process.ts'), plan],
      { TMPDIR: temporary(home) },
    )
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

/** What is in the making in the folders of instances while nobody makes anything, and what lies in the workers' own temporary folder. */
function strays({ home }: ProvisioningPlatform): readonly string[] {
  const instances = join(home, 'instances')
  const making = readdirSync(instances).flatMap((uid) =>
    ['', 'backups', ...['m1', 'm2', 'm3'].map((name) => `members/${name}`)]
      .map((name) => join(instances, uid, name))
      .filter((folder) => existsSync(folder))
      .flatMap((folder) => readdirSync(folder).map((name) => join(folder, name)))
      .filter((path) => /^(\.|seed$)|\.(new|restoring)$/.test(basename(path))),
  )
  return [...making, ...readdirSync(temporary(home))]
}

/** A failover is followed by the making of a new standby, on its own account. */
async function lastStrays(p: ProvisioningPlatform): Promise<readonly string[]> {
  const none = async () => {
    if (strays(p).length > 0) throw new Error('there is something')
  }
  await eventually(none, 30_000).catch(() => undefined)
  return strays(p)
}

function temporary(home: string): string {
  return join(home, 'tmp')
}

/** Somebody who writes rows and remembers which of them were committed. */
function writer(url: () => string, query: StepsTable['query']) {
  const committed: number[] = []
  let next = 1
  const write = async () => {
    const id = next++
    await query(url(), `insert into kept values (${id})`)
    committed.push(id)
  }
  return {
    committed,
    write,
    /** Writes until the work is done; what cannot be written meanwhile is not committed. */
    async during<T>(work: Promise<T>): Promise<T> {
      let working = true
      const done = work.finally(() => {
        working = false
      })
      while (working) {
        await write().catch(() => undefined)
        await Promise.race([sleep(200), done.catch(() => undefined)])
      }
      return await done
    },
  }
}

/**
 * All operations of a table, one after the other; at each of their steps the victim is killed. Each is finished or taken back, what
 * was committed meanwhile is there, and at the end nothing is left.
 */
export async function outliveSteps(t: Test, table: StepsTable, round: Round): Promise<void> {
  const { query, wanted, turns } = table
  const p = await platform(t, { worker: false })
  const stop = keepWorker(t, p, round)
  // Asked again as the same request: it is begun once.
  const begun = async ([method, path, body]: Request) => {
    const key = {
      'Idempotency-Key': `${method}-${path}-${Buffer.from(JSON.stringify(body ?? null)).toString('hex')}`.slice(0, 200),
    }
    await eventually(async () => {
      const { status, body: answer } = await p.call(method, path, body, key)
      if (status >= 300) throw new Error(`${path}: ${status} ${JSON.stringify(answer)}`)
    })
  }
  await begun(['POST', '/api/provision', wanted])
  t.equal(await ended(t, p, 'shop', 'CREATE'), 'SUCCEEDED', 'it is made')
  let url = await urlOf(p, 'shop')
  await eventually(() => query(url, 'create table if not exists kept (id int primary key)'))
  const rows = async (of: string) => (await query(of, 'select id from kept order by id')).map(({ id }) => Number(id))
  const { committed, write, during } = writer(() => url, query)
  for (const { type, project, begin, ends, check } of turns) {
    await eventually(write)
    const scene: Scene = { ...p, query, rows, url, before: [...committed] }
    await begun(typeof begin === 'function' ? await begin(scene) : begin)
    const how = await during(ended(t, p, project, type))
    t.match(how, ends, `${type}: is finished, or taken back`)
    const [found, expected] = (await check?.(scene, how)) ?? []
    t.same(found, expected, `${type}: it is as it says`)
    url = await eventually(() => urlOf(p, 'shop'))
    const kept = new Set(await eventually(() => rows(url)))
    const lost = committed.filter((id) => !kept.has(id))
    t.strictSame(await lastStrays(p), [], `${type}: nothing half made is left`)
    t.strictSame(lost, [], `${type}: what was committed is there, ${committed.length} rows`)
  }
  await begun(['DELETE', '/api/provision/shop'])
  t.equal(await ended(t, p, 'shop', 'DELETE'), 'GONE', 'it is deleted')
  t.strictSame(leftovers(p.home), [], 'nothing is left without an owner')
  const struck = join(p.home, 'struck')
  const strikes = existsSync(struck) ? readdirSync(struck) : []
  t.comment(`${strikes.length} strikes: ${strikes.join(', ')}`)
  t.ok(strikes.length >= table.strikes[round.victim], `${strikes.length} strikes hit`)
  await stop()
}
