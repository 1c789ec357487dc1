import { existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { connectBus } from '../../bus/connect.ts'
import { findAllPostgres } from '../../ops/local/postgres-versions.ts'
import { unprivilegedAccount } from '../../ops/local/unprivileged.ts'
import { openLocalDriver } from '../../workers/provisioning/local/open-local.ts'
import { processesIn } from '../../workers/provisioning/supervisor/processes.ts'
import { startProvisioningWorker } from '../../workers/provisioning/worker.ts'
import { mysqlHere } from '../provisioning/platform.ts'

/**
 * A worker that has a victim killed once for each step it has recorded or begins to take back, some at once, some in the middle of the
 * next one: itself, the supervisor, the server that is the primary, or the others. What it did is noted in the folder `struck`, for its successors and the test.
 */
interface Plan {
  readonly natsUrl: string
  readonly home: string
  readonly secretKeys: readonly string[]
  readonly ports: { readonly from: number; readonly to: number }
  /** `each`: from step to step another one. */
  readonly victim: Victim | 'each' | 'none'
  /** Up to three times this passes between a step and its strike. */
  readonly delayMs: number
}

const victims = ['worker', 'supervisor', 'server'] as const
type Victim = (typeof victims)[number] | 'replica'

const plan = JSON.parse(process.argv[2] ?? '{}') as Plan
const account = unprivilegedAccount(join(plan.home, 'instances'))

interface Target {
  readonly uid: string
  readonly primary: string | null
}

/** Once for a step of a project's operation, however often it is done. */
function strike(name: string, target: Target | undefined): void {
  const victim = victimOf(name)
  if (victim === 'none') return
  const note = join(plan.home, 'struck', `${name} ${victim}`)
  if (existsSync(note)) return
  const hit = pidsOf(victim, target)
  if (hit.length === 0) return
  mkdirSync(join(plan.home, 'struck'), { recursive: true })
  writeFileSync(note, '')
  for (const pid of hit) killIt(pid)
}

/** The same for each step in every run. */
function victimOf(name: string): Victim | 'none' {
  const number = [...name].reduce((sum, letter) => sum + letter.charCodeAt(0), 0)
  return plan.victim === 'each' ? victims[number % victims.length]! : plan.victim
}

function pidsOf(victim: Victim, target: Target | undefined): readonly number[] {
  if (victim === 'worker') return [process.pid]
  if (victim === 'supervisor') return [Number(readFileSync(join(plan.home, 'supervisor.pid'), 'utf8').split(' ')[0])]
  if (target === undefined) return []
  const members = join(plan.home, 'instances', target.uid, 'members')
  const primary = target.primary ?? 'm1'
  const of = (member: string) => {
    const data = join(members, member, 'data')
    // The one that is being made, where there is none yet.
    return [data, `${data}.new`, `${data}.restoring`].flatMap(processesIn)
  }
  if (victim === 'server') return of(primary)
  return readdirSync(members)
    .filter((member) => member !== primary)
    .flatMap(of)
}

function killIt(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended by itself.
  }
}

/** The same for each step in every run, and different from step to step. */
function delayOf(step: string): number {
  return (step.length % 4) * plan.delayMs
}

const targets = new Map<string, Target>()
const bus = await connectBus({ url: plan.natsUrl, name: 'worker process' })
await startProvisioningWorker({
  bus,
  driver: async (view) => {
    const options = {
      ...plan,
      account,
      postgres: async () => findAllPostgres('/usr/bin:/bin', account),
      mysql: mysqlHere,
    }
    setInterval(() => {
      for (const { projectName, uid, primary } of view.instances()) targets.set(projectName, { uid, primary })
    }, 10).unref()
    return openLocalDriver(options, view)
  },
  observeMs: 500,
  onObservation: (observation) => {
    console.log(JSON.stringify(observation, (_key, value) => (value instanceof Error ? value.message : value)))
    if (observation.type !== 'operation-step' && observation.type !== 'operation-undoing') return
    const target = targets.get(observation.projectId)
    const what = observation.type === 'operation-step' ? observation.operation : 'undoing'
    setTimeout(() => {
      try {
        strike(`${observation.projectId} ${what} ${observation.step}`, target)
      } catch {
        // There is nobody to strike yet.
      }
    }, delayOf(observation.step))
  },
})
console.log('ready')
