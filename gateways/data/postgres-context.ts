import { hash } from 'node:crypto'
import { LRUCache } from 'lru-cache'
import { type CallContext, type Parameter, type Statement, statement } from './statement.ts'

/** Emits a call's command into the WAL; its parameter is the command. */
export const emitCommand = statement(`select pg_catalog.pg_logical_emit_message(true, 'busbar.command', $1)`)
const contextStatements = [1, 2, 3, 4, 5, 6, 7].map(contextStatement)

/** Sets what the context asks for, for the transaction; null when that is nothing. The values are added to `parameters`. */
export function contextStatementOf(context: CallContext, parameters: Parameter[]): Statement | null {
  const mask = contextMask(context, parameters)
  return mask === 0 ? null : contextStatements[mask - 1]!
}

function contextStatement(mask: number): Statement {
  const settings: string[] = []
  if (mask & 1) settings.push(`pg_catalog.set_config('role', $${settings.length + 1}, true)`)
  if (mask & 2) settings.push(`pg_catalog.set_config('request.jwt.claims', $${settings.length + 1}, true)`)
  if (mask & 4) settings.push(`pg_catalog.set_config('transaction_read_only', 'on', true)`)
  return statement(`select ${settings.join(', ')}`)
}

/** Which settings the context needs (1 role, 2 claims, 4 read-only); their values are added to `parameters`. */
function contextMask({ role, claims, readOnly }: CallContext, parameters: Parameter[]): number {
  let mask = readOnly ? 4 : 0
  if (role !== undefined) {
    mask += 1
    parameters.push(role)
  }
  if (claims !== undefined) {
    mask += 2
    parameters.push(claims)
  }
  return mask
}

/**
 * Each role has its own prepared statements: rights on schemas are checked when a statement is parsed, and plans under row
 * security belong to a role.
 */
export function statementName(of: Statement, role: string | undefined): string {
  return role === undefined ? of.name : `${of.name}_${roleDigest(role)}`
}

const roleDigests = new LRUCache<string, string>({ max: 1000 })

function roleDigest(role: string): string {
  const known = roleDigests.get(role)
  if (known !== undefined) return known
  const digest = hash('sha1', role, 'hex').slice(0, 16)
  roleDigests.set(role, digest)
  return digest
}
