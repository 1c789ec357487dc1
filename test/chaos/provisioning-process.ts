import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { connectBus } from '../../bus/connect.ts'
import { findAllPostgres } from '../../ops/local/postgres-versions.ts'
import { unprivilegedAccount } from '../../ops/local/unprivileged.ts'
import { openLocalDriver } from '../../workers/provisioning/local/open-local.ts'
import { processesIn } from '../../workers/provisioning/supervisor/processes.ts'
import { startProvisioningWorker } from '../../workers/provisioning/worker.ts'

/**
 * A worker that has a victim killed once for each step it has recorded, some at once, some in the middle of the next one: itself, the
 * supervisor, or the server that is the primary.
 */
interface Plan {
  readonly natsUrl: string
  readonly home: string
  readonly secretKeys: readonly string[]
  readonly ports: { readonly from: number; readonly to: number }
  readonly victim: 'worker' | 'supervisor' | 'server' | 'none'
}

const plan = JSON.parse(process.argv[2] ?? '{}') as Plan
const account = unprivilegedAccount(join(plan.home, 'instances'))

interface Target {
  readonly uid: string
  readonly primary: string | null
}

function strike(target: Target | undefined): void {
  if (plan.victim === 'worker') process.kill(process.pid, 'SIGKILL')
  if (plan.victim === 'supervisor')
    killIt(Number(readFileSync(join(plan.home, 'supervisor.pid'), 'utf8').split(' ')[0]))
  if (plan.victim === 'server' && target !== undefined) {
    const { uid, primary } = target
    for (const pid of processesIn(join(plan.home, 'instances', uid, 'members', primary ?? 'm1', 'data'))) killIt(pid)
  }
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
  return (step.length % 4) * 80
}

const targets = new Map<string, Target>()
const bus = await connectBus({ url: plan.natsUrl, name: 'worker process' })
await startProvisioningWorker({
  bus,
  driver: async (view) => {
    const options = { ...plan, account, postgres: async () => findAllPostgres('/usr/bin:/bin', account) }
    setInterval(() => {
      for (const { projectName, uid, primary } of view.instances()) targets.set(projectName, { uid, primary })
    }, 10).unref()
    return openLocalDriver(options, view)
  },
  observeMs: 500,
  onObservation: (observation) => {
    console.log(JSON.stringify(observation, (_key, value) => (value instanceof Error ? value.message : value)))
    if (observation.type !== 'operation-step') return
    const target = targets.get(observation.projectId)
    setTimeout(() => {
      try {
        strike(target)
      } catch {
        // There is nobody to strike yet.
      }
    }, delayOf(observation.step))
  },
})
console.log('ready')
