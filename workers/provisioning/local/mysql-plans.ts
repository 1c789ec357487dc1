import { existsSync } from 'node:fs'
import type { Instance } from '../../../schemas/provisioning/instance.ts'
import { facts, type OperationType } from '../../../schemas/provisioning/instance-facts.ts'
import { tiers } from '../../../schemas/provisioning/tiers.ts'
import type { Plan, Step } from '../driver.ts'
import { newPassword } from './credentials/scram.ts'
import { makeInstanceFolder, removeInstanceFolder } from './folders.ts'
import { endMysqlNode } from './mysql/closed-server.ts'
import { createMysql, makeMysqlFolders } from './mysql/create.ts'
import { openMysql } from './mysql/mysql-session.ts'
import { firstMysqlBackup } from './mysql-backups.ts'
import { mysqlCarePlans, setMysqlParameters } from './mysql-care-plans.ts'
import { copyMysqlData } from './mysql-copies.ts'
import { type MysqlInstance, openMysqlInstance, startMysql } from './mysql-instance.ts'
import { addReplicas, mysqlScalePlan } from './mysql-scale.ts'
import { mysqlSteps } from './mysql-step.ts'
import { freePorts, type LocalPlace, missingEngine } from './place.ts'
import { passwordContext } from './postgres-instance.ts'

/** What can be done with an instance of the type MYSQL on this machine. */
export function mysqlPlans(place: LocalPlace): Partial<Record<OperationType, Plan>> {
  const step = mysqlSteps(place)
  const start = step('WAITING_FOR_READY', async (opened, { signal }) => {
    await startMysql(opened, signal)
    return undefined
  })
  const replicas = step('REPLICATION', async (opened, { signal }) => {
    await addReplicas(opened, signal)
    return undefined
  })
  const parameters = step('PARAMETERS', async (opened, { instance, signal }) => {
    await setMysqlParameters(opened, instance.parameters, signal)
    return undefined
  })
  const verify = step('METRICS_SETUP', async (opened, { instance }) => {
    await logIn(opened, instance)
    return { facts: [facts.health.of({ health: 'HEALTHY', reason: null, at: Date.now() })] }
  })
  const folders = step('NAMESPACE_CREATION', async (opened, { instance }) => {
    const { uid, projectName } = instance
    await makeInstanceFolder(opened.folders, { uid, projectName }, place.account)
    for (const member of instance.members) makeMysqlFolders(opened.nodeOf(member))
    return undefined
  })
  const create = step('CRD_DEPLOYMENT', async (opened, { instance }) => {
    const owner = { user: instance.masterUsername, password: opened.password('master') }
    await createMysql(opened.control, opened.primary(), owner)
    return undefined
  })
  const copy = step('CRD_DEPLOYMENT', async (opened, work) => copyMysqlData(place, opened, work))
  const remove: Step = {
    name: 'REMOVE',
    async run({ instance }) {
      if (instance.credentials !== null) {
        const opened = await openMysqlInstance(place, instance)
        if (existsSync(opened.folders.root)) {
          for (const member of instance.members) await endMysqlNode(opened.control, opened.nodeOf(member))
        }
        removeInstanceFolder(opened.folders, instance.uid)
      }
      return { facts: [facts.members.of({ members: [], primary: null, at: Date.now() })] }
    },
  }
  const forget: Step = { name: 'FORGET', run: async () => ({ facts: [facts.deleted.of({ at: Date.now() })] }) }
  const made = (data: Step): Plan => ({
    steps: [reserve(place), folders, data, start, replicas, parameters, firstMysqlBackup(step), verify],
    undo: [remove],
  })
  return {
    CREATE: made(create),
    CLONE: made(copy),
    RESTORE: made(copy),
    DELETE: { steps: [remove, forget], undo: [] },
    ...mysqlCarePlans(place, step),
    SCALE: mysqlScalePlan(place, step),
  }
}

function reserve(place: LocalPlace): Step {
  return {
    name: 'VALIDATING',
    async run({ instance }) {
      const found = await place.mysql()
      if (found === null) throw missingEngine('MYSQL', 'POST /api/setup/install/MYSQL')
      const at = Date.now()
      const ports = await freePorts(place, tiers[instance.tier].localInstances)
      const members = ports.map((port, index) => ({ name: `m${index + 1}`, port, version: found.version }))
      const seal = (which: 'master' | 'superuser') =>
        place.keys.seal(newPassword(), `${passwordContext(instance.uid, which)}1`)
      const credentials = { superuser: seal('superuser'), master: seal('master'), pending: null, version: 1, at }
      return {
        facts: [
          facts.members.of({ members, primary: 'm1', at }),
          ...(instance.credentials === null ? [facts.credentials.of(credentials)] : []),
        ],
      }
    },
  }
}

async function logIn(opened: MysqlInstance, { masterUsername }: Instance): Promise<void> {
  const connection = await openMysql(opened.primary(), {
    user: { user: masterUsername, password: opened.password('master') },
  })
  await connection.end()
}
