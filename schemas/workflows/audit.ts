import { createHash } from 'node:crypto'
import { type Static, Type } from 'typebox'
import { type Aggregate, defineEvent, defineEvents, type EventSet } from '../../bus/message.ts'

const Text = Type.Union([Type.String(), Type.Null()])
const told = {
  id: Type.String(),
  at: Type.Integer({ description: 'epoch ms' }),
  username: Type.String({
    description: '`anonymous` when nobody had to say who they are; `cli:<name>` at the machine',
  }),
  role: Text,
  action: Type.String({ description: '`<object>.<verb>`' }),
  resourceType: Type.String(),
  resourceId: Text,
  outcome: Type.Enum(['SUCCESS', 'FAILED', 'DENIED']),
  statusCode: Type.Union([Type.Integer(), Type.Null()], { description: 'of HTTP' }),
  error: Type.Union([Type.String(), Type.Null()], { description: 'the code of the failure' }),
  ip: Text,
  requestId: Text,
}
const Entry = Type.Object(
  {
    ...told,
    number: Type.Integer({ minimum: 1, description: 'its place in the chain' }),
    previousHash: Type.String({ description: 'of the entry before; 64 zeros at the first' }),
    hash: Type.String({ description: 'SHA-256 over the entry and the hash before, hex' }),
  },
  { additionalProperties: false },
)

/** Somebody has commanded something. */
const AuditRecorded = defineEvent('workflows.audit.recorded', Entry)
export const auditEvents = defineEvents(AuditRecorded)
type AuditFact = typeof auditEvents extends EventSet<infer F> ? F : never

/** An entry in the chain. */
export type AuditEntry = Static<typeof Entry>
/** An entry that has no place yet. */
export type AuditRecord = Omit<AuditEntry, 'number' | 'previousHash' | 'hash'>

export interface AuditHead {
  /** Of the last entry; 0 when there is none. */
  readonly number: number
  readonly hash: string
}

export const noHash = '0'.repeat(64)

/** Who has commanded what, and what became of it. Subject `evt.audit.log.workflows`, stream `EVT_AUDIT`. */
export const auditLog: Aggregate<AuditHead, AuditFact> = {
  events: auditEvents,
  initial: { number: 0, hash: noHash },
  evolve: (_head, { data: { number, hash } }) => ({ number, hash }),
}

/** Puts records behind the head, in their order. */
export function decideRecord(head: AuditHead, records: readonly AuditRecord[]): readonly AuditFact[] {
  let { number, hash } = head
  return records.map((record) => {
    const place = { ...record, number: ++number, previousHash: hash }
    hash = entryHash(place)
    return AuditRecorded.of({ ...place, hash })
  })
}

/** SHA-256 over all members but `hash`, as JSON in the order below. */
function entryHash(entry: Omit<AuditEntry, 'hash'>): string {
  const { number, previousHash, id, at, username, role, action } = entry
  const { resourceType, resourceId, outcome, statusCode, error, ip, requestId } = entry
  const who = [number, previousHash, id, at, username, role, action]
  const what = [resourceType, resourceId, outcome, statusCode, error, ip, requestId]
  return createHash('sha256')
    .update(JSON.stringify([...who, ...what]))
    .digest('hex')
}

/** Why an entry cannot be the one behind the head; null when it can. */
export function chainMistake(head: AuditHead, entry: AuditEntry): string | null {
  if (entry.number !== head.number + 1) return `is number ${entry.number}, and ${head.number + 1} was to come`
  if (entry.previousHash !== head.hash) return 'does not carry the hash of the entry before'
  return entryHash(entry) === entry.hash ? null : 'is not what its hash was made of'
}
