import { readFileSync } from 'node:fs'
import { join } from 'node:path'
import { connectBus } from '../../bus/connect.ts'
import { findAllPostgres } from '../../ops/local/postgres-versions.ts'
import { unprivilegedAccount } from '../../ops/local/unprivileged.ts'
import { openLocalDriver } from '../../workers/provisioning/local/open-local.ts'
import { processesIn } from '../../workers/provisioning/supervisor/processes.ts'
import { startProvisioningWorker } from '../../workers/provisioning/worker.ts'

/** A worker that, behind each step it has recorded, has a victim killed: itself, the supervisor, or a server. */
interface Plan {
  readonly natsUrl: string
  readonly home: string
  readonly secretKeys: readonly string[]
  readonly ports: { readonly from: number; readonly to: number }
  readonly victim: 'worker' | 'supervisor' | 'server' | 'none'
}

const plan = JSON.parse(process.argv[2] ?? '{}') as Plan
const account = unprivilegedAccount(join(plan.home, 'instances'))

function strike(uid: string | undefined): void {
  if (plan.victim === 'worker') process.kill(process.pid, 'SIGKILL')
  if (plan.victim === 'supervisor')
    killIt(Number(readFileSync(join(plan.home, 'supervisor.pid'), 'utf8').split(' ')[0]))
  if (plan.victim === 'server' && uid !== undefined) {
    for (const pid of processesIn(join(plan.home, 'instances', uid, 'members/m1/data'))) killIt(pid)
  }
}

function killIt(pid: number): void {
  try {
    process.kill(pid, 'SIGKILL')
  } catch {
    // It has ended by itself.
  }
}

const uids = new Map<string, string>()
const bus = await connectBus({ url: plan.natsUrl, name: 'worker process' })
await startProvisioningWorker({
  bus,
  driver: async (view) => {
    const options = { ...plan, account, postgres: async () => findAllPostgres('/usr/bin:/bin', account) }
    setInterval(() => {
      for (const { projectName, uid } of view.instances()) uids.set(projectName, uid)
    }, 10).unref()
    return openLocalDriver(options, view)
  },
  observeMs: 500,
  onObservation: (observation) => {
    console.log(JSON.stringify(observation, (_key, value) => (value instanceof Error ? value.message : value)))
    if (observation.type !== 'operation-step') return
    try {
      strike(uids.get(observation.projectId))
    } catch {
      // There is nobody to strike yet.
    }
  },
})
console.log('ready')
