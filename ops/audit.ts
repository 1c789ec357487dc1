import { type ChainReport, headOf, verifyAudit } from '../gateways/workflows/audit-verify.ts'
import type { Config } from '../schemas/config.ts'
import { openBus } from './bus.ts'
import { OperatorError } from './local/operator-error.ts'
import { createLog } from './log.ts'

/** @param noted `<number>:<hash>` of an entry, as an earlier run has shown it @throws {OperatorError} */
export async function verifyAuditLog(config: Config, noted: string | undefined): Promise<ChainReport> {
  const expected = noted === undefined ? null : headOf(noted)
  if (noted !== undefined && expected === null) {
    throw new OperatorError('--head must be <number>:<hash>, as `busbar audit verify` shows it.')
  }
  const bus = await openBus(config, createLog('error'), 'audit', 'all')
  try {
    return await verifyAudit(bus, { expected })
  } finally {
    await bus.close()
  }
}

/** What was found, in a line or two. */
export function shownReport({ first, entries, messages, head, broken }: ChainReport): string {
  if (broken !== null) {
    return `The audit log is broken at message ${broken.sequence} of EVT_AUDIT: ${broken.reason}. Whole until entry ${head.number}.\n`
  }
  if (entries === 0) return 'The audit log is empty.\n'
  const before =
    first === 1 ? '' : `Entries before ${first} are not there: forgotten, if the stream was told to, or removed.\n`
  return `The audit log is whole: ${entries} entries from ${first} to ${head.number}, in ${messages} messages.\n${before}Head ${head.number}:${head.hash}\n`
}
