import type { Bus } from '../../bus/connect.ts'
import { decide } from '../../bus/decide.ts'
import { eventSubject } from '../../bus/subject.ts'
import { type AuditRecord, auditLog, decideRecord } from '../../schemas/workflows/audit.ts'

export const auditPlace = { stream: 'EVT_AUDIT', subject: eventSubject('audit', 'log', 'workflows') }

/** Appends to the chain of the audit log. */
export interface AuditTrail {
  /** Resolves when the bus has it. @throws {BusUnavailable} */
  record(record: AuditRecord): Promise<void>
}

/** With a text of 300 bytes each they stay below what a message takes. */
const maxTogether = 100
/** Each gateway writes behind the others. */
const conflictRetries = 50

interface Waiting {
  readonly record: AuditRecord
  readonly done: () => void
  readonly fail: (error: unknown) => void
}

/** What comes while a message is on its way goes into the next one together: one writer at a time, and no waiting line. */
export function openAuditTrail(bus: Bus): AuditTrail {
  let waiting: Waiting[] = []
  let writing = false
  const write = async () => {
    while (waiting.length > 0) {
      const batch = waiting.slice(0, maxTogether)
      waiting = waiting.slice(maxTogether)
      const records = batch.map(({ record }) => record)
      try {
        await decide(bus, {
          ...auditPlace,
          aggregate: auditLog,
          retries: conflictRetries,
          decide: (head) => decideRecord(head, records),
        })
        for (const { done } of batch) done()
      } catch (error) {
        for (const { fail } of batch) fail(error)
      }
    }
    writing = false
  }
  return {
    record(record) {
      return new Promise((done, fail) => {
        waiting.push({ record, done, fail })
        if (writing) return
        writing = true
        void write()
      })
    },
  }
}
