import { Rejected } from '../../../schemas/failure.ts'
import type { Instance } from '../../../schemas/provisioning/instance.ts'
import { facts, type OperationType } from '../../../schemas/provisioning/instance-facts.ts'
import type { Driver, Plan, Step } from '../driver.ts'
import { backupPlan, firstBackup, lastBackupAt, verifyBackupPlan } from './backups.ts'
import { bringUp } from './bring-up.ts'
import { firstParameters, parametersPlan, resizePlan, restartPlan, rotatePlan, snapshotPlan } from './care-plans.ts'
import { copyPlan } from './copies.ts'
import { createSteps, removeAll } from './create.ts'
import { failoverPlan, repairPlan } from './failover.ts'
import { auditPlan, queryStatsPlan } from './insight.ts'
import { type Measured, measure } from './measure.ts'
import { observe, type Watched } from './observe.ts'
import { type LocalPlace, missingEngine } from './place.ts'
import { askPostgres } from './questions.ts'
import { scalePlan } from './scale.ts'
import { upgradePlan } from './upgrade-plan.ts'

export interface LocalDriverOptions {
  readonly place: LocalPlace
  /** Brings servers of MySQL's kind; absent: there are none. */
}

/** Database servers on this machine. */
export function localDriver({ place }: LocalDriverOptions): Driver {
  const plans: Partial<Record<OperationType, Plan>> = {
    CREATE: { steps: createSteps(place, firstParameters(place), firstBackup(place)), undo: [removeAll(place)] },
    DELETE: { steps: [removeAll(place), forget], undo: [] },
    CLONE: copyPlan(place),
    RESTORE: copyPlan(place),
    BACKUP: backupPlan(place),
    VERIFY_BACKUP: verifyBackupPlan(place),
    SNAPSHOT: snapshotPlan(place),
    ENABLE_QUERY_STATS: queryStatsPlan(place),
    ENABLE_AUDIT: auditPlan(place),
    ROTATE: rotatePlan(place),
    PARAMETERS: parametersPlan(place),
    RESTART: restartPlan(place),
    RESIZE: resizePlan(place),
    UPGRADE: upgradePlan(place),
    SCALE: scalePlan(place),
    FAILOVER: failoverPlan(place),
    REPAIR: repairPlan(place),
  }
  const watched = new Map<string, Watched & Measured>()
  const rememberedOf = ({ uid }: Instance) => {
    const known = watched.get(uid) ?? { missingSince: new Map(), silent: 0, before: undefined, diskBytes: null }
    watched.set(uid, known)
    return known
  }
  return {
    name: 'local',
    place: place.name,
    async engines() {
      const postgres = await place.postgres()
      const none = { installed: false, versions: [] }
      return [
        {
          databaseType: 'POSTGRESQL',
          installed: postgres.length > 0,
          versions: postgres.map(({ version }) => version),
          advice: postgres.length > 0 ? null : 'Install PostgreSQL 15 or newer (Debian: apt-get install postgresql).',
        },
        { databaseType: 'MYSQL', ...none, advice: 'Not installed.' },
        { databaseType: 'MONGODB', ...none, advice: 'Install mongod and put it on PATH.' },
      ]
    },
    async install(databaseType) {
      if (databaseType === 'POSTGRESQL' && (await place.postgres()).length > 0) return
      throw missingEngine(databaseType, 'Install a server of this kind on the machine.')
    },
    plan(type, { databaseType }) {
      const plan = databaseType === 'POSTGRESQL' ? plans[type] : undefined
      if (plan !== undefined) return plan
      throw new Rejected('provisioning/unsupported', `${type} is not for ${databaseType} with the local driver`)
    },
    bringUp: (instance, signal) => bringUp(place, instance, signal),
    observe: (instance) => observe(place, instance, rememberedOf(instance)),
    measure: (instance) => measure(place, instance, rememberedOf(instance)),
    lastBackupAt: (instance) => lastBackupAt(place, instance),
    forget: (uid) => void watched.delete(uid),
    ask: (question, instance, params) => askPostgres(place, question, instance, params),
    async close() {},
  }
}

const forget: Step = {
  name: 'FORGET',
  run: async () => ({ facts: [facts.deleted.of({ at: Date.now() })] }),
}
