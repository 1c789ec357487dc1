import { Rejected } from '../../../schemas/failure.ts'
import type { Instance } from '../../../schemas/provisioning/instance.ts'
import { facts, type OperationType } from '../../../schemas/provisioning/instance-facts.ts'
import type { Driver, Plan, Step } from '../driver.ts'
import { backupPlan, firstBackup, lastBackupAt, untestedBackup, verifyBackupPlan } from './backups.ts'
import { bringUp } from './bring-up.ts'
import { firstParameters, parametersPlan, resizePlan, restartPlan, rotatePlan, snapshotPlan } from './care-plans.ts'
import { copyPlan } from './copies.ts'
import { createSteps, removeAll } from './create.ts'
import { failoverPlan, repairPlan } from './failover.ts'
import { auditPlan, queryStatsPlan } from './insight.ts'
import { type Measured, measure } from './measure.ts'
import { mysqlPlans } from './mysql-plans.ts'
import { askMysql, bringUpMysql, observeMysql } from './mysql-questions.ts'
import { guard, observe, type Watched } from './observe.ts'
import { checkNewParameters } from './parameters/new-parameters.ts'
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
  const mysql = mysqlPlans(place)
  const watched = new Map<string, Watched & Measured>()
  const rememberedOf = ({ uid }: Instance) => {
    const known = watched.get(uid) ?? {
      missingSince: new Map(),
      silentSince: new Map(),
      before: undefined,
      diskBytes: null,
      tidiedAt: Number.NEGATIVE_INFINITY,
    }
    watched.set(uid, known)
    return known
  }
  return {
    name: 'local',
    place: place.name,
    async engines() {
      const [postgres, mysql] = await Promise.all([place.postgres(), place.mysql()])
      const none = { installed: false, versions: [] }
      return [
        {
          databaseType: 'POSTGRESQL',
          installed: postgres.length > 0,
          versions: postgres.map(({ version }) => version),
          advice: postgres.length > 0 ? null : advice.POSTGRESQL,
        },
        {
          databaseType: 'MYSQL',
          installed: mysql !== null,
          versions: mysql === null ? [] : [mysql.version],
          advice:
            mysql === null
              ? 'POST /api/setup/install/MYSQL, or install MariaDB (Debian: apt-get install mariadb-server).'
              : null,
        },
        { databaseType: 'MONGODB', ...none, advice: advice.MONGODB },
      ]
    },
    async install(databaseType) {
      if (databaseType === 'POSTGRESQL' && (await place.postgres()).length > 0) return
      if (databaseType !== 'MYSQL') throw missingEngine(databaseType, advice[databaseType])
      if ((await place.mysql()) !== null) return
      await place.installMysql().catch((error: Error) => {
        throw missingEngine(databaseType, error.message)
      })
    },
    checkNewParameters: (wanted) => checkNewParameters(place, wanted),
    plan(type, { databaseType }) {
      const plan = { POSTGRESQL: plans, MYSQL: mysql, MONGODB: {} as typeof plans }[databaseType][type]
      if (plan !== undefined) return plan
      throw new Rejected('provisioning/unsupported', `${type} is not for ${databaseType} with the local driver`)
    },
    bringUp: (instance, signal) =>
      instance.databaseType === 'MYSQL' ? bringUpMysql(place, instance, signal) : bringUp(place, instance, signal),
    observe: (instance) =>
      instance.databaseType === 'MYSQL'
        ? observeMysql(place, instance, rememberedOf(instance))
        : observe(place, instance, rememberedOf(instance)),
    guard: async (instance) => {
      if (instance.databaseType === 'POSTGRESQL') await guard(place, instance, rememberedOf(instance))
    },
    measure: (instance) => measure(place, instance, rememberedOf(instance)),
    lastBackupAt: (instance) => lastBackupAt(place, instance),
    untestedBackup: (instance, now) => untestedBackup(place, instance, now),
    forget: (uid) => void watched.delete(uid),
    ask: (question, instance, params) =>
      (instance.databaseType === 'MYSQL' ? askMysql : askPostgres)(place, question, instance, params),
    async close() {},
  }
}

const forget: Step = {
  name: 'FORGET',
  run: async () => ({ facts: [facts.deleted.of({ at: Date.now() })] }),
}

const advice = {
  POSTGRESQL: 'Install PostgreSQL 15 or newer (Debian: apt-get install postgresql).',
  MONGODB:
    'The local driver looks after PostgreSQL and MariaDB servers, and Debian has no MongoDB server it could install. Use databaseType POSTGRESQL or MYSQL here, or a MongoDB server that is run elsewhere.',
} as const
