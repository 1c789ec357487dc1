import type { Instance } from '../../../schemas/provisioning/instance.ts'
import { facts } from '../../../schemas/provisioning/instance-facts.ts'
import type { Plan, Step } from '../driver.ts'
import { setParameters } from './care-plans.ts'
import { startPrimary, startStandby } from './members.ts'
import { enableAudit, readAuditConfig, readAuditLog, readStatementLog } from './performance/audit.ts'
import { createExtension, hasLibrary, type PreloadLibrary, preloadLibrary } from './performance/preload.ts'
import type { LocalPlace } from './place.ts'
import { openPostgres, type PostgresInstance } from './postgres-instance.ts'

/** Statements are counted from now on. */
export function queryStatsPlan(place: LocalPlace): Plan {
  const enable: Step = {
    name: 'ENABLE',
    async run({ instance, operation, signal }) {
      const opened = await openPostgres(place, instance)
      await preload(opened, 'pg_stat_statements', signal)
      await createExtension(opened.primary(), 'pg_stat_statements')
      return { facts: [facts.settings.of({ queryStats: true, by: operation.by, at: Date.now() })] }
    },
  }
  return { steps: [enable], undo: [] }
}

const pgaudit = 'PGAUDIT'
/** Where there is no pgaudit: what changes the structure, and who logs in. */
const logStatement = 'LOG_STATEMENT'
const logSettings = { log_statement: 'ddl', log_connections: 'on', log_disconnections: 'on' }

/** Statements are written down from now on. */
export function auditPlan(place: LocalPlace): Plan {
  const enable: Step = {
    name: 'ENABLE',
    async run({ instance, operation, signal }) {
      const opened = await openPostgres(place, instance)
      const able = await hasLibrary(opened.primary(), 'pgaudit')
      if (able) {
        await preload(opened, 'pgaudit', signal)
        await enableAudit(opened.control, opened.primary())
      } else await setParameters(opened, logSettings, signal)
      const audit = able ? pgaudit : logStatement
      return { facts: [facts.settings.of({ audit, by: operation.by, at: Date.now() })] }
    },
  }
  return { steps: [enable], undo: [] }
}

/** What was asked for once, for servers that are new. */
export function auditAgain(place: LocalPlace): Step {
  return {
    name: 'INSIGHT',
    async run(work) {
      const { queryStats, audit } = work.instance
      if (queryStats) await queryStatsPlan(place).steps[0]!.run(work)
      if (audit !== null) await auditPlan(place).steps[0]!.run(work)
      return undefined
    },
  }
}

/** Every server loads it, the standbys first; the supervisor looks after each as before. */
async function preload(opened: PostgresInstance, library: PreloadLibrary, signal: AbortSignal): Promise<void> {
  const primary = opened.primary()
  for (const member of opened.standbys) {
    const node = opened.nodeOf(member)
    await preloadLibrary(opened.control, node, library)
    await startStandby(opened, primary.port, node, signal)
  }
  await preloadLibrary(opened.control, primary, library)
  await startPrimary(opened, primary, opened.standbys.length, signal)
}

export async function auditConfig(opened: PostgresInstance, { audit }: Instance): Promise<object> {
  if (audit !== logStatement) return { mode: audit, ...(await readAuditConfig(opened.primary())) }
  return { enabled: true, mode: audit, logLevel: logSettings.log_statement, settings: logSettings }
}

export async function auditLogs(opened: PostgresInstance, { audit }: Instance, count: number): Promise<object> {
  const read = audit === logStatement ? readStatementLog : readAuditLog
  const lines = await read(opened.primary(), count)
  return { logs: lines.join('\n'), lines }
}
