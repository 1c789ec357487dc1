import { readFileSync } from 'node:fs'
import { statfs } from 'node:fs/promises'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { parseArgs } from 'node:util'
import { readProcessUsage } from '../../workers/provisioning/local/metrics/process-usage.ts'
import { round } from './measure.ts'
import { Bench, machine } from './processes.ts'
import { measurePitr } from './provisioning-pitr.ts'
import {
  type Service,
  type Shown,
  settled,
  spread,
  startService,
  timed,
  until,
  wanted,
} from './provisioning-service.ts'
import { keepResult } from './results.ts'

/**
 * Databases on request: from the POST to the first answered query (FREE), from kill -9 of a primary to the first write that is committed
 * and to the old one's return (STANDARD), a restore to a time of a database of some size, and what an idle instance takes of the memory.
 * Prints one JSON line and keeps it.
 *
 *     node ops/bench/provisioning.ts [--rounds=5] [--failovers=3] [--gigabytes=1] [--idle-seconds=20] [--no-keep]
 *
 * `--gigabytes` is 1, or less where the disk is short: eight times as much is needed. 0 leaves the restore out.
 * Targets: the first query within 3 s; a new primary within 10 s.
 */
const { values } = parseArgs({
  allowNegative: true,
  options: {
    rounds: { type: 'string', default: '5' },
    failovers: { type: 'string', default: '3' },
    gigabytes: { type: 'string' },
    'idle-seconds': { type: 'string', default: '20' },
    keep: { type: 'boolean', default: true },
  },
})

async function main(): Promise<void> {
  const before = machine()
  const gigabytes = values.gigabytes === undefined ? await affordable() : Number(values.gigabytes)
  const inputs = {
    rounds: Number(values.rounds),
    failovers: Number(values.failovers),
    gigabytes,
    idleSeconds: Number(values['idle-seconds']),
  }
  await using bench = new Bench()
  const service = await startService(bench)
  try {
    const firstQuery = await measureFirstQuery(service, inputs.rounds)
    const idle = await measureIdle(service, firstQuery.projects, inputs.idleSeconds)
    for (const project of firstQuery.projects) await settled(service, 'DELETE', `/${project}`)
    const failover = inputs.failovers > 0 ? await measureFailover(service, inputs.failovers) : null
    const pitr = gigabytes > 0 ? await measurePitr(service, gigabytes) : null
    const { postgres, toFirstQueryMs, toDeletedMs } = firstQuery
    const at = new Date().toISOString()
    const figures = { postgres, toFirstQueryMs, toDeletedMs, idle, failover, pitr }
    keepResult({ benchmark: 'provisioning', at, inputs, machine: before, ...figures }, values.keep)
  } finally {
    await service.stop()
  }
}

const gib = 1024 ** 3

/** Data, its log, the archive, the backup, the restored copy and its own log. */
async function affordable(): Promise<number> {
  const { bavail, bsize } = await statfs(tmpdir())
  return Math.min(1, Math.floor(((bavail * bsize) / gib / 8) * 10) / 10)
}

/** One after the other; they stay. */
async function measureFirstQuery(service: Service, rounds: number) {
  const projects: string[] = []
  const all: number[] = []
  let postgres = ''
  for (let each = 1; each <= rounds; each++) {
    const project = `first-${each}`
    all.push(
      await timed(async () => {
        await settled(service, 'POST', '', wanted(project))
        const client = await service.open(project)
        const { rows } = await client.query<{ server_version: string }>('show server_version')
        postgres = rows[0]!.server_version
        await client.end()
      }),
    )
    projects.push(project)
  }
  await settled(service, 'POST', '', wanted('short-lived'))
  const toDeletedMs = await timed(() => settled(service, 'DELETE', '/short-lived'))
  return { projects, postgres, toFirstQueryMs: spread(all), toDeletedMs }
}

/** The proportional share of memory of an instance's processes, which shares what is shared among those who share it. */
async function measureIdle(service: Service, projects: readonly string[], seconds: number) {
  await new Promise((passed) => setTimeout(passed, seconds * 1_000))
  const pids = await Promise.all(projects.map((project) => service.primaryPid(project)))
  const pss = async (pid: number) => round(((await readProcessUsage(pid))?.memoryBytes ?? Number.NaN) / 1024 ** 2)
  const instances = []
  for (const pid of pids) instances.push(await pss(pid))
  const supervisor = Number(readFileSync(join(service.home, 'supervisor.pid'), 'utf8').split(' ')[0])
  // Its children are the servers.
  const own = /^Pss:\s+(\d+) kB/m.exec(readFileSync(`/proc/${supervisor}/smaps_rollup`, 'utf8'))?.[1]
  return { pssMb: spread(instances), instances: projects.length, supervisorPssMb: round(Number(own) / 1024) }
}

/**
 * kill -9 of the primary; a client that tries again and again is told of its commit by whoever comes after. `ways`: how often that was a
 * standby, and how often the same server, started again. It is not killed while an operation is under way.
 */
async function measureFailover(service: Service, rounds: number) {
  const project = 'standing'
  await settled(service, 'POST', '', wanted(project, { tier: 'STANDARD' }))
  const first = await service.open(project)
  await first.query('create table written (n int)')
  await first.end()
  const toWriteMs: number[] = []
  const toStandbyMs: number[] = []
  const ways = { successor: 0, sameServer: 0 }
  for (let n = 1; n <= rounds; n++) {
    await until(() => isSettled(service, project), 'the end of what is under way')
    const pid = await service.primaryPid(project)
    const before = await service.request<Shown>('GET', `/${project}`)
    process.kill(pid, 'SIGKILL')
    const killed = performance.now()
    await until(() => writes(service, project, n), 'the first write')
    const toWrite = Math.round(performance.now() - killed)
    await until(() => isSettled(service, project), 'the return of what was killed')
    const { primary } = await service.request<Shown>('GET', `/${project}`)
    if (primary === before.primary) ways.sameServer++
    else {
      ways.successor++
      toWriteMs.push(toWrite)
      toStandbyMs.push(Math.round(performance.now() - killed))
    }
  }
  const client = await service.open(project)
  const { rows } = await client.query<{ n: number }>('select count(distinct n)::int as n from written')
  await client.end()
  if (rows[0]?.n !== rounds) throw new Error(`${rows[0]?.n} of ${rounds} written rows are there`)
  await settled(service, 'DELETE', `/${project}`)
  if (ways.successor === 0) return { ways, toFirstWriteMs: null, toStandbyAgainMs: null }
  return { ways, toFirstWriteMs: spread(toWriteMs), toStandbyAgainMs: spread(toStandbyMs) }
}

async function writes(service: Service, project: string, n: number): Promise<boolean> {
  try {
    const client = await service.open(project)
    await client.query(`insert into written values (${n})`).finally(() => client.end())
    return true
  } catch {
    return false
  }
}

/** Nothing is under way, and all of its servers follow the primary. */
async function isSettled(service: Service, project: string): Promise<boolean> {
  const { status, operation } = await service.request<Shown>('GET', `/${project}`)
  return status === 'ACTIVE' && operation.state !== 'RUNNING'
}

await main()
